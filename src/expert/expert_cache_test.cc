// The policy against a slow model of it, over random traces; and the properties it was chosen for.
#include "expert/expert_cache.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace kvasir::expert {
namespace {

// The rules of expert_cache.h, on a map, without care for speed.
class SlowCache {
 public:
  explicit SlowCache(size_t n_slots) : n_slots_(n_slots) {}

  using Key = std::pair<uint32_t, uint32_t>;
  struct Entry {
    uint64_t epoch, order;
    int holds;
  };

  void start_round() {
    if (++round_ % 256 == 0)
      for (auto& [key, uses] : uses_) uses /= 2;
  }
  void use(Key key) {
    ++uses_[key];
    if (auto found = entries_.find(key); found != entries_.end()) {
      found->second.epoch = round_ / 64;
      found->second.order = ++order_;
    }
  }
  bool claim(Key key) {
    if (entries_.size() == n_slots_) {
      std::optional<Key> victim;
      for (const auto& [candidate, entry] : entries_) {
        if (entry.holds != 0) continue;
        const auto rank = [&](const Key& k) {
          const Entry& e = entries_.at(k);
          return std::tuple(e.epoch, uses_[k], ~e.order);
        };
        if (!victim || rank(candidate) < rank(*victim)) victim = candidate;
      }
      if (!victim) return false;
      entries_.erase(*victim);
    }
    entries_[key] = {round_ / 64, ++order_, 1};
    return true;
  }

  std::map<Key, Entry> entries_;

 private:
  size_t n_slots_;
  std::map<Key, uint32_t> uses_;
  uint64_t round_ = 1, order_ = 0;
};

TEST(ExpertCache, DoesWhatItsRulesSay) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<uint32_t> layers = {7, 1, 12};
    const size_t n_slots = 1 + random() % 12;
    ExpertCache cache(n_slots, layers);
    SlowCache slow(n_slots);
    for (int step = 0; step < 5000; ++step) {
      const auto layer = static_cast<uint32_t>(random() % layers.size());
      // Low numbers are popular.
      const auto index = static_cast<uint32_t>(std::min(random(), random()) % layers[layer]);
      const ExpertKey key{layer, index};
      const auto slot = cache.find(key);
      ASSERT_EQ(slot.has_value(), slow.entries_.contains({layer, index})) << "seed " << seed;
      switch (random() % 8) {
        case 0:
          cache.start_round();
          slow.start_round();
          break;
        case 1:
          if (slot) cache.hold(*slot), ++slow.entries_.at({layer, index}).holds;
          break;
        case 2:
        case 3:
          if (slot && cache.is_held(*slot))
            cache.release(*slot), --slow.entries_.at({layer, index}).holds;
          break;
        case 4:
          if (slot && !cache.is_held(*slot)) cache.drop(*slot), slow.entries_.erase({layer, index});
          break;
        default:
          cache.use(key);
          slow.use({layer, index});
          if (!slot) {
            const auto claimed = cache.claim(key);
            ASSERT_EQ(claimed.has_value(), slow.claim({layer, index})) << "seed " << seed;
            if (claimed && random() % 4 != 0)
              cache.release(*claimed), --slow.entries_.at({layer, index}).holds;
          }
      }
      ASSERT_EQ(cache.n_cached(), slow.entries_.size());
      std::set<uint32_t> slots;
      for (const auto& [cached, entry] : slow.entries_) {
        const auto at = cache.find({cached.first, cached.second});
        ASSERT_TRUE(at) << "seed " << seed;
        ASSERT_EQ(cache.is_held(*at), entry.holds != 0);
        slots.insert(*at);
      }
      ASSERT_EQ(slots.size(), slow.entries_.size());
      ASSERT_TRUE(slots.empty() || *slots.rbegin() < n_slots);
    }
  }
}

// Uses every expert of four layers in turn, as a long prompt does, with slots for half of them.
// Plain recency would never find one.
TEST(ExpertCache, FindsAsManyAsItHasSlotsForInPassesThatNeedAll) {
  ExpertCache cache(32, {16, 16, 16, 16});
  size_t found = 0;
  for (int round = 0; round < 20; ++round) {
    cache.start_round();
    for (uint32_t layer = 0; layer < 4; ++layer) {
      for (uint32_t index = 0; index < 16; ++index) {
        const ExpertKey key{layer, index};
        if (cache.find(key)) {
          ++found;
        } else {
          cache.release(cache.claim(key).value());
        }
        cache.use(key);
      }
    }
  }
  EXPECT_GE(found, 19U * 31);
}

// What was popular on an old subject leaves for what the new one needs.
TEST(ExpertCache, ForgetsWhatWasPopularOnce) {
  ExpertCache cache(4, {8});
  const auto pass = [&](uint32_t first) {
    size_t found = 0;
    cache.start_round();
    for (uint32_t index = first; index < first + 4; ++index) {
      if (cache.find({0, index}))
        ++found;
      else
        cache.release(cache.claim({0, index}).value());
      cache.use({0, index});
    }
    return found;
  };
  for (int round = 0; round < 500; ++round) pass(0);
  EXPECT_EQ(pass(0), 4U);
  for (int round = 0; round < 150; ++round) pass(4);
  EXPECT_EQ(pass(4), 4U);
}

TEST(ExpertCache, KnowsWhenALayerIsWhole) {
  ExpertCache cache(3, {2, 2});
  EXPECT_FALSE(cache.has_whole_layer(0));
  cache.claim({0, 0});
  EXPECT_FALSE(cache.has_whole_layer(0));
  const uint32_t slot = cache.claim({0, 1}).value();
  EXPECT_TRUE(cache.has_whole_layer(0));
  EXPECT_FALSE(cache.has_whole_layer(1));
  cache.release(slot);
  cache.drop(slot);
  EXPECT_FALSE(cache.has_whole_layer(0));
}

}  // namespace
}  // namespace kvasir::expert
