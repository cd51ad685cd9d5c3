#include "swarm/latency_model.h"

#include <algorithm>
#include <cmath>

namespace kvasir::swarm {
namespace {

// Weight of a new sample: the memory of some 16.
constexpr double kNewShare = 1.0 / 16;
// Before the first samples.
constexpr double kRatioUnknown = 2.0;

void blend(double& value, double sample, bool is_first) {
  value = is_first ? sample : value + kNewShare * (sample - value);
}

}  // namespace

double LatencyModel::expected_us(size_t pairs, size_t pairs_ahead) const {
  return way_us_ + pair_us_ * static_cast<double>(pairs + pairs_ahead);
}

TimeUs LatencyModel::quantile_us(double q, size_t pairs, size_t pairs_ahead) const {
  return static_cast<TimeUs>(std::llround(expected_us(pairs, pairs_ahead) * ratio(q)));
}

void LatencyModel::on_answer(TimeUs elapsed_us, uint32_t compute_us, size_t pairs,
                             size_t pairs_ahead) {
  const double elapsed = static_cast<double>(elapsed_us);
  const double compute = std::min(static_cast<double>(compute_us), elapsed);
  remember(elapsed / std::max(1.0, expected_us(pairs, pairs_ahead)), elapsed_us);
  const bool is_first = answers_ == 0;
  blend(pair_us_, compute / static_cast<double>(std::max<size_t>(pairs, 1)), is_first);
  const double ahead = pair_us_ * static_cast<double>(pairs_ahead);
  blend(way_us_, std::max(0.0, elapsed - compute - ahead), is_first);
  ++answers_;
}

void LatencyModel::on_given_up(TimeUs elapsed_us, size_t pairs, size_t pairs_ahead) {
  const double least =
      static_cast<double>(elapsed_us) / std::max(1.0, expected_us(pairs, pairs_ahead));
  // A ticket given up early says only that it took longer, not that it was quick.
  remember(std::max(least, ratio(0.5)), elapsed_us);
}

TimeUs LatencyModel::recent_us(double q) const {
  const size_t count = std::min(samples_, kWindow);
  if (count == 0) return 0;
  std::array<float, kWindow> sorted = elapsed_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(count));
  const auto at = static_cast<size_t>(q * static_cast<double>(count - 1) + 0.5);
  return static_cast<TimeUs>(sorted[at]);
}

void LatencyModel::remember(double ratio, TimeUs elapsed_us) {
  const size_t at = samples_ % kWindow;
  const auto begin = sorted_.begin();
  auto end = begin + static_cast<ptrdiff_t>(std::min(samples_, kWindow));
  if (samples_ >= kWindow) {  // the oldest goes
    const auto oldest = std::lower_bound(begin, end, ratios_[at]);
    std::move(oldest + 1, end, oldest);
    --end;
  }
  const auto place = std::upper_bound(begin, end, ratio);
  std::move_backward(place, end, end + 1);
  *place = ratio;
  ratios_[at] = ratio;
  elapsed_[at] = static_cast<float>(elapsed_us);
  ++samples_;
}

double LatencyModel::ratio(double q) const {
  const size_t count = std::min(samples_, kWindow);
  if (count < kAnswersMin) return kRatioUnknown;
  const auto at = static_cast<size_t>(std::ceil(q * static_cast<double>(count)));
  return sorted_[std::clamp<size_t>(at, 1, count) - 1];
}

}  // namespace kvasir::swarm
