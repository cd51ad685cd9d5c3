#include "expert/expert_cache.h"

#include <utility>

#include "base/error.h"

namespace kvasir::expert {
namespace {

// Longer: slower to forget a subject that was left. Shorter: the count of uses has less of a say,
// which gave 59 hits instead of 66 of 100 where an epoch was a single round (docs/offload.md).
constexpr uint64_t kEpochRounds = 64;

// Counts of uses are halved after so many rounds: what was popular a thousand tokens ago says
// little. Smaller: counts too low to tell experts apart.
constexpr uint64_t kFadeRounds = 256;

}  // namespace

ExpertCache::ExpertCache(size_t n_slots, const std::vector<uint32_t>& n_experts)
    : cached_(n_experts.size(), 0), slots_(n_slots) {
  KVASIR_CHECK(n_slots != 0);
  first_.push_back(0);
  for (uint32_t n : n_experts) first_.push_back(first_.back() + n);
  slot_of_.assign(first_.back(), -1);
  uses_.assign(first_.back(), 0);
  for (size_t slot = n_slots; slot-- > 0;) free_.push_back(static_cast<uint32_t>(slot));
}

bool ExpertCache::has_whole_layer(uint32_t layer) const {
  return cached_[layer] == first_[layer + 1] - first_[layer];
}

std::optional<uint32_t> ExpertCache::find(ExpertKey key) const {
  const int32_t slot = slot_of_[number(key)];
  if (slot < 0) return std::nullopt;
  return static_cast<uint32_t>(slot);
}

void ExpertCache::start_round() {
  ++round_;
  if (round_ % kFadeRounds != 0) return;
  for (uint32_t& uses : uses_) uses /= 2;
}

void ExpertCache::use(ExpertKey key) {
  ++uses_[number(key)];
  const auto slot = find(key);
  if (!slot) return;
  slots_[*slot].epoch = round_ / kEpochRounds;
  slots_[*slot].order = ++order_;
}

bool ExpertCache::goes_before(const Slot& a, const Slot& b) const {
  if (a.epoch != b.epoch) return a.epoch < b.epoch;
  const uint32_t a_uses = uses_[number(*a.key)], b_uses = uses_[number(*b.key)];
  if (a_uses != b_uses) return a_uses < b_uses;
  return a.order > b.order;
}

std::optional<uint32_t> ExpertCache::victim() const {
  std::optional<uint32_t> found;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].holds != 0) continue;
    if (!found || goes_before(slots_[slot], slots_[*found])) found = slot;
  }
  return found;
}

std::optional<uint32_t> ExpertCache::claim(ExpertKey key) {
  KVASIR_CHECK(!find(key));
  if (free_.empty()) {
    const auto slot = victim();
    if (!slot) return std::nullopt;
    drop(*slot);
    ++evictions_;
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = {key, 1, round_ / kEpochRounds, ++order_};
  slot_of_[number(key)] = static_cast<int32_t>(slot);
  ++cached_[key.layer];
  return slot;
}

void ExpertCache::release(uint32_t slot) {
  KVASIR_CHECK(slots_[slot].holds != 0);
  --slots_[slot].holds;
}

void ExpertCache::drop(uint32_t slot) {
  KVASIR_CHECK(slots_[slot].holds == 0 && slots_[slot].key);
  const ExpertKey key = *slots_[slot].key;
  slot_of_[number(key)] = -1;
  --cached_[key.layer];
  slots_[slot] = {};
  free_.push_back(slot);
}

}  // namespace kvasir::expert
