#include "wire/reconnect.h"

#include <algorithm>
#include <utility>

namespace kvasir::wire {

namespace {

// A server that restarts for longer is dialled in vain some times.
constexpr Time kComeBackMaxMs = 600'000;

}  // namespace

bool may_retry(CloseCode code) {
  switch (code) {
    case CloseCode::kVersion:
    case CloseCode::kRole:
    case CloseCode::kIdentity:
    case CloseCode::kFingerprint:
    case CloseCode::kToken:
    case CloseCode::kSuperseded:
      return false;
    default:
      return true;
  }
}

std::optional<Time> Reconnect::on_closed(CloseCode code, Time now) {
  // What ends an open session was said under its tags.
  if (!may_retry(code) && (opened_at_ || ++refusals_ >= kRefusalsBelieved)) return std::nullopt;
  const auto opened_at = std::exchange(opened_at_, std::nullopt);
  if (opened_at && now - *opened_at >= kStableAfterMs) ceiling_ = kCeilingFirstMs;
  const Time delay = jitter_.below(ceiling_ + 1);
  ceiling_ = std::min(2 * ceiling_, kCeilingLastMs);
  const auto restarting = std::exchange(restarting_, std::nullopt);
  return now + delay +
         (restarting ? std::min<Time>(restarting->come_back_after_ms, kComeBackMaxMs) : 0);
}

}  // namespace kvasir::wire
