// What a single-threaded program waits for: descriptors, each with what to do when it is ready.
// Built anew for every round, so that nothing has to be unregistered. One thread.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

namespace kvasir::chaos {

class PollSet {
 public:
  // Descriptors below zero are left out.
  void add(int descriptor, short events, std::function<void()> when_ready) {
    if (descriptor < 0) return;
    polled_.push_back({descriptor, events, 0});
    actions_.push_back(std::move(when_ready));
  }

  // Waits for at most `wait_ms`, then does what is due. What was added is still valid: the actions
  // may close descriptors, but only their own.
  void wait(int wait_ms) {
    if (::poll(polled_.data(), polled_.size(), wait_ms) <= 0) return;
    for (size_t i = 0; i < polled_.size(); ++i)
      if (polled_[i].revents != 0) actions_[i]();
  }

 private:
  std::vector<pollfd> polled_;
  std::vector<std::function<void()>> actions_;
};

}  // namespace kvasir::chaos
