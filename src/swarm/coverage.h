// Coverage: which workers hold which experts. Pure bookkeeping. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "swarm/types.h"
#include "wire/coverage_messages.h"

namespace kvasir::swarm {

class Coverage {
 public:
  explicit Coverage(const std::vector<LayerRoute>& layers);

  // Whether the model has all experts of the unit.
  bool has(const wire::CoverageUnit& unit) const;
  // has(unit). Adding twice is adding once. These return how many experts changed hands.
  size_t add(WorkerId worker, const wire::CoverageUnit& unit);
  size_t remove(WorkerId worker, const wire::CoverageUnit& unit);
  size_t remove(WorkerId worker);

  // In the order in which they came.
  std::span<const WorkerId> holders(uint32_t layer, uint32_t expert) const;
  // Experts that at least one worker holds, and all.
  size_t covered() const;
  size_t covered(uint32_t layer) const;
  size_t experts() const { return holders_.size(); }

 private:
  size_t number(uint32_t layer, uint32_t expert) const { return first_[layer] + expert; }

  std::vector<size_t> first_;  // [layers + 1]: number of expert 0 of each layer
  std::vector<std::vector<WorkerId>> holders_;
};

}  // namespace kvasir::swarm
