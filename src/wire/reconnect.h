// When a client dials again: full jitter under a ceiling that doubles from 0.5 s to 60 s, so that a
// thousand clients of a relay that restarted do not come back in one second. Pure; one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/close_code.h"
#include "wire/jitter.h"
#include "wire/link_messages.h"

namespace kvasir::wire {

// Whether dialling again can help; otherwise a person has to change something first.
bool may_retry(CloseCode code);
// A handshake carries no tags: one that the path damaged ends with the same codes as one that is
// refused. Only so many refusals in a row are believed.
inline constexpr int kRefusalsBelieved = 3;

class Reconnect {
 public:
  static constexpr Time kCeilingFirstMs = 500;
  static constexpr Time kCeilingLastMs = 60'000;
  // A session that lived so long ends the backing off. Shorter ones do not: a server that welcomes
  // and drops would be dialled in a loop.
  static constexpr Time kStableAfterMs = 10'000;

  explicit Reconnect(uint64_t seed) : jitter_(seed) {}

  // The session is open.
  void on_open(Time now) {
    opened_at_ = now;
    refusals_ = 0;
  }
  // RESTARTING arrived: the next dialling waits as it says.
  void on_restarting(const Restarting& restarting) { restarting_ = restarting; }
  // The connection ended, or could not be made (kConnection). When to dial; nothing: never.
  std::optional<Time> on_closed(CloseCode code, Time now);

 private:
  Jitter jitter_;
  Time ceiling_ = kCeilingFirstMs;
  std::optional<Time> opened_at_;
  int refusals_ = 0;  // in a row, none after an open session
  std::optional<Restarting> restarting_;
};

}  // namespace kvasir::wire
