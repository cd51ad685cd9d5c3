// One GGUF file's header: parsed and checked completely before anything of it is used.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "gguf/metadata.h"
#include "gguf/types.h"

namespace kvasir::gguf {

// Limits of the reader. Real files stay far below; a hostile one must not make us allocate.
inline constexpr uint64_t kHeaderBytesMax = uint64_t{64} << 20;
inline constexpr uint64_t kKeysMax = 65'536;
inline constexpr uint64_t kTensorsMax = 65'536;
inline constexpr uint64_t kKeyBytesMax = 65'535;
inline constexpr uint64_t kTensorNameBytesMax = 63;
inline constexpr uint64_t kStringBytesMax = uint64_t{16} << 20;
inline constexpr uint64_t kArrayCountMax = uint64_t{1} << 24;
inline constexpr uint64_t kAlignmentMin = 8;
inline constexpr uint64_t kAlignmentMax = 65'536;
inline constexpr uint64_t kAlignmentDefault = 32;

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  uint32_t n_dims = 1;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // ne order: dims[0] is the row length
  uint64_t offset = 0;                          // in the file (not relative to the data section)
  uint64_t bytes = 0;
};

struct Header {
  uint32_t version = 3;
  uint64_t alignment = kAlignmentDefault;
  uint64_t data_offset = 0;  // where the data section starts
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // in the file's order
  // Of the data section: bytes that belong neither to a tensor nor to the padding behind one. 0 in
  // files of the usual writers; what is hidden there is never read.
  uint64_t unused_bytes = 0;
};

// `file` is the whole file (mapped: only the header's pages are touched). Checks every rule of
// docs/gguf.md; all tensor extents lie inside the file and do not overlap. The result refers to the
// bytes of `file`.
Result<Header> parse_header(ByteSpan file);

}  // namespace kvasir::gguf
