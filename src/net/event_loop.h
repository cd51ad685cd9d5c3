// One thread that runs callbacks: of sockets, of timers, and what other threads hand over. The only
// scheduler of network code; nothing that runs on it may wait or compute for long.
#pragma once

#include <functional>
#include <memory>

#include "wire/jitter.h"

namespace kvasir::net {

using wire::kNever;
using wire::Time;

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();  // after run() has returned; drops callbacks that were never run
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs callbacks on the calling thread until stop().
  void run();
  // Thread-safe.
  void stop();
  // Thread-safe. In the order given, if one thread gives them.
  void post(std::function<void()> callback);
  // Milliseconds of a steady clock. Thread-safe.
  static Time now();

  // For net/*.cc: what the sockets' library wants.
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// An event loop with a thread of its own.
class LoopThread {
 public:
  LoopThread();
  ~LoopThread();  // stops the loop and waits for the thread
  EventLoop& loop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Calls back once at a time. The loop's thread only.
class Timer {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();  // cancels
  // Replaces what was planned before. kNever: cancels.
  void at(Time time, std::function<void()> callback);
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kvasir::net
