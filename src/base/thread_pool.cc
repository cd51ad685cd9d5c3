#include "base/thread_pool.h"

#include "base/fp_environment.h"

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)

namespace kvasir {
struct ThreadPool::Shared {};
ThreadPool::ThreadPool(size_t) : threads_(1) {
  set_canonical_fp_environment();
}
ThreadPool::~ThreadPool() = default;
void ThreadPool::run(size_t tasks, const Task& task) {
  for (size_t index = 0; index < tasks; ++index) task(index, 0);
}
size_t default_thread_count() {
  return 1;
}
}  // namespace kvasir

#else

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kvasir {
namespace {

// How often a thread looks for the next batch of tasks before it sleeps. A layer starts some twenty
// batches a few microseconds apart; sleeping in between would cost more than the work. Larger: idle
// servers burn processor time after each token.
constexpr int kSpins = 4000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The tasks that a thread starts with. On a cache line of its own: its owner counts on it.
struct alignas(64) Share {
  std::atomic<size_t> next{0};
  size_t end = 0;
};

// One batch of tasks at a time. `generation` announces a batch, `shares` hand out its tasks,
// `active` counts the helpers that may still touch it; the caller returns when that is 0 again.
struct ThreadPool::Shared {
  explicit Shared(size_t threads_max) : shares(threads_max) {}

  std::atomic<uint64_t> generation{0};
  std::vector<Share> shares;
  size_t threads = 0;  // as many shares are in use
  std::atomic<size_t> active{0};
  std::atomic<bool> stop{false};
  const Task* task = nullptr;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> helpers;

  // Its own share first, then what others have not got to.
  void work(size_t thread) {
    for (size_t i = 0; i < threads; ++i) {
      Share& share = shares[(thread + i) % threads];
      for (;;) {
        const size_t index = share.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= share.end) break;
        (*task)(index, thread);
      }
    }
  }

  void helper(size_t thread) {
    set_canonical_fp_environment();
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < kSpins && generation.load(std::memory_order_acquire) == seen;
           ++spin)
        relax();
      if (generation.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
      }
      seen = generation.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      work(thread);
      active.fetch_sub(1, std::memory_order_release);
    }
  }

  void announce() {
    {
      std::lock_guard lock(mutex);  // a helper between its check and its sleep must not miss this
      generation.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(size_t threads)
    : threads_(threads == 0 ? 1 : threads), shared_(std::make_unique<Shared>(threads_)) {
  set_canonical_fp_environment();
  try {
    for (size_t thread = 1; thread < threads_; ++thread)
      shared_->helpers.emplace_back([shared = shared_.get(), thread] { shared->helper(thread); });
  } catch (const std::system_error&) {
    // The system has no more threads or memory for their stacks. Fewer give the same results.
    threads_ = shared_->helpers.size() + 1;
  }
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true);
  shared_->announce();
  for (std::thread& helper : shared_->helpers) helper.join();
}

void ThreadPool::run(size_t tasks, const Task& task) {
  if (tasks == 0) return;
  if (threads_ == 1 || tasks == 1) {
    for (size_t index = 0; index < tasks; ++index) task(index, 0);
    return;
  }
  Shared& shared = *shared_;
  shared.task = &task;
  shared.threads = threads_;
  for (size_t thread = 0; thread < threads_; ++thread) {
    shared.shares[thread].next.store(tasks * thread / threads_, std::memory_order_relaxed);
    shared.shares[thread].end = tasks * (thread + 1) / threads_;
  }
  shared.active.store(threads_ - 1, std::memory_order_relaxed);
  shared.announce();
  shared.work(0);
  for (int spin = 0; shared.active.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins)
      relax();
    else
      std::this_thread::yield();
  }
}

size_t default_thread_count() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<size_t>(count);
  }
  unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

}  // namespace kvasir

#endif
