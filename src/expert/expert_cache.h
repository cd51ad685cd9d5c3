// Which experts are in memory: the policy of the expert store. Plain data, no I/O, no clock.
//
// Time is counted in rounds, one for each pass through the layers of the model, and recency in
// epochs of 64 rounds. Evicted is what was not used for the most epochs; of those, what was used
// the least often; of those, what was used last: a pass that needs more experts than there are
// slots then finds as many again as stayed, where plain recency would find none (docs/offload.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvasir::expert {

struct ExpertKey {
  uint32_t layer = 0;
  uint32_t index = 0;
  friend bool operator==(const ExpertKey&, const ExpertKey&) = default;
};

// One thread.
class ExpertCache {
 public:
  // n_experts[l]: experts of layer l.
  ExpertCache(size_t n_slots, const std::vector<uint32_t>& n_experts);

  size_t n_slots() const { return slots_.size(); }
  size_t n_cached() const { return slots_.size() - free_.size(); }
  // True if no expert of the layer is missing.
  bool has_whole_layer(uint32_t layer) const;

  std::optional<uint32_t> find(ExpertKey key) const;  // its slot

  void start_round();
  // Counts a use, of an expert that is cached or not.
  void use(ExpertKey key);

  // A slot for an expert that is not cached, evicting another one if it has to; the slot is held
  // once. Nothing if all slots are held.
  std::optional<uint32_t> claim(ExpertKey key);
  // A held slot is not evicted. Holds are counted.
  void hold(uint32_t slot) { ++slots_[slot].holds; }
  void release(uint32_t slot);
  bool is_held(uint32_t slot) const { return slots_[slot].holds != 0; }
  // Empties a slot that nobody holds.
  void drop(uint32_t slot);

  uint64_t evictions() const { return evictions_; }

 private:
  struct Slot {
    std::optional<ExpertKey> key;
    uint32_t holds = 0;
    uint64_t epoch = 0;  // of the last use
    uint64_t order = 0;  // of the last use, among all
  };

  size_t number(ExpertKey key) const { return first_[key.layer] + key.index; }
  bool goes_before(const Slot& a, const Slot& b) const;
  std::optional<uint32_t> victim() const;

  std::vector<size_t> first_;     // number of expert 0 of each layer
  std::vector<uint32_t> cached_;  // how many of each layer
  std::vector<int32_t> slot_of_;  // by number; -1: not cached
  std::vector<uint32_t> uses_;    // by number; fades
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint64_t round_ = 1;
  uint64_t order_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace kvasir::expert
