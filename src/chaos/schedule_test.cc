#include "chaos/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kvasir::chaos {
namespace {

size_t count_of(const std::vector<PlannedFault>& schedule, Fault fault) {
  return static_cast<size_t>(
      std::count_if(schedule.begin(), schedule.end(),
                    [&](const PlannedFault& planned) { return planned.fault == fault; }));
}

TEST(Schedule, HasAsManyFaultsAsTheRatesSay) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto schedule = make_schedule({10, 2.5, 0, 100}, 400, seed);
    EXPECT_EQ(count_of(schedule, Fault::kKill), 40U);
    EXPECT_EQ(count_of(schedule, Fault::kStall), 10U);
    EXPECT_EQ(count_of(schedule, Fault::kCut), 0U);
    EXPECT_EQ(count_of(schedule, Fault::kGarbage), 400U);
    EXPECT_TRUE(std::is_sorted(
        schedule.begin(), schedule.end(),
        [](const PlannedFault& a, const PlannedFault& b) { return a.token < b.token; }));
    for (const PlannedFault& planned : schedule) {
      EXPECT_GE(planned.token, 1U);
      EXPECT_LT(planned.token, 400U);
    }
  }
}

TEST(Schedule, DependsOnTheSeedAlone) {
  EXPECT_EQ(make_schedule({10, 10, 5, 1}, 300, 3), make_schedule({10, 10, 5, 1}, 300, 3));
  EXPECT_NE(make_schedule({10, 10, 5, 1}, 300, 3), make_schedule({10, 10, 5, 1}, 300, 4));
}

TEST(Schedule, IsEmptyWhereThereIsNothingToDo) {
  EXPECT_TRUE(make_schedule({}, 400, 1).empty());
  EXPECT_TRUE(make_schedule({0.1F, 0, 0, 0}, 100, 1).empty());
  EXPECT_TRUE(make_schedule({100, 100, 100, 100}, 1, 1).empty());
  EXPECT_EQ(make_schedule({100, 0, 0, 0}, 2, 1).size(), 2U);
}

// Every unit has as many holders as wanted, nobody holds one twice, and nobody holds much more
// than others.
TEST(AssignUnits, GivesEveryUnitItsReplicas) {
  std::vector<gguf::UnitId> units;
  for (uint32_t layer = 0; layer < 5; ++layer)
    for (uint32_t group = 0; group < 3; ++group) units.push_back({layer, group});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (size_t workers : {1U, 2U, 8U, 30U}) {
      for (size_t replicas = 1; replicas <= std::min<size_t>(workers, 3); ++replicas) {
        const auto held = assign_units(units, workers, replicas, seed);
        ASSERT_EQ(held.size(), workers);
        std::map<gguf::UnitId, size_t> holders;
        size_t most = 0, least = SIZE_MAX;
        for (const auto& mine : held) {
          EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
          EXPECT_EQ(std::adjacent_find(mine.begin(), mine.end()), mine.end());
          for (const gguf::UnitId& unit : mine) ++holders[unit];
          most = std::max(most, mine.size());
          least = std::min(least, mine.size());
        }
        EXPECT_EQ(holders.size(), units.size());
        for (const auto& [unit, count] : holders) EXPECT_EQ(count, replicas);
        EXPECT_LE(most, least + 1);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::chaos
