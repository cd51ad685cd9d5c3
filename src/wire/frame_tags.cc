#include "wire/frame_tags.h"

#include <algorithm>

#include "base/error.h"
#include "wire/frame.h"

namespace kvasir::wire {
namespace {

// What a tag covers besides the number. A relay rewrites the peer on the way, so the tag is made
// as if it were 0.
using SignedHead = std::array<std::byte, kHeadBytes>;

SignedHead signed_head(std::span<const std::byte> frame) {
  SignedHead head;
  std::copy_n(frame.begin(), kHeadBytes, head.begin());
  head[2] = head[3] = std::byte{0};
  return head;
}

}  // namespace

void FrameSealer::seal(std::span<std::byte> frame) {
  KVASIR_CHECK(frame.size() >= kHeadBytes + kTrailerBytes && left() > 0);
  const size_t body_bytes = frame.size() - kHeadBytes - kTrailerBytes;
  std::byte* trailer = frame.data() + kHeadBytes + body_bytes;
  const Tag tag = tagger_.seal(++last_, signed_head(frame), frame.subspan(kHeadBytes, body_bytes));
  --left_;
  store_le(trailer, last_);
  std::copy(tag.begin(), tag.end(), trailer + sizeof last_);
}

Opened FrameOpener::open(std::span<std::byte> frame) {
  KVASIR_CHECK(frame.size() >= kHeadBytes + kTrailerBytes);
  const size_t body_bytes = frame.size() - kHeadBytes - kTrailerBytes;
  const std::byte* trailer = frame.data() + kHeadBytes + body_bytes;
  const auto number = load_le<uint64_t>(trailer);
  Tag tag;
  std::copy_n(trailer + sizeof number, kTagBytes, tag.begin());
  if (!tagger_.open(number, signed_head(frame), frame.subspan(kHeadBytes, body_bytes), tag)) {
    count_damaged();
    return Opened::kDamaged;
  }
  if (number <= last_ || number > kFrameNumberMax) {
    ++replayed_;
    ++lost_in_a_row_;
    return Opened::kReplayed;
  }
  missing_ += number - last_ - 1;
  last_ = number;
  lost_in_a_row_ = 0;
  return Opened::kGood;
}

}  // namespace kvasir::wire
