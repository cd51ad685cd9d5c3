// A session fed from a script of any bytes. It never stops the program, tells nothing after its
// end, sends messages within the limits and never waits forever before it is open.
//
//   script := step*
//   step   := 0 length u16 message     the message arrives
//           | 1 u16                    time passes, in ms
//           | 2 type u8 length u16     the application sends so many zeros
//           | 3                        the application deals with all data so far
//           | 4 u16                    the socket ends with this code
//           | 5                        the application admits the client
//           | 6 index u8               the other end's honest probe or echo arrives
//           | 7 type u8 length u8 body an honest frame of this type arrives
// Any other first byte counts modulo 8.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/test_session.h"

namespace kvasir::wire {

class Script {
 public:
  explicit Script(ByteSpan bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t u8() {
    const ByteSpan one = take(1);
    return one.empty() ? uint8_t{0} : std::to_integer<uint8_t>(one[0]);
  }
  uint16_t u16() {
    const uint8_t low = u8();
    return static_cast<uint16_t>(low | u8() << 8);
  }
  ByteSpan take(size_t n) {
    const ByteSpan taken = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  ByteSpan bytes_;
};

class SessionRun {
 public:
  // role: of the session; admit() answers a HELLO.
  SessionRun(Session& session, Role role) : session_(session), role_(role) { drain(); }

  template <typename Admit>
  void run(ByteSpan bytes, const Admit& admit) {
    for (Script script(bytes); !script.empty();) {
      switch (script.u8() % 8) {
        case 0: {
          const ByteSpan arrived = script.take(script.u16());
          message_.assign(arrived.begin(), arrived.end());
          take(session_.on_message(message_, now_));
          break;
        }
        case 1:
          now_ += script.u16();
          if (now_ >= session_.wake_at()) take(session_.on_timer(now_));
          break;
        case 2:
          send(static_cast<FrameType>(script.u8()), script.u16());
          break;
        case 3:
          session_.consumed(std::exchange(unconsumed_, 0), now_);
          break;
        case 4:
          take(session_.on_disconnected(script.u16(), now_));
          break;
        case 6: {
          const size_t index = script.u8() % kProbeMessageBytes.size();
          static const auto kBodies = every_probe_body();
          arrive(role_ == Role::kWorker ? FrameType::kProbeEcho : FrameType::kProbe, index,
                 kBodies[index]);
          break;
        }
        case 7: {
          const auto type = static_cast<FrameType>(script.u8());
          arrive(type, 1, script.take(script.u8()));
          break;
        }
        case 5:
          admit(now_);
          ended_ = session_.closed().has_value();
          break;
      }
      drain();
    }
    KVASIR_CHECK(session_.closed() || session_.wake_at() != kNever);
  }

 private:
  static std::vector<std::vector<std::byte>> every_probe_body() {
    std::vector<std::vector<std::byte>> bodies;
    for (size_t i = 0; i < kProbeMessageBytes.size(); ++i) bodies.push_back(probe_body(i));
    return bodies;
  }

  void arrive(FrameType type, uint64_t ticket, ByteSpan body) {
    FrameHead head;
    head.type = type;
    head.ticket = ticket;
    MessageWriter writer(&sealer_);
    writer.add(head, body);
    message_ = writer.take();
    take(session_.on_message(message_, now_));
  }

  void send(FrameType type, size_t length) {
    const FrameRule* rule = find_rule(type);
    if (rule == nullptr || !rule->senders.contains(role_) || type <= FrameType::kRefused) return;
    const uint64_t credit = session_.credit_left();
    const size_t body_bytes = std::min(length, body_max(type));
    const Send sent = session_.send(type, 1, std::vector<std::byte>(body_bytes), now_);
    if (sent == Send::kQueued && is_data(type))
      KVASIR_CHECK(credit - session_.credit_left() == frame_bytes(body_bytes, true));
  }

  void take(const SessionEvents& events) {
    KVASIR_CHECK(events.empty() || !ended_);
    for (const SessionEvent& event : events) {
      KVASIR_CHECK(!ended_);
      if (const auto* frame = std::get_if<FrameArrived>(&event)) {
        const std::byte* begin = message_.data();
        KVASIR_CHECK(frame->body.data() >= begin &&
                     frame->body.data() + frame->body.size() <= begin + message_.size());
        if (is_data(frame->head.type)) unconsumed_ += frame->wire_bytes;
        KVASIR_CHECK(unconsumed_ <= kCreditMax);
      } else if (std::holds_alternative<SessionClosed>(event)) {
        ended_ = true;
      }
    }
    KVASIR_CHECK(ended_ == session_.closed().has_value());
  }

  void drain() {
    for (;;) {
      const auto message = session_.next_message(now_);
      if (message.empty()) return;
      KVASIR_CHECK(message.size() <= kMessageMax);
    }
  }

  Session& session_;
  Role role_;
  ToyTagger tagger_{0, Toy::kBelievesAll};
  FrameSealer sealer_{tagger_};
  std::vector<std::byte> message_;
  Time now_ = 0;
  size_t unconsumed_ = 0;
  bool ended_ = false;
};

}  // namespace kvasir::wire
