#include "net/session_driver.h"

namespace kvasir::net {
namespace {

// A closed session's last words: a message and the closing handshake.
constexpr Time kLastWordsWithinMs = 5'000;

}  // namespace

struct SessionDriver::State : std::enable_shared_from_this<State> {
  State(EventLoop& loop, std::unique_ptr<MessageSocket> s, std::unique_ptr<wire::Session> w,
        Handler h)
      : socket(std::move(s)), session(std::move(w)), on_event(std::move(h)), timer(loop) {}

  void start() {
    MessageEvents events;
    events.on_message = [weak = weak_from_this()](std::span<std::byte> message) {
      if (auto self = weak.lock())
        self->deliver(self->session->on_message(message, EventLoop::now()));
    };
    events.on_writable = [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->settle();
    };
    events.on_closed = [weak = weak_from_this()](uint16_t code, std::string_view) {
      auto self = weak.lock();
      if (!self) return;
      self->socket.reset();
      self->deliver(self->session->on_disconnected(code, EventLoop::now()));
    };
    socket->start(std::move(events));
    settle();
  }

  // The caller holds this: a handler may destroy the driver.
  void deliver(wire::SessionEvents events) {
    for (wire::SessionEvent& event : events) {
      if (abandoned) break;
      on_event(event);
    }
    settle();
  }

  // After anything happened: writes, closes and plans what is due.
  void settle() {
    if (socket && !closing && socket->can_write()) {
      std::vector<std::byte> message = session->next_message(EventLoop::now());
      if (!message.empty()) {
        socket->write(std::move(message));
      } else if (const auto& closed = session->closed()) {
        closing = true;
        socket->close(static_cast<uint16_t>(closed->code), closed->reason);
      }
    }
    plan();
  }

  void plan() {
    if (!socket) {
      timer.cancel();
      return;
    }
    if (session->closed()) {
      if (std::exchange(last_words, true)) return;
      // Holds this, so that a driver may go before its last words are said.
      timer.at(EventLoop::now() + kLastWordsWithinMs,
               [self = shared_from_this()] { self->socket.reset(); });
      return;
    }
    // Most wake-ups move away with every message: then the timer stays, and looks again when it
    // fires.
    const Time wake_at = session->wake_at();
    if (wake_at >= planned) return;
    planned = wake_at;
    timer.at(wake_at, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->on_timer();
    });
  }

  void on_timer() {
    planned = kNever;
    const Time now = EventLoop::now();
    if (now >= session->wake_at())
      deliver(session->on_timer(now));
    else
      plan();
  }

  // The driver is gone.
  void abandon() {
    abandoned = true;
    if (session->closed()) {
      settle();
    } else {
      timer.cancel();
      socket.reset();
    }
  }

  std::unique_ptr<MessageSocket> socket;  // until it is closed
  const std::unique_ptr<wire::Session> session;
  const Handler on_event;
  Timer timer;
  Time planned = kNever;
  bool closing = false, last_words = false, abandoned = false;
};

SessionDriver::SessionDriver(EventLoop& loop, std::unique_ptr<MessageSocket> socket,
                             std::unique_ptr<wire::Session> session, Handler on_event)
    : state_(std::make_shared<State>(loop, std::move(socket), std::move(session),
                                     std::move(on_event))) {
  state_->start();
}

SessionDriver::~SessionDriver() {
  state_->abandon();
}

wire::Session& SessionDriver::session() {
  return *state_->session;
}

bool SessionDriver::is_gone() const {
  return state_->socket == nullptr;
}

void SessionDriver::pump() {
  state_->settle();
}

}  // namespace kvasir::net
