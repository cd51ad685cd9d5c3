// Frames: how the ends of the swarm cut a WebSocket message into pieces (docs/protocol.md). Knows
// heads, lengths and tags; not what a body means. Pure: bytes in, bytes out. One thread per object.
//
//   message := frame+
//   frame   := type u8, flags u8, peer u16, body length u32, ticket u64, body, [number u64, tag 16]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/frame_tags.h"

namespace kvasir::wire {

// From 0x80 on: data.
enum class FrameType : uint8_t {
  kChallenge = 0x01,
  kHello = 0x02,
  kWelcome = 0x03,
  kRefused = 0x04,
  kBusy = 0x12,
  kFailed = 0x13,
  kCancel = 0x14,
  kOffer = 0x20,
  kLease = 0x21,
  kReady = 0x22,
  kDrain = 0x23,
  kRevoke = 0x24,
  kPing = 0x30,
  kPong = 0x31,
  kCredit = 0x32,
  kPeerHere = 0x33,
  kPeerGone = 0x34,
  kRestarting = 0x35,
  kProbe = 0x80,
  kProbeEcho = 0x81,
  kCompute = 0x90,
  kResult = 0x91,
};

// What an end of a connection is. The client names its role in its first byte.
enum class Role : uint8_t {
  kWorker = 1,
  kBackbone = 2,
  kStage = 3,
  kObserver = 4,
  kRelay = 5,  // only servers
};
std::string_view role_name(Role role);  // "worker"
std::optional<Role> find_role(uint8_t code);

// A set of roles.
class Roles {
 public:
  constexpr Roles(std::initializer_list<Role> roles) {
    for (Role role : roles) bits_ |= bit(role);
  }
  constexpr bool contains(Role role) const { return (bits_ & bit(role)) != 0; }

 private:
  static constexpr unsigned bit(Role role) { return 1U << static_cast<unsigned>(role); }
  unsigned bits_ = 0;
};

// Data frames need credit and may be long; control frames are short and go first. Known of types
// that are not known, too.
inline bool is_data(FrameType type) {
  return (static_cast<uint8_t>(type) & 0x80) != 0;
}

struct FrameRule {
  FrameType type;
  std::string_view name;  // "COMPUTE"
  Roles senders;
};
// Nothing for a type that this version does not know.
const FrameRule* find_rule(FrameType type);

inline constexpr size_t kHeadBytes = 16;
// Number and tag.
inline constexpr size_t kTrailerBytes = sizeof(uint64_t) + kTagBytes;
// 15 f32 rows of 3,072 values and a head. Larger: one frame holds a 1 Mbit/s uplink for seconds.
inline constexpr size_t kDataBodyMax = size_t{192} * 1024;
inline constexpr size_t kControlBodyMax = size_t{16} * 1024;
// Control frames wait for one message at most. A longer frame goes alone.
inline constexpr size_t kMessageAim = size_t{64} * 1024;
inline constexpr size_t kMessageMax = kHeadBytes + kDataBodyMax + kTrailerBytes;

inline constexpr uint8_t kFlagOptional = 0x01;  // may be skipped by who does not know the type
inline constexpr uint8_t kFlagTagged = 0x02;    // number and tag follow the body

struct FrameHead {
  FrameType type = FrameType::kPing;
  uint8_t flags = 0;
  // The number that a relay gave to the other end; 0 is the end of this connection itself.
  uint16_t peer = 0;
  uint32_t body_bytes = 0;
  uint64_t ticket = 0;
};

size_t body_max(FrameType type);
// Bytes of a frame on the wire.
size_t frame_bytes(size_t body_bytes, bool tagged);

// A frame of a message that was received; `body` points into the message.
struct Frame {
  FrameHead head;
  ByteSpan body;
  size_t wire_bytes = 0;
};

// Yields the frames of one message in order.
class MessageReader {
 public:
  // The message must outlive the frames. Without an opener, frames carry no tags (the handshake);
  // with one, every frame needs a good tag, and one without is skipped as lost.
  explicit MessageReader(std::span<std::byte> message, FrameOpener* opener = nullptr)
      : message_(message), opener_(opener) {}

  // Nothing at the end of the message. After an error the message is over, too:
  //   kCorrupt, kLimit  lengths or flags that cannot be (found before the tag could be checked)
  //   kUnsupported      a type that is not known and not optional, its tag (if any) being good
  // Unknown optional frames are skipped.
  Result<std::optional<Frame>> next();

  // Bytes of data frames that next() passed over, damaged or unknown. The sender spent credit on
  // them. What the head of a damaged frame says is believed for this alone.
  uint64_t passed_data_bytes() const { return passed_data_bytes_; }

 private:
  Result<Frame> cut_frame();
  // Checks the tag of a frame. Not if there are none here.
  bool is_lost(const Frame& frame, size_t begin);

  std::span<std::byte> message_;
  size_t at_ = 0;
  uint64_t passed_data_bytes_ = 0;
  FrameOpener* opener_;
};

// Packs frames into one message.
class MessageWriter {
 public:
  // With a sealer, frames get numbers and tags.
  explicit MessageWriter(FrameSealer* sealer = nullptr) : sealer_(sealer) {}

  // Whether a frame may join: an empty message takes any frame, another one up to kMessageAim.
  bool fits(size_t body_bytes) const;
  // The body is at most body_max(head.type) long; head.body_bytes and the tagged flag are filled
  // in.
  void add(FrameHead head, ByteSpan body);
  bool empty() const { return message_.empty(); }
  std::vector<std::byte> take();

 private:
  std::vector<std::byte> message_;
  FrameSealer* sealer_;
};

}  // namespace kvasir::wire
