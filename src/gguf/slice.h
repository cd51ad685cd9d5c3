// A slice: some experts of some layers of a model, as a small GGUF file of their own. Its tensors
// are called as in the model and hold the same bytes, with fewer experts in the last dimension.
//
// Keys beside those of the model (docs/slices.md):
//   kvasir.slice.version   u32, 1
//   kvasir.slice.source    string, the model hash
//   kvasir.slice.layer     u32 array, ascending
//   kvasir.slice.first     u32 array: the first expert of each of these layers
//   kvasir.slice.count     u32 array: how many
//   kvasir.expert_group_size   u32
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "gguf/header.h"
#include "gguf/units.h"

namespace kvasir::gguf {

inline constexpr uint32_t kSliceVersion = 1;
inline constexpr std::string_view kSliceVersionKey = "kvasir.slice.version";
inline constexpr std::string_view kSliceSourceKey = "kvasir.slice.source";
inline constexpr std::string_view kSliceLayerKey = "kvasir.slice.layer";
inline constexpr std::string_view kSliceFirstKey = "kvasir.slice.first";
inline constexpr std::string_view kSliceCountKey = "kvasir.slice.count";

// Whether a file says that it is a slice; whether it is a good one, parse_slice() says.
bool is_slice(const Metadata& metadata);

// The same matrix of the neighbouring experts of one layer.
struct SliceMatrix {
  ExpertRole role = ExpertRole::kGate;
  TensorType type = TensorType::kF32;
  uint32_t n_in = 0;
  uint32_t n_out = 0;
  uint64_t expert_bytes = 0;
  ByteSpan data;  // expert after expert
};

struct SliceLayer {
  uint32_t layer = 0;
  ExpertRange experts;
  std::vector<SliceMatrix> matrices;  // gate, up and down, or gate_up and down
};

struct Slice {
  std::string source;  // the model hash it claims
  std::string architecture;
  std::string name;  // of the model; may be empty
  uint32_t n_experts = 0;
  uint32_t group_size = 0;
  uint32_t n_embd = 0;
  uint32_t width = 0;
  std::vector<SliceLayer> layers;  // ascending

  uint32_t n_units() const;
  uint64_t expert_count() const;  // over all layers
  uint64_t bytes() const;         // of all experts
};

// Checks that keys and tensors agree to the last byte: every layer that is announced is there with
// all matrices of its experts, and nothing else is. What the bytes hold is not looked at: see
// manifest_check.h. The result refers to the bytes of `file`.
Result<Slice> parse_slice(const Header& header, ByteSpan file);

// A slice on disk, mapped. Immutable, thread-safe.
class SliceFile {
 public:
  static Result<SliceFile> open(const std::string& path);
  const Slice& slice() const { return slice_; }
  const std::string& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.bytes().size(); }

 private:
  SliceFile(MappedFile file, Slice slice) : file_(std::move(file)), slice_(std::move(slice)) {}

  MappedFile file_;
  Slice slice_;
};

}  // namespace kvasir::gguf
