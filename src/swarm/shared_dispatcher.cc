#include "swarm/shared_dispatcher.h"

#include <chrono>

namespace kvasir::swarm {

TimeUs now_us() {
  return static_cast<TimeUs>(std::chrono::duration_cast<std::chrono::microseconds>(
                                 std::chrono::steady_clock::now().time_since_epoch())
                                 .count());
}

void SharedDispatcher::on_news(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void SharedDispatcher::pass_on(std::unique_lock<std::mutex>& lock) {
  // Once for all that waits: who is told takes everything.
  const bool tell = dispatcher_.has_news() && callback_ != nullptr;
  const std::function<void()> callback = tell ? callback_ : nullptr;
  const bool wake = dispatcher_.take_wakeup();
  lock.unlock();
  if (wake) news_.notify_all();
  if (callback) callback();
}

void SharedDispatcher::wait(const Call& call, TimeUs until) {
  std::unique_lock lock(mutex_);
  const auto has_news = [&call] { return Dispatcher::is_wakeup_due(call); };
  if (until == kNeverUs) {
    news_.wait(lock, has_news);
    return;
  }
  const std::chrono::steady_clock::time_point at{std::chrono::microseconds(until)};
  news_.wait_until(lock, at, has_news);
}

}  // namespace kvasir::swarm
