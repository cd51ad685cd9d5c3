// How fast this machine is at the two things that limit a model: reading memory and multiplying
// small integers. Measured, with all threads of a pool at once.
#pragma once

#include <cstddef>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/machine_peak.h"

namespace kvasir::measure {

// Memory to stream over, larger than the caches in front of it: anonymous pages, huge ones where
// the system gives them, written once so that they exist. One owner, movable.
class ReadBuffer {
 public:
  // kLimit if there is not that much memory.
  static Result<ReadBuffer> create(size_t bytes, ThreadPool& pool);

  ReadBuffer(ReadBuffer&& other) noexcept;
  ReadBuffer& operator=(ReadBuffer&&) = delete;
  ~ReadBuffer();

  ByteSpan bytes() const { return {data_, size_}; }

 private:
  ReadBuffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  size_t size_;
};

// Half a gigabyte for every 16 threads, at most 4 GiB. Less, and the last-level caches of a large
// machine hold a good part of it.
size_t read_buffer_bytes(size_t threads);

// The best of a few passes: what disturbs a pass only ever makes it slower. About 0.2 s.
struct MachineSpeed {
  double read_bytes_per_s = 0;    // from the buffer
  double mapped_bytes_per_s = 0;  // from mapped weights; 0: not measured
  double int8_operations_per_s = 0;
};
// mapped: weights that are in memory. They lie in the pages of the page cache, often small ones,
// and may be slower to read than the buffer. Empty, or smaller than a task: not measured.
MachineSpeed measure_machine(const kernels::MachinePeak& peak, ThreadPool& pool,
                             ByteSpan read_buffer, ByteSpan mapped);

}  // namespace kvasir::measure
