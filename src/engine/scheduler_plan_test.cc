// Which rows a step has: tokens before prompts, nobody starves, every bound holds.
#include "engine/scheduler_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kvasir::engine {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::map<uint64_t, size_t> plan(StepPlanner& planner, const std::vector<Standing>& standings,
                                bool elsewhere = false) {
  std::map<uint64_t, size_t> rows;
  for (const RowShare& share : planner.plan(standings, elsewhere))
    rows[standings[share.index].id] += share.rows;
  return rows;
}

TEST(StepPlanner, GivesARowToEveryTokenAndAChunkToPrompts) {
  StepPlanner planner({32, 8, 4});
  EXPECT_THAT(plan(planner, {{1, 0}, {2, 100}, {3, 0}}),
              ElementsAre(Pair(1, 1), Pair(2, 8), Pair(3, 1)));
  EXPECT_THAT(plan(planner, {{2, 100}}), ElementsAre(Pair(2, 32)));
  EXPECT_THAT(plan(planner, {{2, 100}}, true), ElementsAre(Pair(2, 8)));
  EXPECT_TRUE(plan(planner, {}).empty());
}

TEST(StepPlanner, KeepsAQuarterForPromptsAndNoMoreThanTheyNeed) {
  std::vector<Standing> standings = {{1, 100}};
  for (uint64_t id = 2; id < 20; ++id) standings.push_back({id, 0});
  StepPlanner planner({16, 8, 4});
  auto rows = plan(planner, standings);
  EXPECT_EQ(rows.size(), 1U + 12U);
  EXPECT_EQ(rows[1], 4U);
  standings[0].prompt_rows = 1;
  rows = plan(planner, standings);
  EXPECT_EQ(rows.size(), 1U + 15U);
}

TEST(StepPlanner, SharesEquallyAndGivesAwayWhatIsNotNeeded) {
  StepPlanner planner({30, 8, 4});
  EXPECT_THAT(plan(planner, {{1, 100}, {2, 3}, {3, 100}}),
              ElementsAre(Pair(1, 14), Pair(2, 3), Pair(3, 13)));
}

TEST(StepPlanner, LetsPromptsTakeTurnsWhereThereAreTooManyForOneRowEach) {
  StepPlanner planner({100, 2, 4});
  std::map<uint64_t, size_t> total;
  for (int step = 0; step < 25; ++step)
    for (auto [id, rows] :
         plan(planner, {{9, 0}, {1, 500}, {2, 500}, {3, 500}, {4, 500}, {5, 500}}))
      total[id] += rows;
  EXPECT_THAT(total, ElementsAre(Pair(1, 10), Pair(2, 10), Pair(3, 10), Pair(4, 10), Pair(5, 10),
                                 Pair(9, 25)));
}

TEST(StepPlanner, BoundsRowsOfPromptsThatWantLogits) {
  StepPlanner planner({32, 8, 4});
  EXPECT_THAT(plan(planner, {{1, 100, true}, {2, 100, false}}),
              ElementsAre(Pair(1, 4), Pair(2, 28)));
  EXPECT_THAT(plan(planner, {{1, 100, true}, {2, 100, true}}), ElementsAre(Pair(1, 2), Pair(2, 2)));
}

// Any mix: the bounds hold, nobody gets more than they can use, and everybody gets something within
// a number of steps that depends on how many there are.
TEST(StepPlanner, StarvesNobody) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const PlanLimits limits{1 + random() % 20, 1 + random() % 10, 1 + random() % 5};
    StepPlanner planner(limits);
    std::vector<Standing> standings(1 + random() % 30);
    uint64_t id = 0;
    for (Standing& each : standings)
      each = {id += 1 + random() % 3, random() % 2 == 0 ? 0 : 1 + random() % 50, random() % 4 == 0};
    std::map<uint64_t, int> waited;
    for (int step = 0; step < 200; ++step) {
      std::shuffle(standings.begin(), standings.end(), random);
      const auto rows = plan(planner, standings);
      size_t all = 0, prompts = 0, with_logits = 0;
      bool any_decode = false;
      for (const Standing& each : standings) {
        const auto share = rows.find(each.id);
        const size_t n = share == rows.end() ? 0 : share->second;
        waited[each.id] = n == 0 ? waited[each.id] + 1 : 0;
        EXPECT_LE(waited[each.id], 4 * 30 + 4) << each.id;
        EXPECT_LE(n, std::max<size_t>(each.prompt_rows, 1));
        all += n;
        if (each.prompt_rows != 0) {
          prompts += n;
          if (each.wants_prompt_logits) with_logits += n;
        } else if (n != 0) {
          any_decode = true;
        }
      }
      EXPECT_GE(all, 1U);
      EXPECT_LE(all, limits.rows_max);
      EXPECT_LE(with_logits, limits.prompt_logits_rows_max);
      if (any_decode) {
        EXPECT_LE(prompts, limits.prefill_rows_while_decoding);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::engine
