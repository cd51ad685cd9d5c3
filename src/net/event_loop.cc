#include "net/event_loop.h"

#include <fmt/format.h>
#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include <thread>

#include "net/asio_impl.h"

namespace kvasir::net {
namespace {

using Clock = std::chrono::steady_clock;
// Later than this is as good as never, and far from where a clock's ticks overflow.
constexpr Time kFarMs = Time{365} * 24 * 3600 * 1000;

}  // namespace

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run() {
  auto work = asio::make_work_guard(impl_->context);
  impl_->context.run();
}

void EventLoop::stop() {
  impl_->context.stop();
}

void EventLoop::post(std::function<void()> callback) {
  asio::post(impl_->context, std::move(callback));
}

Time EventLoop::now() {
  return static_cast<Time>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count());
}

struct LoopThread::State {
  EventLoop loop;
  std::thread thread{[this] { loop.run(); }};
};

LoopThread::LoopThread() : state_(std::make_unique<State>()) {}
LoopThread::~LoopThread() {
  state_->loop.stop();
  state_->thread.join();
}
EventLoop& LoopThread::loop() {
  return state_->loop;
}

struct Timer::State {
  explicit State(EventLoop& loop) : timer(loop.impl().context) {}

  asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, asio::io_context::executor_type>
      timer;
  uint64_t plan = 0;  // counts at() and cancel(): a wait of an older plan has nothing to say
};

Timer::Timer(EventLoop& loop) : state_(std::make_shared<State>(loop)) {}
Timer::~Timer() {
  cancel();
}

void Timer::at(Time time, std::function<void()> callback) {
  cancel();
  if (time == kNever) return;
  const Time until = std::min(time, EventLoop::now() + kFarMs);
  state_->timer.expires_at(
      Clock::time_point(std::chrono::milliseconds(static_cast<int64_t>(until))));
  // The loop owns the callback, so what it holds ends with the loop, whoever holds the timer.
  state_->timer.async_wait(
      [state = state_, plan = state_->plan, callback = std::move(callback)](const ErrorCode&) {
        if (state->plan == plan) callback();
      });
}

void Timer::cancel() {
  ++state_->plan;
  state_->timer.cancel();
}

std::string remote_address_text(const Socket& socket) {
  ErrorCode error;
  const auto end = socket.remote_endpoint(error);
  if (error) return "?";
  const std::string address = end.address().to_string();
  return end.address().is_v6() ? fmt::format("[{}]:{}", address, end.port())
                               : fmt::format("{}:{}", address, end.port());
}

void set_no_delay(Socket& socket) {
  ErrorCode ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void close_quietly(Socket& socket) {
  ErrorCode ignored;
  socket.close(ignored);
}

}  // namespace kvasir::net
