// Signals as something that is read: those by which a person ends the program, and the news that a
// child has ended.
#pragma once

#include <signal.h>

#include "base/error.h"
#include "chaos/poll_set.h"

namespace kvasir::chaos {

// While one exists, SIGINT, SIGTERM, SIGHUP and SIGCHLD do nothing but become readable here. One at
// a time; children that start meanwhile have to unblock signals (ChildProcess does). One thread.
class SignalWatch {
 public:
  static Result<SignalWatch> create();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch& operator=(SignalWatch&&) = delete;
  ~SignalWatch();

  void add_to(PollSet& polled);
  // Whether the program was told to stop.
  bool stop_requested() const { return stop_requested_; }

 private:
  explicit SignalWatch(int descriptor, const sigset_t& before)
      : descriptor_(descriptor), before_(before) {}
  void read();

  int descriptor_;
  sigset_t before_;
  bool stop_requested_ = false;
};

}  // namespace kvasir::chaos
