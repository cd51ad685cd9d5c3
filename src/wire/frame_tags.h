// Integrity of frames. In a session every frame carries its number, counted per direction from 1,
// and a keyed tag over number, head and body. The algorithm is behind FrameTagger (crypto/ has it);
// this file decides what numbers are acceptable and counts what was lost.
//
// A frame with a bad tag, or a number that is not above the last good one, is lost: the path may
// have damaged, repeated or reordered it. It changes no state, so the next good frame is accepted
// by its own number, whatever was lost before it. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace kvasir::wire {

inline constexpr size_t kTagBytes = 16;
using Tag = std::array<std::byte, kTagBytes>;

// One direction of one session. Tags; an implementation that also encrypts changes the body in
// place, with the number as nonce and the head as associated data.
class FrameTagger {
 public:
  virtual ~FrameTagger() = default;
  // No number is ever used twice for sealing.
  virtual Tag seal(uint64_t number, ByteSpan head, std::span<std::byte> body) = 0;
  // False if the tag does not fit; the body is then undefined. Takes as long for any wrong tag.
  virtual bool open(uint64_t number, ByteSpan head, std::span<std::byte> body, const Tag& tag) = 0;
};

// After so many frames the session ends and a new handshake makes new keys: 6 days at 4,000 frames
// a second, and far below what one key may tag or encrypt.
inline constexpr uint64_t kFrameNumberMax = uint64_t{1} << 31;

// Gives numbers to frames that leave.
class FrameSealer {
 public:
  // The tagger outlives this. frames_max: at most kFrameNumberMax.
  explicit FrameSealer(FrameTagger& tagger, uint64_t frames_max = kFrameNumberMax)
      : tagger_(tagger), left_(frames_max) {}

  // Frames that can still be sealed.
  uint64_t left() const { return left_; }
  // frame: head, body and room for number and tag, which are filled in. left() is not 0.
  void seal(std::span<std::byte> frame);

 private:
  FrameTagger& tagger_;
  uint64_t last_ = 0, left_;
};

enum class Opened : uint8_t {
  kGood,
  kDamaged,   // the tag does not fit
  kReplayed,  // the tag fits, but the number is not new
};

// Judges frames that arrive.
class FrameOpener {
 public:
  explicit FrameOpener(FrameTagger& tagger) : tagger_(tagger) {}

  // frame: head, body, number and tag. Unless good, the frame is lost: nothing in it may be
  // believed.
  Opened open(std::span<std::byte> frame);

  uint64_t damaged() const { return damaged_; }
  uint64_t replayed() const { return replayed_; }
  uint64_t missing() const { return missing_; }  // numbers that were passed over
  // Lost frames since the last good one.
  uint64_t lost_in_a_row() const { return lost_in_a_row_; }
  // A piece of a message that could not even be cut into frames.
  void count_damaged() { ++damaged_, ++lost_in_a_row_; }

 private:
  FrameTagger& tagger_;
  uint64_t last_ = 0;
  uint64_t damaged_ = 0, replayed_ = 0, missing_ = 0, lost_in_a_row_ = 0;
};

}  // namespace kvasir::wire
