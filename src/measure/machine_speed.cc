#include "measure/machine_speed.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

namespace kvasir::measure {
namespace {

constexpr int kPasses = 3;
// One task of a pass. Smaller: the hand-out of tasks shows; larger: at the end threads wait.
constexpr size_t kReadTaskBytes = size_t{2} << 20;
// Some 0.2 ms of a gigahertz processor, and 30 ms of such tasks per thread.
constexpr size_t kRoundsPerTask = 20'000;
constexpr size_t kInt8TasksPerThread = 160;

double seconds_of(ThreadPool& pool, size_t tasks, const ThreadPool::Task& task) {
  const auto start = std::chrono::steady_clock::now();
  pool.run(tasks, task);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(int passes, const std::function<double()>& units_per_s) {
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) best = std::max(best, units_per_s());
  return best;
}

}  // namespace

size_t read_buffer_bytes(size_t threads) {
  constexpr size_t kStep = size_t{512} << 20;
  return std::clamp<size_t>((threads + 15) / 16, 1, 8) * kStep;
}

Result<ReadBuffer> ReadBuffer::create(size_t bytes, ThreadPool& pool) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Error::limit("no memory for a buffer of {} bytes to measure the machine with", bytes);
  ReadBuffer buffer(static_cast<std::byte*>(memory), bytes);
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish; small pages do as well
  const auto fill = [&](size_t index, size_t) {
    const size_t begin = index * kReadTaskBytes;
    std::memset(buffer.data_ + begin, 0x5a, std::min(kReadTaskBytes, bytes - begin));
  };
  pool.run((bytes + kReadTaskBytes - 1) / kReadTaskBytes, fill);
  return buffer;
}

ReadBuffer::ReadBuffer(ReadBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

ReadBuffer::~ReadBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

MachineSpeed measure_machine(const kernels::MachinePeak& peak, ThreadPool& pool,
                             ByteSpan read_buffer, ByteSpan mapped) {
  std::atomic<uint64_t> sink{0};  // so that the work has a result
  const auto read_speed = [&](ByteSpan bytes) {
    const size_t tasks = bytes.size() / kReadTaskBytes;
    const auto read = [&](size_t index, size_t) {
      sink ^= peak.read(bytes.data() + index * kReadTaskBytes, kReadTaskBytes);
    };
    return static_cast<double>(tasks * kReadTaskBytes) / seconds_of(pool, tasks, read);
  };
  const size_t int8_tasks = kInt8TasksPerThread * pool.threads();
  const auto multiply = [&](size_t, size_t) { sink ^= peak.int8_rounds(kRoundsPerTask); };
  const auto operations =
      static_cast<double>(int8_tasks * kRoundsPerTask * peak.int8_operations_per_round);

  MachineSpeed speed;
  speed.read_bytes_per_s = best_of(kPasses, [&] { return read_speed(read_buffer); });
  if (mapped.size() >= kReadTaskBytes)
    speed.mapped_bytes_per_s = best_of(kPasses, [&] { return read_speed(mapped); });
  speed.int8_operations_per_s =
      best_of(kPasses, [&] { return operations / seconds_of(pool, int8_tasks, multiply); });
  return speed;
}

}  // namespace kvasir::measure
