// Time and chance as sessions see them: both come from outside, so that a run can be repeated.
#pragma once

#include <cstdint>

namespace kvasir::wire {

// Milliseconds of a clock that never goes back; where it starts does not matter.
using Time = uint64_t;
inline constexpr Time kNever = UINT64_MAX;

// Random numbers that spread load, not secrets (splitmix64).
class Jitter {
 public:
  explicit Jitter(uint64_t seed) : state_(seed) {}
  // 0..n-1; n > 0.
  uint64_t below(uint64_t n) {
    state_ += 0x9E3779B97F4A7C15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return (z ^ (z >> 31)) % n;
  }

 private:
  uint64_t state_;
};

}  // namespace kvasir::wire
