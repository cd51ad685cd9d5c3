// How much may be asked twice: at most a tenth of the pairs that were asked for in the last 10 s.
// More would be a second load on workers that are late because of their load. Pure; one thread.
#pragma once

#include <algorithm>
#include <array>

#include "swarm/types.h"

namespace kvasir::swarm {

class HedgeBudget {
 public:
  static constexpr TimeUs kSpanUs = 10 * kSecondUs;
  static constexpr uint64_t kOneIn = 10;

  void on_asked(size_t pairs, TimeUs now) { bucket(now).asked += pairs; }
  // Takes `pairs` out of the budget if they are there.
  bool take(size_t pairs, TimeUs now) {
    bucket(now);
    uint64_t asked = 0, hedged = 0;
    for (const Bucket& each : buckets_) asked += each.asked, hedged += each.hedged;
    if ((hedged + pairs) * kOneIn > asked) return false;
    bucket(now).hedged += pairs;
    return true;
  }

 private:
  static constexpr size_t kBuckets = 10;
  struct Bucket {
    uint64_t number = UINT64_MAX;
    uint64_t asked = 0, hedged = 0;
  };
  // The present one; forgets those that are too old.
  Bucket& bucket(TimeUs now) {
    const uint64_t number = now / (kSpanUs / kBuckets);
    for (Bucket& each : buckets_)
      if (each.number != UINT64_MAX && each.number + kBuckets <= number) each = {};
    Bucket& present = buckets_[number % kBuckets];
    present.number = number;
    return present;
  }

  std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace kvasir::swarm
