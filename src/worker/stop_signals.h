// SIGTERM and SIGINT as calls: the first asks to stop, the second ends the process at once.
#pragma once

#include <functional>
#include <memory>

namespace kvasir::worker {

// Make it before any other thread: those leave the signals to its own. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Called on a thread of its own, for the first signal. While there is nothing to call (at the
  // beginning, and after a null), that one ends the process, too. Waits for a call under way.
  void on_stop(std::function<void()> stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvasir::worker
