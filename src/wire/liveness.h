// When to ping and when the other end is gone. Edges cut idle sockets at 100 s, carriers' NATs from
// 30 s on without a word. Pure: callers pass the time. One thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/jitter.h"

namespace kvasir::wire {

inline constexpr Time kPingEveryMs = 20'000;
inline constexpr Time kGoneAfterMs = 45'000;

class Liveness {
 public:
  Liveness(Time now, uint64_t seed) : jitter_(seed), heard_(now) { plan_ping(now); }

  void heard(Time now) { heard_ = std::max(heard_, now); }
  bool gone(Time now) const { return now >= heard_ + kGoneAfterMs; }
  // True once when it is time for a ping; plans the next one.
  bool ping_due(Time now) {
    if (now < next_ping_) return false;
    plan_ping(now);
    return true;
  }
  Time wake_at() const { return std::min(next_ping_, heard_ + kGoneAfterMs); }

 private:
  // 20 s +- 10 %, so that many connections do not ping in step.
  void plan_ping(Time now) {
    next_ping_ = now + kPingEveryMs * 9 / 10 + jitter_.below(kPingEveryMs / 5 + 1);
  }

  Jitter jitter_;
  Time heard_, next_ping_ = 0;
};

}  // namespace kvasir::wire
