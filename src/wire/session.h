// One end of a connection as a state machine without I/O: messages, timers and the connection's end
// come in; messages, the next wake-up and events come out. ServerSession and ClientSession meet by
// the handshake (docs/protocol.md); this class is what they share: tags, the path probe, liveness,
// credit and the order in which frames leave. One thread.
//
// A driver does, whenever something happened: call the on_...() that fits, handle the events, write
// next_message() whenever the socket has nothing left to write, and call on_timer() at wake_at().
// Once closed() is set: write what next_message() still has, then close the socket with that code.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire/credit.h"
#include "wire/frame.h"
#include "wire/handshake_messages.h"
#include "wire/liveness.h"
#include "wire/session_crypto.h"

namespace kvasir::wire {

// A client proved who it is and fits this server. Answer with ServerSession::admit() or refuse().
struct HelloArrived {
  Hello hello;
};
// Frames may be sent and arrive from now on.
struct SessionOpen {
  Key peer_key{};
  Role peer_role = Role::kWorker;
  Welcome welcome;
};
// A frame of work or coverage, or a relay's; its tag was good and its sender may send it. The body
// is not decoded, and points into the message given to on_message(). Call consumed(wire_bytes) when
// a data frame is dealt with.
struct FrameArrived {
  FrameHead head;
  ByteSpan body;
  size_t wire_bytes = 0;
};
struct SessionClosed {
  CloseCode code = CloseCode::kGoodbye;
  std::string reason;
  std::string hint;  // what a person can do; may be empty
};
using SessionEvent = std::variant<HelloArrived, SessionOpen, FrameArrived, SessionClosed>;
using SessionEvents = std::vector<SessionEvent>;

enum class Send : uint8_t {
  kQueued,
  kNoCredit,  // try again after the next event; the frame was not taken
  kFull,      // too many control frames wait: the socket does not take them
  kClosed,    // not open
};

struct SessionStats {
  uint64_t frames_damaged = 0, frames_replayed = 0, frames_missing = 0;
  std::optional<Time> round_trip_ms;  // of the last PING
};

// What both kinds of ends choose alike.
struct LinkConfig {
  uint64_t window_max = kCreditMax;       // see ReceiveCredit
  uint64_t frames_max = kFrameNumberMax;  // to send before new keys
  uint64_t seed = 0;                      // of the jitter of pings
};

class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A whole binary message; encryption, once there is one, undoes itself in place.
  SessionEvents on_message(std::span<std::byte> message, Time now);
  SessionEvents on_timer(Time now);
  // The socket is gone, with a WebSocket close code or 0.
  SessionEvents on_disconnected(uint16_t close_code, Time now);
  Time wake_at() const;

  // What to write next, as one message; empty if there is nothing.
  std::vector<std::byte> next_message(Time now);

  // Queues a frame that this end may send. The body is at most body_max(type) long.
  [[nodiscard]] Send send(FrameType type, uint64_t ticket, std::vector<std::byte> body, Time now);
  // Bytes of data frames that send() would take now.
  uint64_t credit_left() const { return send_credit_.left(); }
  // Whether frames that send() took still wait for next_message(); close() drops them.
  bool has_queued() const { return !control_.empty() || !data_.empty(); }
  void consumed(size_t wire_bytes, Time now);
  // Ends the session from this side. No event follows.
  void close(CloseCode code, std::string reason, std::string hint = {});

  bool is_open() const { return state_ == State::kOpen; }
  const std::optional<SessionClosed>& closed() const { return closed_; }
  SessionStats stats() const;

 protected:
  Session(Role role, const LinkConfig& config, Time now);

  enum class State : uint8_t { kHandshake, kProbing, kOpen, kClosed };
  State state() const { return state_; }

  // A message before there are tags.
  virtual void on_handshake(std::span<std::byte> message, Time now) = 0;
  // PROBE or PROBE_ECHO while probing; its sender may send it.
  virtual void on_probe(const Frame& frame, Time now) = 0;

  // Ends the session and tells the application.
  void fail(CloseCode code, std::string reason, std::string hint = {});
  void fail(CloseCode code, const Error& error) { fail(code, error.message, error.hint); }
  // fail(code, reason) if the present step takes longer.
  void set_deadline(Time at, CloseCode code, std::string reason);
  template <typename Event>
  void tell(Event event) {
    events_.emplace_back(std::in_place_type<Event>, std::move(event));
  }
  // A message without tags.
  void queue_message(std::vector<std::byte> message) { untagged_.push_back(std::move(message)); }
  // A probe or its echo: leaves before anything else and alone, so that its message has one size.
  void queue_probe(FrameType type, size_t index, std::vector<std::byte> body);

  void begin_probing(SessionTaggers taggers, Role peer_role);
  void open(const Key& peer_key, Welcome welcome, Time now);

 private:
  struct Outgoing {
    FrameHead head;
    std::vector<std::byte> body;
  };

  SessionEvents take_events();
  void on_frames(std::span<std::byte> message, Time now);
  void on_frame(const Frame& frame, Time now);
  void on_link_frame(const Frame& frame, Time now);
  bool count_data(const Frame& frame);
  void queue_frame(FrameType type, uint64_t ticket, std::vector<std::byte> body);
  void pack_link_frames(MessageWriter& writer, Time now);
  void pack(MessageWriter& writer, std::deque<Outgoing>& queue);

  const Role role_;
  const uint64_t frames_max_;
  Role peer_role_ = Role::kRelay;
  State state_ = State::kHandshake;
  std::optional<SessionClosed> closed_;
  SessionEvents events_;

  Time deadline_ = kNever;
  SessionClosed at_deadline_;

  SessionTaggers taggers_;
  std::optional<FrameSealer> sealer_;
  std::optional<FrameOpener> opener_;
  SendCredit send_credit_;
  ReceiveCredit receive_credit_;
  Liveness liveness_;
  std::optional<Time> round_trip_ms_;

  std::deque<std::vector<std::byte>> untagged_;
  std::optional<Outgoing> probe_;
  bool ping_due_ = false;
  std::deque<uint64_t> pongs_;
  std::deque<Outgoing> control_, data_;
  size_t control_bytes_ = 0;
};

}  // namespace kvasir::wire
