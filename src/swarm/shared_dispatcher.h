// The dispatcher between the threads that compute and the thread of the connections.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "swarm/dispatcher.h"

namespace kvasir::swarm {

// Microseconds of the steady clock.
TimeUs now_us();

// Thread-safe.
class SharedDispatcher {
 public:
  SharedDispatcher(ModelRoutes routes, const kernels::KernelTable& kernels, DispatchOptions options)
      : dispatcher_(std::move(routes), kernels, options) {}

  // Called, without the lock, whenever frames wait or workers were convicted. Must not wait.
  void on_news(std::function<void()> callback);

  // `use` sees the dispatcher alone; what it caused is then passed on.
  template <typename Use>
  auto with(Use use) {
    std::unique_lock lock(mutex_);
    if constexpr (std::is_void_v<decltype(use(dispatcher_))>) {
      use(dispatcher_);
      pass_on(lock);
    } else {
      auto result = use(dispatcher_);
      pass_on(lock);
      return result;
    }
  }

  // Until something happens to the call, or `until`.
  void wait(const Call& call, TimeUs until);

 private:
  // Unlocks.
  void pass_on(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable news_;
  Dispatcher dispatcher_;
  std::function<void()> callback_;
};

}  // namespace kvasir::swarm
