// A fixed set of threads that work through numbered tasks together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace kvasir {

// Thread-safe in this sense: run() may be called from one thread at a time. With 1 thread, or where
// threads do not exist, everything runs on the caller.
class ThreadPool {
 public:
  // Takes fewer threads, down to the caller alone, where the system does not give that many.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const { return threads_; }

  // Calls task(index, thread) for every index in [0, tasks), thread in [0, threads()); returns when
  // all are done. A thread takes neighbouring indices in ascending order while there are any, so
  // that it reads on where it was; which ones is not determined, so a task must compute the same
  // wherever it runs. Tasks must not throw and must not call run().
  using Task = std::function<void(size_t index, size_t thread)>;
  void run(size_t tasks, const Task& task);

 private:
  struct Shared;
  size_t threads_;
  std::unique_ptr<Shared> shared_;
};

// The number of threads to use when the user named none: the processors this process may run on.
size_t default_thread_count();

}  // namespace kvasir
