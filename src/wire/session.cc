#include "wire/session.h"

#include <utility>

namespace kvasir::wire {
namespace {

// Frames lost one after the other, with no good one between: the path is useless.
constexpr uint64_t kLostInARowMax = 64;
// PINGs beyond these are not answered until some answers have left.
constexpr size_t kPongsMax = 16;
// Control frames that wait: as many tickets as may be open, with room.
constexpr size_t kControlQueueBytes = size_t{256} * 1024;

}  // namespace

Session::Session(Role role, const LinkConfig& config, Time now)
    : role_(role),
      frames_max_(config.frames_max),
      receive_credit_(config.window_max, now),
      liveness_(now, config.seed) {
  KVASIR_CHECK(config.window_max >= kCreditStart && config.window_max <= kCreditMax &&
               config.frames_max <= kFrameNumberMax);
}

SessionEvents Session::take_events() {
  return std::exchange(events_, {});
}

SessionEvents Session::on_message(std::span<std::byte> message, Time now) {
  if (state_ == State::kClosed) return {};
  if (message.size() > kMessageMax)
    fail(CloseCode::kMalformed, fmt::format("message of {} bytes", message.size()));
  else if (state_ == State::kHandshake)
    on_handshake(message, now);
  else
    on_frames(message, now);
  return take_events();
}

SessionEvents Session::on_timer(Time now) {
  if (state_ == State::kClosed) return {};
  if (now >= deadline_) {
    fail(at_deadline_.code, at_deadline_.reason);
  } else if (sealer_ && sealer_->left() == 0) {
    fail(CloseCode::kRenew, "frame numbers are used up");
  } else if (state_ == State::kOpen) {
    if (liveness_.gone(now))
      fail(CloseCode::kSilent, "nothing heard for 45 s");
    else if (now >= send_credit_.stalled_at())
      fail(CloseCode::kStalled, "the other end gave no credit for a minute");
    else if (liveness_.ping_due(now))
      ping_due_ = true;
  }
  return take_events();
}

SessionEvents Session::on_disconnected(uint16_t close_code, Time) {
  if (state_ == State::kClosed) return {};
  const auto code = find_close_code(close_code);
  fail(code.value_or(CloseCode::kConnection),
       code ? fmt::format("the other end closed: {}", close_code_name(*code))
            : fmt::format("the connection ended (close code {})", close_code));
  untagged_.clear();
  return take_events();
}

Time Session::wake_at() const {
  if (state_ == State::kClosed) return kNever;
  if (sealer_ && sealer_->left() == 0) return 0;
  Time at = deadline_;
  if (state_ == State::kOpen) at = std::min({at, liveness_.wake_at(), send_credit_.stalled_at()});
  return at;
}

void Session::set_deadline(Time at, CloseCode code, std::string reason) {
  deadline_ = at;
  at_deadline_ = {code, std::move(reason), {}};
}

void Session::fail(CloseCode code, std::string reason, std::string hint) {
  if (state_ == State::kClosed) return;
  close(code, std::move(reason), std::move(hint));
  tell(*closed_);
}

void Session::close(CloseCode code, std::string reason, std::string hint) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  closed_ = SessionClosed{code, std::move(reason), std::move(hint)};
  pongs_.clear();
  control_.clear();
  data_.clear();
}

void Session::begin_probing(SessionTaggers taggers, Role peer_role) {
  taggers_ = std::move(taggers);
  sealer_.emplace(*taggers_.sending, frames_max_);
  opener_.emplace(*taggers_.receiving);
  peer_role_ = peer_role;
  state_ = State::kProbing;
}

void Session::open(const Key& peer_key, Welcome welcome, Time now) {
  state_ = State::kOpen;
  deadline_ = kNever;
  liveness_.heard(now);
  tell(SessionOpen{peer_key, peer_role_, std::move(welcome)});
}

void Session::on_frames(std::span<std::byte> message, Time now) {
  MessageReader reader(message, &*opener_);
  uint64_t lost_data_bytes = 0;
  if (message.empty()) opener_->count_damaged();
  while (state_ != State::kClosed) {
    auto frame = reader.next();
    if (!frame) {
      if (frame.error().kind == ErrorKind::kUnsupported) {
        fail(CloseCode::kUnexpected, frame.error());
        return;
      }
      // No tag was checked, so this may be the path's doing: the rest of the message is lost.
      opener_->count_damaged();
      break;
    }
    if (!*frame) break;
    if ((*frame)->head.peer != 0) {
      // The peer is all that no tag covers.
      opener_->count_damaged();
      if (is_data((*frame)->head.type)) lost_data_bytes += (*frame)->wire_bytes;
      continue;
    }
    on_frame(**frame, now);
  }
  if (state_ == State::kClosed) return;
  lost_data_bytes += reader.passed_data_bytes();
  if (state_ == State::kOpen) receive_credit_.lost(lost_data_bytes, now);
  if (opener_->lost_in_a_row() >= kLostInARowMax)
    fail(CloseCode::kPath,
         fmt::format("the last {} frames arrived damaged", opener_->lost_in_a_row()));
}

