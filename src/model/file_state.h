// What a file is known by without reading it: path, size and time of the last change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/model_file.h"

namespace kvasir::model {

struct FileState {
  std::string path;  // absolute, links followed
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // since 1970
  bool operator==(const FileState&) const = default;
};

// Of every part as it was opened, now.
Result<std::vector<FileState>> file_states(const gguf::ModelFile& file);

}  // namespace kvasir::model
