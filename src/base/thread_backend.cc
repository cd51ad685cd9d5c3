// Reads by threads that wait in pread(): for systems without io_uring.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/read_backend.h"

namespace kvasir {
namespace {

// Disks that need more reads at once to be fast are those of systems that have io_uring.
constexpr size_t kThreads = 8;

class ThreadBackend final : public ReadBackend {
 public:
  ThreadBackend() {
    try {
      while (threads_.size() < kThreads) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // Fewer give the same bytes; none at all is checked by depth().
    }
  }
  ~ThreadBackend() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;

  std::string_view name() const override { return "threads"; }
  size_t depth() const override { return threads_.size(); }

  void start(std::span<const PieceRead> pieces) override {
    {
      std::lock_guard lock(mutex_);
      pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
    }
    wake_.notify_all();
  }

  void wait(std::chrono::milliseconds patience, std::vector<PieceResult>& results) override {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, patience, [&] { return !results_.empty(); });
    results.insert(results.end(), results_.begin(), results_.end());
    results_.clear();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !pieces_.empty(); });
      if (stop_) return;
      const PieceRead piece = pieces_.front();
      pieces_.pop_front();
      lock.unlock();
      const ssize_t count =
          ::pread(piece.descriptor, piece.to, piece.bytes, static_cast<off_t>(piece.offset));
      const int64_t result = count >= 0 ? count : -int64_t{errno};
      lock.lock();
      results_.push_back({piece.slot, result});
      done_.notify_one();
    }
  }

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  std::deque<PieceRead> pieces_;
  std::vector<PieceResult> results_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<ReadBackend>> make_thread_backend() {
  auto backend = std::make_unique<ThreadBackend>();
  if (backend->depth() == 0) return Error::limit("the system has no threads left for reading");
  return std::unique_ptr<ReadBackend>(std::move(backend));
}

}  // namespace kvasir
