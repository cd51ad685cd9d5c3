// Credit: how many bytes of data frames may be under way. Both ends count totals since the session
// began, so that a lost CREDIT costs nothing. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/jitter.h"

namespace kvasir::wire {

inline constexpr uint64_t kCreditStart = uint64_t{256} * 1024;
inline constexpr uint64_t kCreditMax = uint64_t{4} * 1024 * 1024;
// A sender that waits so long for credit has a peer that does not read.
inline constexpr Time kStalledAfterMs = 60'000;

// What this end may send.
class SendCredit {
 public:
  uint64_t left() const { return limit_ - sent_; }
  // False, and a stall begins, if there is not enough.
  bool spend(uint64_t bytes, Time now);
  // A CREDIT that arrived. One that goes back changes nothing; never more than kCreditMax are left.
  void grant(uint64_t total);
  // When the stall becomes too long; kNever if there is none.
  Time stalled_at() const { return stalled_since_ ? *stalled_since_ + kStalledAfterMs : kNever; }

 private:
  uint64_t sent_ = 0, limit_ = kCreditStart;
  std::optional<Time> stalled_since_;
};

// What the other end may send. Its window doubles, up to `window_max`, while it is used up quickly.
class ReceiveCredit {
 public:
  // window_max: kCreditStart..kCreditMax.
  ReceiveCredit(uint64_t window_max, Time now) : window_max_(window_max), round_began_(now) {}

  // Bytes that arrived. False if they were more than granted.
  bool received(uint64_t bytes);
  // Bytes that are dealt with, so that as many may follow. What arrived and is still in work is
  // received() minus this.
  void consumed(uint64_t bytes, Time now);
  // Bytes that the other end has spent on frames which were lost on the way: arrived and dealt
  // with. They come from heads that may be damaged, so they never exceed what was granted.
  void lost(uint64_t bytes, Time now);
  // The total for a CREDIT frame, once there is enough to be worth one.
  std::optional<uint64_t> take_grant();
  // The same now: in case the last one was lost.
  uint64_t grant_now();

 private:
  uint64_t window_max_, window_ = kCreditStart;
  uint64_t received_ = 0, consumed_ = 0, granted_ = kCreditStart;
  // How long the present window lasts.
  Time round_began_;
  uint64_t round_consumed_ = 0;
};

}  // namespace kvasir::wire
