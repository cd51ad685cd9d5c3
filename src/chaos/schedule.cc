#include "chaos/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "wire/jitter.h"

namespace kvasir::chaos {

std::string_view fault_name(Fault fault) {
  switch (fault) {
    case Fault::kKill:
      return "kills";
    case Fault::kStall:
      return "stalls";
    case Fault::kCut:
      return "cuts";
    case Fault::kGarbage:
      return "garbage";
  }
  return "unknown";
}

std::vector<PlannedFault> make_schedule(const FaultRates& rates, uint64_t tokens, uint64_t seed) {
  wire::Jitter random(seed);
  std::vector<PlannedFault> schedule;
  const auto add = [&](Fault fault, double rate) {
    const double count = std::round(static_cast<double>(tokens) * rate / 100);
    if (tokens < 2 || count < 1) return;
    // One in each of as many equal stretches: chance alone would kill everybody at once some day.
    const double stretch = static_cast<double>(tokens - 1) / count;
    constexpr uint64_t kParts = uint64_t{1} << 20;
    for (double i = 0; i < count; ++i) {
      const double part = static_cast<double>(random.below(kParts)) / static_cast<double>(kParts);
      const auto token = static_cast<uint64_t>((i + part) * stretch);
      schedule.push_back({std::min(token, tokens - 2) + 1, fault, random.below(UINT64_MAX)});
    }
  };
  add(Fault::kKill, rates.kill);
  add(Fault::kStall, rates.stall);
  add(Fault::kCut, rates.cut);
  add(Fault::kGarbage, rates.garbage);
  std::stable_sort(schedule.begin(), schedule.end(),
                   [](const PlannedFault& a, const PlannedFault& b) { return a.token < b.token; });
  return schedule;
}

std::vector<std::vector<gguf::UnitId>> assign_units(const std::vector<gguf::UnitId>& units,
                                                    size_t n_workers, size_t replicas,
                                                    uint64_t seed) {
  wire::Jitter random(seed);
  std::vector<std::vector<gguf::UnitId>> held(n_workers);
  std::vector<size_t> order(n_workers);
  std::iota(order.begin(), order.end(), size_t{0});
  for (const gguf::UnitId& unit : units) {
    for (size_t i = n_workers; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return held[a].size() < held[b].size(); });
    for (size_t i = 0; i < std::min(replicas, n_workers); ++i) held[order[i]].push_back(unit);
  }
  return held;
}

}  // namespace kvasir::chaos
