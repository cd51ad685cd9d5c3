#include "swarm/coverage.h"

#include <algorithm>

namespace kvasir::swarm {

Coverage::Coverage(const std::vector<LayerRoute>& layers) : first_{0} {
  for (const LayerRoute& layer : layers) first_.push_back(first_.back() + layer.n_experts);
  holders_.resize(first_.back());
}

bool Coverage::has(const wire::CoverageUnit& unit) const {
  return size_t{unit.layer} + 1 < first_.size() && unit.expert_begin < unit.expert_end &&
         unit.expert_end <= first_[unit.layer + 1U] - first_[unit.layer];
}

size_t Coverage::add(WorkerId worker, const wire::CoverageUnit& unit) {
  KVASIR_CHECK(has(unit));
  size_t added = 0;
  for (uint32_t expert = unit.expert_begin; expert < unit.expert_end; ++expert) {
    std::vector<WorkerId>& holders = holders_[number(unit.layer, expert)];
    if (std::find(holders.begin(), holders.end(), worker) != holders.end()) continue;
    holders.push_back(worker);
    ++added;
  }
  return added;
}

size_t Coverage::remove(WorkerId worker, const wire::CoverageUnit& unit) {
  if (!has(unit)) return 0;
  size_t removed = 0;
  for (uint32_t expert = unit.expert_begin; expert < unit.expert_end; ++expert)
    removed += std::erase(holders_[number(unit.layer, expert)], worker);
  return removed;
}

size_t Coverage::remove(WorkerId worker) {
  size_t removed = 0;
  for (std::vector<WorkerId>& holders : holders_) removed += std::erase(holders, worker);
  return removed;
}

std::span<const WorkerId> Coverage::holders(uint32_t layer, uint32_t expert) const {
  return holders_[number(layer, expert)];
}

size_t Coverage::covered() const {
  return static_cast<size_t>(std::count_if(holders_.begin(), holders_.end(),
                                           [](const auto& holders) { return !holders.empty(); }));
}

size_t Coverage::covered(uint32_t layer) const {
  size_t count = 0;
  for (size_t at = first_[layer]; at < first_[layer + 1U]; ++at)
    count += holders_[at].empty() ? 0 : 1;
  return count;
}

}  // namespace kvasir::swarm
