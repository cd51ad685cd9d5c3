// Spreads bytes over time, so that all connections together stay below a rate. Knows no clock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kvasir::pull {

// One thread, or guarded by the caller.
class Pacer {
 public:
  explicit Pacer(uint64_t bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  // How long to wait after `bytes` that have just come. 0 without a rate.
  uint64_t delay_us(uint64_t bytes, uint64_t now_us) {
    if (bytes_per_s_ == 0) return 0;
    // A pause must not be followed by a flood: at most a tenth of a second is made up for.
    constexpr uint64_t kCatchUpUs = 100'000;
    free_at_us_ = std::max(free_at_us_, now_us > kCatchUpUs ? now_us - kCatchUpUs : 0);
    free_at_us_ += bytes * 1'000'000 / bytes_per_s_;
    return free_at_us_ > now_us ? free_at_us_ - now_us : 0;
  }

 private:
  uint64_t bytes_per_s_;
  uint64_t free_at_us_ = 0;
};

}  // namespace kvasir::pull
