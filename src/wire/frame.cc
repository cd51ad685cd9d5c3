#include "wire/frame.h"

#include <algorithm>

namespace kvasir::wire {
namespace {

using enum Role;
constexpr Roles kEveryRole = {kWorker, kBackbone, kStage, kObserver, kRelay};
constexpr Roles kClients = {kWorker, kBackbone, kStage, kObserver};
constexpr Roles kServers = {kBackbone, kRelay};

// In ascending order of type.
constexpr FrameRule kRules[] = {
    {FrameType::kChallenge, "CHALLENGE", kServers},
    {FrameType::kHello, "HELLO", kClients},
    {FrameType::kWelcome, "WELCOME", kServers},
    {FrameType::kRefused, "REFUSED", kServers},
    {FrameType::kBusy, "BUSY", {kWorker}},
    {FrameType::kFailed, "FAILED", {kWorker}},
    {FrameType::kCancel, "CANCEL", {kBackbone}},
    {FrameType::kOffer, "OFFER", {kBackbone, kWorker}},
    {FrameType::kLease, "LEASE", {kBackbone}},
    {FrameType::kReady, "READY", {kWorker}},
    {FrameType::kDrain, "DRAIN", {kBackbone, kWorker}},
    {FrameType::kRevoke, "REVOKE", {kBackbone}},
    {FrameType::kPing, "PING", kEveryRole},
    {FrameType::kPong, "PONG", kEveryRole},
    {FrameType::kCredit, "CREDIT", kEveryRole},
    {FrameType::kPeerHere, "PEER_HERE", {kRelay}},
    {FrameType::kPeerGone, "PEER_GONE", {kRelay}},
    {FrameType::kRestarting, "RESTARTING", kServers},
    {FrameType::kProbe, "PROBE", kClients},
    {FrameType::kProbeEcho, "PROBE_ECHO", kServers},
    {FrameType::kCompute, "COMPUTE", {kBackbone}},
    {FrameType::kResult, "RESULT", {kWorker}},
};

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kWorker:
      return "worker";
    case Role::kBackbone:
      return "backbone";
    case Role::kStage:
      return "stage";
    case Role::kObserver:
      return "observer";
    case Role::kRelay:
      break;
  }
  return "relay";
}

std::optional<Role> find_role(uint8_t code) {
  if (code < static_cast<uint8_t>(Role::kWorker) || code > static_cast<uint8_t>(Role::kRelay))
    return std::nullopt;
  return static_cast<Role>(code);
}

const FrameRule* find_rule(FrameType type) {
  const auto* rule = std::lower_bound(
      std::begin(kRules), std::end(kRules), type,
      [](const FrameRule& candidate, FrameType wanted) { return candidate.type < wanted; });
  return rule != std::end(kRules) && rule->type == type ? rule : nullptr;
}

size_t body_max(FrameType type) {
  return is_data(type) ? kDataBodyMax : kControlBodyMax;
}

size_t frame_bytes(size_t body_bytes, bool tagged) {
  return kHeadBytes + body_bytes + (tagged ? kTrailerBytes : 0);
}

Result<std::optional<Frame>> MessageReader::next() {
  while (at_ < message_.size()) {
    const size_t begin = at_;
    auto frame = cut_frame();
    if (!frame) {
      at_ = message_.size();
      return std::move(frame.error());
    }
    if (is_lost(*frame, begin)) continue;
    if (find_rule(frame->head.type) != nullptr) return std::optional<Frame>(*frame);
    if ((frame->head.flags & kFlagOptional) != 0) {
      if (is_data(frame->head.type)) passed_data_bytes_ += frame->wire_bytes;
      continue;
    }
    at_ = message_.size();
    return Error::unsupported("frame of type {:#04x}, which this version does not know",
                              static_cast<unsigned>(frame->head.type));
  }
  return std::optional<Frame>();
}

bool MessageReader::is_lost(const Frame& frame, size_t begin) {
  if (opener_ == nullptr) return false;
  switch (opener_->open(message_.subspan(begin, frame.wire_bytes))) {
    case Opened::kGood:
      return false;
    case Opened::kDamaged:
      if (is_data(frame.head.type)) passed_data_bytes_ += frame.wire_bytes;
      return true;
    case Opened::kReplayed:
      break;
  }
  return true;
}

// Moves at_ behind the frame there. Lengths are compared before they are added.
Result<Frame> MessageReader::cut_frame() {
  const size_t left = message_.size() - at_;
  if (left < kHeadBytes) return Error::corrupt("message ends {} bytes into a frame's head", left);
  const std::byte* at = message_.data() + at_;
  Frame frame;
  frame.head.type = static_cast<FrameType>(at[0]);
  frame.head.flags = static_cast<uint8_t>(at[1]);
  frame.head.peer = load_le<uint16_t>(at + 2);
  frame.head.body_bytes = load_le<uint32_t>(at + 4);
  frame.head.ticket = load_le<uint64_t>(at + 8);

  const auto type = static_cast<unsigned>(frame.head.type);
  if ((frame.head.flags & ~(kFlagOptional | kFlagTagged)) != 0)
    return Error::corrupt("frame of type {:#04x} has unknown flags {:#04x}", type,
                          frame.head.flags);
  const bool tagged = (frame.head.flags & kFlagTagged) != 0;
  if (tagged != (opener_ != nullptr))
    return Error::corrupt("frame of type {:#04x} is {}tagged here", type, tagged ? "" : "not ");
  if (frame.head.body_bytes > body_max(frame.head.type))
    return Error::limit("frame of type {:#04x}: body of {} bytes, allowed are {}", type,
                        frame.head.body_bytes, body_max(frame.head.type));
  frame.wire_bytes = frame_bytes(frame.head.body_bytes, tagged);
  if (frame.wire_bytes > left)
    return Error::corrupt("frame of type {:#04x} has {} bytes, the message only {} more", type,
                          frame.wire_bytes, left);
  frame.body = ByteSpan(at + kHeadBytes, frame.head.body_bytes);
  at_ += frame.wire_bytes;
  return frame;
}

bool MessageWriter::fits(size_t body_bytes) const {
  return message_.empty() ||
         message_.size() + frame_bytes(body_bytes, sealer_ != nullptr) <= kMessageAim;
}

void MessageWriter::add(FrameHead head, ByteSpan body) {
  KVASIR_CHECK(body.size() <= body_max(head.type));
  const size_t begin = message_.size();
  if (sealer_ != nullptr) head.flags |= kFlagTagged;
  message_.resize(begin + frame_bytes(body.size(), sealer_ != nullptr));
  std::byte* at = message_.data() + begin;
  at[0] = static_cast<std::byte>(head.type);
  at[1] = static_cast<std::byte>(head.flags);
  store_le(at + 2, head.peer);
  store_le(at + 4, static_cast<uint32_t>(body.size()));
  store_le(at + 8, head.ticket);
  std::copy(body.begin(), body.end(), at + kHeadBytes);
  if (sealer_ != nullptr) sealer_->seal(std::span(message_).subspan(begin));
}

std::vector<std::byte> MessageWriter::take() {
  return std::exchange(message_, {});
}

}  // namespace kvasir::wire
