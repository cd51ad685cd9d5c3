#include "chaos/websocket_tap.h"

#include <algorithm>
#include <string_view>

#include "wire/frame.h"

namespace kvasir::chaos {
namespace {

constexpr std::string_view kHttpEnd = "\r\n\r\n";
constexpr uint8_t kLast = 0x80, kOpcode = 0x0F, kMasked = 0x80, kLength = 0x7F;
constexpr uint8_t kContinuation = 0, kBinary = 2, kFirstControl = 8;
constexpr uint8_t kLength16 = 126, kLength64 = 127;
constexpr uint64_t kFlipsMax = 4;

size_t head_bytes(uint8_t byte1) {
  const uint8_t length = byte1 & kLength;
  const size_t extended = length == kLength16 ? 2 : length == kLength64 ? 8 : 0;
  return 2 + extended + ((byte1 & kMasked) != 0 ? 4 : 0);
}

uint8_t u8(std::byte byte) {
  return std::to_integer<uint8_t>(byte);
}

// A type that exists, no flags, no peer, and a length that fits; the tag at the end is random.
void look_like_frame(std::span<std::byte> payload, wire::Jitter& random) {
  constexpr std::array kTypes = {
      wire::FrameType::kHello,  wire::FrameType::kRefused, wire::FrameType::kBusy,
      wire::FrameType::kCancel, wire::FrameType::kReady,   wire::FrameType::kDrain,
      wire::FrameType::kPing,   wire::FrameType::kCredit,  wire::FrameType::kRestarting,
      wire::FrameType::kProbe,  wire::FrameType::kCompute, wire::FrameType::kResult};
  const size_t around = wire::frame_bytes(0, true);
  if (payload.size() < around) return;
  payload[0] = static_cast<std::byte>(kTypes[random.below(kTypes.size())]);
  for (size_t i = 1; i < 4; ++i) payload[i] = std::byte{0};
  store_le(payload.data() + 4, static_cast<uint32_t>(payload.size() - around));
}

bool happens(wire::Jitter& random, double share) {
  constexpr uint64_t kAll = uint64_t{1} << 32;
  return static_cast<double>(random.below(kAll)) < share * static_cast<double>(kAll);
}

}  // namespace

void WebSocketTap::pass(std::span<std::byte> bytes, double corrupt) {
  while (!bytes.empty()) {
    size_t passed = 1;
    switch (part_) {
      case Part::kHttp:
        pass_http(bytes[0]);
        break;
      case Part::kHead:
        pass_head(bytes[0], corrupt);
        break;
      case Part::kPayload:
        passed = pass_payload(bytes);
        break;
    }
    bytes = bytes.subspan(passed);
  }
}

void WebSocketTap::pass_http(std::byte byte) {
  const char c = static_cast<char>(byte);
  if (c == kHttpEnd[http_end_seen_])
    ++http_end_seen_;
  else
    http_end_seen_ = c == kHttpEnd[0] ? 1 : 0;
  if (http_end_seen_ == kHttpEnd.size()) part_ = Part::kHead;
}

void WebSocketTap::pass_head(std::byte byte, double corrupt) {
  head_.push_back(byte);
  if (head_.size() < 2 || head_.size() < head_bytes(u8(head_[1]))) return;
  begin_frame(corrupt);
  head_.clear();
  part_ = payload_bytes_ == 0 ? Part::kHead : Part::kPayload;
}

void WebSocketTap::begin_frame(double corrupt) {
  const uint8_t opcode = u8(head_[0]) & kOpcode;
  const uint8_t length = u8(head_[1]) & kLength;
  payload_at_ = 0;
  payload_bytes_ = length;
  if (length >= kLength16) {
    payload_bytes_ = 0;
    for (size_t i = 0; i < (length == kLength16 ? 2U : 8U); ++i)
      payload_bytes_ = payload_bytes_ << 8 | u8(head_[2 + i]);
  }
  flips_.clear();
  if (opcode >= kFirstControl) return;  // may stand between the frames of a message
  is_message_whole_ = (u8(head_[0]) & kLast) != 0;
  if (opcode != kContinuation) ++messages_;
  if (payload_bytes_ == 0 || payload_bytes_ > UINT64_MAX / 8 || !happens(random_, corrupt)) return;
  ++corrupted_;
  for (uint64_t i = 0, count = 1 + random_.below(kFlipsMax); i < count; ++i)
    flips_.push_back(random_.below(payload_bytes_ * 8));
  std::sort(flips_.begin(), flips_.end());
  // Flipped twice is not flipped.
  flips_.erase(std::unique(flips_.begin(), flips_.end()), flips_.end());
}

size_t WebSocketTap::pass_payload(std::span<std::byte> bytes) {
  const auto count =
      static_cast<size_t>(std::min<uint64_t>(bytes.size(), payload_bytes_ - payload_at_));
  for (uint64_t bit : flips_) {
    if (bit / 8 < payload_at_ || bit / 8 >= payload_at_ + count) continue;
    bytes[bit / 8 - payload_at_] ^= std::byte{1} << static_cast<int>(bit % 8);
  }
  payload_at_ += count;
  if (payload_at_ == payload_bytes_) part_ = Part::kHead;
  return count;
}

std::vector<std::byte> random_message(wire::Jitter& random, Sender sender) {
  constexpr std::array<size_t, 12> kLengths = {0,   1,    15,   16,    32,    125,
                                               126, 1400, 5000, 65535, 65536, 70000};
  const size_t length = random.below(2) == 0 ? kLengths[random.below(kLengths.size())]
                                             : static_cast<size_t>(random.below(2000));
  std::vector<std::byte> message = {std::byte{kLast | kBinary}};
  const uint8_t mask_bit = sender == Sender::kClient ? kMasked : 0;
  const size_t extended = length < kLength16 ? 0 : length <= 0xFFFF ? 2 : 8;
  const auto short_length = static_cast<uint8_t>(extended == 0   ? length
                                                 : extended == 2 ? kLength16
                                                                 : kLength64);
  message.push_back(std::byte(mask_bit | short_length));
  for (size_t i = extended; i-- > 0;) message.push_back(std::byte((length >> (8 * i)) & 0xFF));
  std::array<std::byte, 4> mask{};
  if (sender == Sender::kClient) {
    for (std::byte& byte : mask) byte = std::byte(random.below(256));
    message.insert(message.end(), mask.begin(), mask.end());
  }
  const size_t payload = message.size();
  for (size_t i = 0; i < length; ++i) message.push_back(std::byte(random.below(256)));
  if (random.below(2) == 0) look_like_frame(std::span(message).subspan(payload), random);
  for (size_t i = 0; i < length; ++i) message[payload + i] ^= mask[i % 4];
  return message;
}

}  // namespace kvasir::chaos
