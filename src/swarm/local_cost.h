// What computing experts here costs, learnt from doing it: one time for an expert that is in
// memory, another for one that has to be read from the disk first. Pure; one thread.
#pragma once

#include <algorithm>
#include <cstddef>

namespace kvasir::swarm {

// What a local computation had to do.
struct LocalWork {
  double at_hand = 0;  // experts in memory, see weight()
  double on_disk = 0;  // experts that have to be read

  // An expert's weights are read once for all its rows; each further row adds less than the first
  // (measured: 1.35 x the time for two rows, 2.5 x for four).
  static double weight(size_t rows) { return 1.0 + 0.4 * static_cast<double>(rows - 1); }
};

class LocalCost {
 public:
  bool is_known() const { return samples_ > 0; }
  double expected_us(const LocalWork& work) const {
    return at_hand_us_ * work.at_hand + on_disk_us_ * work.on_disk;
  }
  void on_computed(const LocalWork& work, double took_us) {
    if (work.at_hand + work.on_disk <= 0) return;
    // What was read from the disk explains what memory does not.
    if (work.on_disk <= 0) {
      blend(at_hand_us_, took_us / work.at_hand);
    } else {
      const double rest = std::max(took_us - at_hand_us_ * work.at_hand, 0.5 * took_us);
      blend(on_disk_us_, rest / work.on_disk);
    }
    ++samples_;
  }

 private:
  static void blend(double& value, double sample) {
    constexpr double kNewShare = 1.0 / 16;
    value = value == 0 ? sample : value + kNewShare * (sample - value);
  }
  double at_hand_us_ = 0, on_disk_us_ = 0;
  size_t samples_ = 0;
};

}  // namespace kvasir::swarm
