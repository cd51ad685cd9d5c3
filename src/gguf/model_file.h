// A model on disk: one GGUF file or all parts of a split one, mapped read-only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/header.h"

namespace kvasir::gguf {

// A tensor with its bytes. `part` and `info.offset` say where they are on disk.
struct TensorView {
  const TensorInfo* info = nullptr;
  size_t part = 0;
  ByteSpan data;
};

// Thread-safe for reading.
class ModelFile {
 public:
  // `path` may name any part of a split model "<prefix>-00001-of-0000N.gguf"; the others are looked
  // for beside it, and all missing ones are listed in the error before anything is loaded.
  static Result<ModelFile> open(const std::string& path);

  // The metadata of the first part, which carries everything but split.*.
  const Metadata& metadata() const { return parts_.front().header.metadata; }
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;

  size_t parts() const { return parts_.size(); }
  const MappedFile& part_file(size_t part) const { return parts_[part].file; }
  const Header& part_header(size_t part) const { return parts_[part].header; }
  uint64_t file_bytes() const;    // of all parts
  uint64_t tensor_bytes() const;  // of all tensors

 private:
  struct Part {
    MappedFile file;
    Header header;
  };
  std::vector<Part> parts_;
  std::vector<TensorView> tensors_;
  std::map<std::string_view, size_t> index_;  // ordered: a hash could be made to collide
};

}  // namespace kvasir::gguf
