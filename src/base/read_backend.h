// How one piece of a file gets into memory without the caller waiting: the part of FileReader that
// differs between systems, and the seam where tests let reads fail. Knows nothing of retries.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvasir {

struct PieceRead {
  int descriptor = -1;
  uint64_t offset = 0;
  size_t bytes = 0;
  std::byte* to = nullptr;
  uint32_t slot = 0;  // below depth(); comes back in the result
};

struct PieceResult {
  uint32_t slot = 0;
  int64_t result = 0;  // bytes read, as of pread(), or -errno
};

// One thread. Destruction waits for what is in flight: the memory it goes to must be there until
// then.
class ReadBackend {
 public:
  virtual ~ReadBackend() = default;
  virtual std::string_view name() const = 0;
  // Most pieces in flight.
  virtual size_t depth() const = 0;
  virtual void start(std::span<const PieceRead> pieces) = 0;
  // Appends what has finished; waits for at least one piece, but no longer than `patience`. Must
  // not be called when nothing is in flight.
  virtual void wait(std::chrono::milliseconds patience, std::vector<PieceResult>& results) = 0;
};

// kUnsupported where the system has no io_uring or does not let us use it.
Result<std::unique_ptr<ReadBackend>> make_io_uring_backend();
// A pool of threads that wait in pread().
Result<std::unique_ptr<ReadBackend>> make_thread_backend();

}  // namespace kvasir
