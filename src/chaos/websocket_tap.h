// One direction of a WebSocket connection (RFC 6455) as somebody in the middle sees it: finds where
// messages begin, and damages their contents without breaking the framing. Pure; one thread.
//
//   stream := HTTP head, frame+            frame := byte0 byte1 length? mask? payload
//   byte0: 0x80 last frame of its message, 0x0F opcode      byte1: 0x80 masked, 0x7F length
//   length: 126 -> 16 bits, 127 -> 64 bits, big-endian      mask: 4 bytes, if masked
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "wire/jitter.h"

namespace kvasir::chaos {

class WebSocketTap {
 public:
  explicit WebSocketTap(uint64_t seed) : random_(seed) {}

  // Passes the next bytes of the stream, in pieces of any size. Of the frames with data that begin
  // in them, the share `corrupt` gets one to four bits of its payload flipped. (Masking is XOR, so
  // that a bit flipped under the mask is the same bit flipped.)
  void pass(std::span<std::byte> bytes, double corrupt);

  // Whether another message may be put in here: after the upgrade, between two messages.
  bool at_boundary() const { return part_ == Part::kHead && head_.empty() && is_message_whole_; }
  uint64_t messages() const { return messages_; }  // that have begun
  uint64_t corrupted() const { return corrupted_; }

 private:
  enum class Part : uint8_t { kHttp, kHead, kPayload };

  void pass_http(std::byte byte);
  void pass_head(std::byte byte, double corrupt);
  size_t pass_payload(std::span<std::byte> bytes);
  void begin_frame(double corrupt);

  wire::Jitter random_;
  Part part_ = Part::kHttp;
  size_t http_end_seen_ = 0;  // bytes of "\r\n\r\n"
  std::vector<std::byte> head_;
  bool is_message_whole_ = true;
  uint64_t payload_bytes_ = 0, payload_at_ = 0;
  std::vector<uint64_t> flips_;  // positions in the payload, in bits
  uint64_t messages_ = 0, corrupted_ = 0;
};

// A binary message of random bytes, in lengths where framing changes and others; its first bytes
// sometimes look like those of an inner frame. Masked as a client's.
enum class Sender : uint8_t { kClient, kServer };
std::vector<std::byte> random_message(wire::Jitter& random, Sender sender);

}  // namespace kvasir::chaos
