// What decides by numbers: latencies, hedges, audits, the cost of computing here, the governor.
#include <gtest/gtest.h>

#include <random>

#include "swarm/audit.h"
#include "swarm/governor.h"
#include "swarm/hedge_budget.h"
#include "swarm/latency_model.h"
#include "swarm/local_cost.h"

namespace kvasir::swarm {
namespace {

// --- Latencies ----------------------------------------------------------------------------------

TEST(LatencyModel, IsUnknownUntilEnoughAnswersCame) {
  LatencyModel model;
  for (size_t i = 0; i + 1 < LatencyModel::kAnswersMin; ++i) model.on_answer(5'000, 1'000, 1, 0);
  EXPECT_FALSE(model.is_known());
  model.on_answer(5'000, 1'000, 1, 0);
  EXPECT_TRUE(model.is_known());
}

// A worker with a fixed way and a fixed time per pair, asked for tickets of all sizes.
TEST(LatencyModel, LearnsTheWayAndTheTimePerPair) {
  LatencyModel model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const size_t pairs = 1 + random() % 8, ahead = random() % 5;
    model.on_answer(3'000 + 200 * (pairs + ahead), static_cast<uint32_t>(200 * pairs), pairs,
                    ahead);
  }
  EXPECT_NEAR(model.way_us(), 3'000, 1);
  EXPECT_NEAR(model.pair_us(), 200, 1);
  EXPECT_NEAR(model.expected_us(4, 2), 4'200, 5);
  EXPECT_NEAR(static_cast<double>(model.quantile_us(0.9, 4, 2)), 4'200, 5);
}

// Ratios 1..100 hundredths above the expectation, in random order.
TEST(LatencyModel, GivesQuantilesOfWhatHappened) {
  LatencyModel model;
  std::mt19937_64 random(2);
  for (int i = 0; i < 2'000; ++i) model.on_answer(1'000 + random() % 1'000, 0, 1, 0);
  const double expected = model.expected_us(1, 0);
  EXPECT_NEAR(expected, 1'500, 200);
  EXPECT_NEAR(static_cast<double>(model.quantile_us(0.5, 1, 0)), 1'500, 150);
  EXPECT_NEAR(static_cast<double>(model.quantile_us(0.9, 1, 0)), 1'900, 150);
  EXPECT_LE(model.quantile_us(0.5, 1, 0), model.quantile_us(0.75, 1, 0));
  EXPECT_LE(model.quantile_us(0.75, 1, 0), model.quantile_us(0.9, 1, 0));
  EXPECT_NEAR(static_cast<double>(model.recent_us(0.5)), 1'500, 150);
  EXPECT_LE(model.recent_us(0.99), 2'000U);
}

// Half of the tickets are given up at 2 ms. If they did not count, or as quick, the estimate would
// shrink below what workers need.
TEST(LatencyModel, TicketsThatWereGivenUpDoNotMakeAWorkerQuick) {
  LatencyModel model;
  for (int i = 0; i < 200; ++i) model.on_answer(2'000, 0, 1, 0);
  const TimeUs before = model.quantile_us(0.9, 1, 0);
  for (int i = 0; i < 100; ++i) {
    model.on_answer(2'000, 0, 1, 0);
    model.on_given_up(100, 1, 0);
  }
  EXPECT_GE(model.quantile_us(0.9, 1, 0), before);
  for (int i = 0; i < 100; ++i) model.on_given_up(20'000, 1, 0);
  EXPECT_GE(model.quantile_us(0.9, 1, 0), 19'000U);
}

// The window forgets the oldest: after it has passed, a worker that became slow is slow.
TEST(LatencyModel, ForgetsWhatIsOld) {
  LatencyModel model;
  for (int i = 0; i < 500; ++i) model.on_given_up(1'000 + static_cast<TimeUs>(i % 7), 1, 0);
  for (int i = 0; i < 128; ++i) model.on_given_up(1'000'000, 1, 0);
  EXPECT_EQ(model.quantile_us(0.01, 1, 0), model.quantile_us(0.99, 1, 0));
  EXPECT_NEAR(static_cast<double>(model.quantile_us(0.01, 1, 0)), 1'000'000, 1);
}

TEST(LatencyModel, BelievesNoMoreComputingThanTimePassed) {
  LatencyModel model;
  for (int i = 0; i < 50; ++i) model.on_answer(1'000, UINT32_MAX, 2, 0);
  EXPECT_NEAR(model.pair_us(), 500, 1);
  EXPECT_NEAR(model.way_us(), 0, 1);
}

// --- Hedges -------------------------------------------------------------------------------------

TEST(HedgeBudget, GivesATenthOfWhatWasAsked) {
  HedgeBudget budget;
  TimeUs now = 5 * kSecondUs;
  EXPECT_FALSE(budget.take(1, now));
  budget.on_asked(100, now);
  size_t taken = 0;
  while (budget.take(1, now)) ++taken;
  EXPECT_EQ(taken, 10U);
  budget.on_asked(9, now);
  EXPECT_FALSE(budget.take(1, now));
  budget.on_asked(1, now);
  EXPECT_TRUE(budget.take(1, now));
}

TEST(HedgeBudget, ForgetsAfterItsSpan) {
  HedgeBudget budget;
  budget.on_asked(100, 0);
  EXPECT_TRUE(budget.take(10, HedgeBudget::kSpanUs - 1));
  EXPECT_FALSE(budget.take(1, HedgeBudget::kSpanUs - 1));
  EXPECT_FALSE(budget.take(1, HedgeBudget::kSpanUs));  // what was asked is too old, hedges are not
  budget.on_asked(200, 3 * HedgeBudget::kSpanUs);
  EXPECT_TRUE(budget.take(20, 3 * HedgeBudget::kSpanUs));
}

// Whatever is asked for when: hedges of any 9 s are at most a tenth of what was asked in the 11 s
// around them.
TEST(HedgeBudget, NeverGivesMoreThanATenth) {
  std::mt19937_64 random(3);
  HedgeBudget budget;
  std::vector<std::pair<TimeUs, size_t>> asked, hedged;
  TimeUs now = 0;
  for (int i = 0; i < 5'000; ++i) {
    now += random() % 20'000;
    const size_t pairs = 1 + random() % 16;
    if (random() % 2 == 0) {
      budget.on_asked(pairs, now);
      asked.emplace_back(now, pairs);
    } else if (budget.take(pairs, now)) {
      hedged.emplace_back(now, pairs);
    }
    const auto sum = [now](const auto& all, TimeUs span) {
      size_t pairs_in_span = 0;
      for (auto at = all.rbegin(); at != all.rend() && at->first + span > now; ++at)
        pairs_in_span += at->second;
      return pairs_in_span;
    };
    ASSERT_LE(sum(hedged, 9 * kSecondUs) * HedgeBudget::kOneIn, sum(asked, 11 * kSecondUs));
  }
  EXPECT_GT(hedged.size(), 50U);
}

// --- Audits -------------------------------------------------------------------------------------

TEST(AuditSampler, PicksItsShareAndTheSameOnesAgain) {
  const AuditSampler sampler({11, 22}, {0.05}), again({11, 22}, {0.05}), other({11, 23}, {0.05});
  wire::Key key{};
  size_t picked = 0, both = 0;
  for (uint64_t ticket = 1; ticket <= 100'000; ++ticket) {
    const bool picks = sampler.picks(key, ticket);
    EXPECT_EQ(picks, again.picks(key, ticket));
    picked += picks ? 1 : 0;
    both += picks && other.picks(key, ticket) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(picked), 5'000, 350);  // five standard deviations
  EXPECT_LT(both, 350U);  // another secret picks others: 250 by chance
}

TEST(AuditSampler, NoneAndAll) {
  const AuditSampler none({1, 2}, {0}), all({1, 2}, {1});
  for (uint64_t ticket = 0; ticket < 1'000; ++ticket) {
    EXPECT_FALSE(none.picks({}, ticket));
    EXPECT_TRUE(all.picks({}, ticket));
  }
}

TEST(Digest, SeesEveryBit) {
  std::vector<float> outputs(64, 0.5F);
  const Digest whole = digest({1, 2}, outputs);
  EXPECT_EQ(whole, digest({1, 2}, outputs));
  EXPECT_NE(whole, digest({1, 3}, outputs));
  outputs[63] = -outputs[63];
  EXPECT_NE(whole, digest({1, 2}, outputs));
  outputs[63] = 0.0F;
  const Digest zero = digest({1, 2}, outputs);
  outputs[63] = -0.0F;
  EXPECT_NE(zero, digest({1, 2}, outputs));
}

// --- The cost of computing here
// -------------------------------------------------------------------

TEST(LocalCost, TellsMemoryFromDisk) {
  LocalCost cost;
  EXPECT_FALSE(cost.is_known());
  for (int i = 0; i < 100; ++i) {
    cost.on_computed({4, 0}, 400);
    cost.on_computed({2, 2}, 200 + 2 * 5'000);
  }
  EXPECT_TRUE(cost.is_known());
  EXPECT_NEAR(cost.expected_us({1, 0}), 100, 1);
  EXPECT_NEAR(cost.expected_us({0, 1}), 5'000, 50);
  cost.on_computed({}, 1e9);
  EXPECT_NEAR(cost.expected_us({1, 0}), 100, 1);
}

// --- The governor
// ---------------------------------------------------------------------------------

// Calls of 1,000 us here; shipped they take `ship_us`.
struct GovernorRun {
  Governor governor;
  double took_us = 0;
  uint64_t calls = 0, shipped = 0;
  void run(uint64_t n, double ship_us, bool can_ship = true) {
    for (uint64_t i = 0; i < n; ++i) {
      const bool ship = governor.mode() == Governor::Mode::kShip && can_ship;
      const double took = ship ? ship_us : 1'000;
      governor.on_call(1'000, took, ship);
      took_us += took;
      ++calls;
      shipped += ship ? 1 : 0;
    }
  }
};

TEST(Governor, StaysAloneWhereShippingIsSlower) {
  GovernorRun run;
  run.run(200'000, 3'000);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kAlone);
  // Trials come ever more seldom: less than 2 % of all calls, so less than 4 % of the time.
  EXPECT_LT(run.shipped, run.calls / 50);
  EXPECT_LT(run.took_us, 1.04 * 1'000 * static_cast<double>(run.calls));
}

// The first trials are close together; what they cost has a limit that does not grow with the run:
// nine epochs until they are as seldom as they get.
TEST(Governor, FirstTrialsCostLittle) {
  GovernorRun run;
  run.run(16'000, 3'000);
  EXPECT_LE(run.shipped, 9 * Governor::kEpochCalls);
}

TEST(Governor, ShipsSoonWhereItPays) {
  GovernorRun run;
  run.run((Governor::kFirstTrialAfter + 1) * Governor::kEpochCalls, 500);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kShip);
  run.run(50'000, 500);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kShip);
  EXPECT_GT(run.shipped, run.calls * 9 / 10);
}

TEST(Governor, AGainThatIsTooSmallIsNone) {
  GovernorRun run;
  run.run(20'000, 970);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kAlone);
}

TEST(Governor, SwitchesAndComesBack) {
  GovernorRun run;
  run.run(1'000, 500);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kShip);
  run.run(5 * Governor::kEpochCalls, 2'000);  // workers became slow: noticed within some epochs
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kAlone);
  run.run(2 * Governor::kTrialAfterMax * Governor::kEpochCalls, 500);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kShip);
}

// Machines of one's own become slower, too: a check every now and then finds out.
TEST(Governor, NoticesThatComputingAloneBecameBetter) {
  Governor governor;
  for (int i = 0; i < 5'000; ++i)
    governor.on_call(1'000, governor.mode() == Governor::Mode::kShip ? 800 : 1'000,
                     governor.mode() == Governor::Mode::kShip);
  EXPECT_EQ(governor.view().mode, Governor::Mode::kShip);
  for (int i = 0; i < 5'000; ++i)
    governor.on_call(1'000, governor.mode() == Governor::Mode::kShip ? 800 : 300,
                     governor.mode() == Governor::Mode::kShip);
  EXPECT_EQ(governor.view().mode, Governor::Mode::kAlone);
}

// A failed trial doubles the time until the next one; without workers there was none.
TEST(Governor, ATrialWithoutWorkersDoesNotPutOffTheNext) {
  GovernorRun run;
  run.run(100'000, 500, /*can_ship=*/false);
  run.run(2 * (Governor::kFirstTrialAfter + 1) * Governor::kEpochCalls, 500);
  EXPECT_EQ(run.governor.view().mode, Governor::Mode::kShip);
}

}  // namespace
}  // namespace kvasir::swarm
