#include "gguf/file_range.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kvasir::gguf {
namespace {

// Smaller: more calls than the disk needs; larger: pieces leave the processor's cache before they
// are hashed.
constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

Result<void> read_range(const MappedFile& file, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(file.descriptor(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::io("{}: cannot read: {}", file.path(), std::strerror(errno));
    if (count == 0)
      return Error::io("{}: ends at byte {}; it was cut off while it was read", file.path(),
                       offset);
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return {};
}

Result<bool> RangeReader::read(const MappedFile& file, uint64_t offset, uint64_t bytes,
                               const Piece& piece) {
  buffer_.resize(kPieceBytes);
  for (uint64_t done = 0; done < bytes;) {
    const auto step = static_cast<size_t>(std::min<uint64_t>(kPieceBytes, bytes - done));
    const std::span<std::byte> out = std::span(buffer_).first(step);
    KVASIR_TRY_VOID(read_range(file, offset + done, out));
    KVASIR_TRY(bool more, piece(out));
    if (!more) return false;
    done += step;
  }
  return true;
}

}  // namespace kvasir::gguf
