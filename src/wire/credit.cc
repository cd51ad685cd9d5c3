#include "wire/credit.h"

#include <algorithm>

#include "base/error.h"
#include "wire/frame.h"

namespace kvasir::wire {
namespace {

// A window that is used up within this time was too small for the connection: 4 MiB in 2 s are
// 16 Mbit/s.
constexpr Time kGrowWithinMs = 2'000;
// An eighth of the window is worth a CREDIT. Much more, and a sender whose frames are all dealt
// with might still lack credit for the longest frame, forever.
constexpr uint64_t kGrantShare = 8;
static_assert(kCreditStart - kCreditStart / kGrantShare >= kMessageMax);

}  // namespace

bool SendCredit::spend(uint64_t bytes, Time now) {
  if (bytes > left()) {
    if (!stalled_since_) stalled_since_ = now;
    return false;
  }
  sent_ += bytes;
  return true;
}

void SendCredit::grant(uint64_t total) {
  if (total <= limit_) return;
  limit_ = std::max(limit_, std::min(total, sent_ + kCreditMax));
  stalled_since_.reset();
}

bool ReceiveCredit::received(uint64_t bytes) {
  received_ += bytes;
  return received_ <= granted_;
}

void ReceiveCredit::consumed(uint64_t bytes, Time now) {
  consumed_ += bytes;
  KVASIR_CHECK(consumed_ <= received_);
  round_consumed_ += bytes;
  if (round_consumed_ < window_) return;
  if (now - round_began_ <= kGrowWithinMs) window_ = std::min(2 * window_, window_max_);
  round_began_ = now;
  round_consumed_ = 0;
}

void ReceiveCredit::lost(uint64_t bytes, Time now) {
  const uint64_t counted = std::min(bytes, granted_ - received_);
  received_ += counted;
  consumed(counted, now);
}

std::optional<uint64_t> ReceiveCredit::take_grant() {
  if (consumed_ + window_ < granted_ + window_ / kGrantShare) return std::nullopt;
  return grant_now();
}

uint64_t ReceiveCredit::grant_now() {
  granted_ = std::max(granted_, consumed_ + window_);
  return granted_;
}

}  // namespace kvasir::wire
