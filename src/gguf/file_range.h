// Reads of a file that do not go through its mapping: a file that was cut off meanwhile is an error
// here, not the end of the process.
#pragma once

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace kvasir::gguf {

// Fills `out` from `offset` on. kIo naming the file, also where it ends too early.
Result<void> read_range(const MappedFile& file, uint64_t offset, std::span<std::byte> out);

// The range piece by piece, in order, through a buffer that is kept for the next one. False from
// `piece` ends it; the result is whether all was read.
class RangeReader {
 public:
  using Piece = std::function<Result<bool>(ByteSpan bytes)>;
  Result<bool> read(const MappedFile& file, uint64_t offset, uint64_t bytes, const Piece& piece);

 private:
  std::vector<std::byte> buffer_;
};

}  // namespace kvasir::gguf