// The tag was good: what is wrong from here on is the other end's fault.
void Session::on_frame(const Frame& frame, Time now) {
  liveness_.heard(now);
  const FrameRule& rule = *find_rule(frame.head.type);
  const bool probe =
      frame.head.type == FrameType::kProbe || frame.head.type == FrameType::kProbeEcho;
  const bool handshake = frame.head.type <= FrameType::kRefused;
  if (!rule.senders.contains(peer_role_) || handshake || probe != (state_ == State::kProbing)) {
    fail(CloseCode::kUnexpected, fmt::format("{} is out of place", rule.name));
    return;
  }
  if (probe) {
    on_probe(frame, now);
  } else if (frame.head.type == FrameType::kPing || frame.head.type == FrameType::kPong ||
             frame.head.type == FrameType::kCredit) {
    on_link_frame(frame, now);
  } else if (count_data(frame)) {
    tell(FrameArrived{frame.head, frame.body, frame.wire_bytes});
  }
}

void Session::on_link_frame(const Frame& frame, Time now) {
  auto value =
      frame.head.type == FrameType::kCredit ? decode_credit(frame.body) : decode_echo(frame.body);
  if (!value) {
    fail(CloseCode::kMalformed, value.error());
  } else if (frame.head.type == FrameType::kCredit) {
    send_credit_.grant(*value);
  } else if (frame.head.type == FrameType::kPong) {
    if (*value <= now) round_trip_ms_ = now - *value;
  } else if (pongs_.size() < kPongsMax) {
    pongs_.push_back(*value);
  }
}

bool Session::count_data(const Frame& frame) {
  if (!is_data(frame.head.type) || receive_credit_.received(frame.wire_bytes)) return true;
  fail(CloseCode::kCredit, "more data than was granted");
  return false;
}

void Session::consumed(size_t wire_bytes, Time now) {
  receive_credit_.consumed(wire_bytes, now);
}

Send Session::send(FrameType type, uint64_t ticket, std::vector<std::byte> body, Time now) {
  const FrameRule* rule = find_rule(type);
  KVASIR_CHECK(rule != nullptr && rule->senders.contains(role_) && body.size() <= body_max(type));
  if (state_ != State::kOpen) return Send::kClosed;
  if (is_data(type)) {
    if (!send_credit_.spend(frame_bytes(body.size(), true), now)) return Send::kNoCredit;
  } else if (control_bytes_ + body.size() + kHeadBytes > kControlQueueBytes) {
    return Send::kFull;
  }
  queue_frame(type, ticket, std::move(body));
  return Send::kQueued;
}

void Session::queue_frame(FrameType type, uint64_t ticket, std::vector<std::byte> body) {
  FrameHead head;
  head.type = type;
  head.ticket = ticket;
  if (!is_data(type)) control_bytes_ += body.size() + kHeadBytes;
  (is_data(type) ? data_ : control_).push_back({head, std::move(body)});
}

void Session::queue_probe(FrameType type, size_t index, std::vector<std::byte> body) {
  probe_.emplace();
  probe_->head.type = type;
  probe_->head.ticket = index;
  probe_->body = std::move(body);
}

std::vector<std::byte> Session::next_message(Time now) {
  if (!untagged_.empty()) {
    std::vector<std::byte> message = std::move(untagged_.front());
    untagged_.pop_front();
    return message;
  }
  if (state_ != State::kProbing && state_ != State::kOpen) return {};
  MessageWriter writer(&*sealer_);
  if (probe_) {
    writer.add(probe_->head, probe_->body);
    probe_.reset();
    return writer.take();
  }
  pack_link_frames(writer, now);
  pack(writer, control_);
  // Bulk waits for control frames that did not fit.
  if (control_.empty()) pack(writer, data_);
  return writer.take();
}

void Session::pack_link_frames(MessageWriter& writer, Time now) {
  if (state_ != State::kOpen) return;
  auto add = [&](FrameType type, uint64_t value) {
    FrameHead head;
    head.type = type;
    writer.add(head, encode_credit(value));
  };
  // Each is one number; one message has room for all of them.
  for (; !pongs_.empty() && sealer_->left() > 0; pongs_.pop_front())
    add(FrameType::kPong, pongs_.front());
  // A CREDIT may have been lost, so one goes with each PING.
  const auto credit = ping_due_ ? receive_credit_.grant_now() : receive_credit_.take_grant();
  if (credit && sealer_->left() > 0) add(FrameType::kCredit, *credit);
  if (ping_due_ && sealer_->left() > 0) add(FrameType::kPing, now);
  ping_due_ = false;
}

void Session::pack(MessageWriter& writer, std::deque<Outgoing>& queue) {
  while (!queue.empty() && sealer_->left() > 0 && writer.fits(queue.front().body.size())) {
    Outgoing& next = queue.front();
    writer.add(next.head, next.body);
    if (!is_data(next.head.type)) control_bytes_ -= next.body.size() + kHeadBytes;
    queue.pop_front();
  }
}

SessionStats Session::stats() const {
  SessionStats stats;
  if (opener_) {
    stats.frames_damaged = opener_->damaged();
    stats.frames_replayed = opener_->replayed();
    stats.frames_missing = opener_->missing();
  }
  stats.round_trip_ms = round_trip_ms_;
  return stats;
}

}  // namespace kvasir::wire
