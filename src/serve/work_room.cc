#include "serve/work_room.h"

namespace kvasir::serve {

WorkRoom::WorkRoom(size_t threads, size_t waiting_max) : waiting_max_(waiting_max) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkRoom::~WorkRoom() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkRoom::give(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_ || waiting_.size() >= waiting_max_) return false;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkRoom::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace kvasir::serve
