// The swarm under virtual time: thousands of runs with random workers, requests and faults, each
// the same again by its seed. In CI 50; KVASIR_SIM_SEEDS=1000 runs so many, KVASIR_SIM_SEED=17 that
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "virtual_swarm.h"

namespace kvasir::testing {
namespace {

using swarm::kSecondUs;
using swarm::SwarmStatus;

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

const worker::TestExperts& experts() {
  static expert::Random random(1);
  static const worker::TestExperts experts(random);
  return experts;
}

// --- Random swarms
// ----------------------------------------------------------------------------------

WorkerPlan random_plan(Chance& chance, bool is_calm) {
  WorkerPlan plan;
  for (gguf::UnitId unit : experts().units())
    if (chance() % 2 == 0) plan.units.push_back(unit);
  if (plan.units.empty()) plan.units.push_back(experts().units().front());
  plan.pair_us = 20 + chance() % 400;
  plan.faults.delay_us = 100 + chance() % 20'000;
  plan.faults.delay_spread_us = chance() % 2 == 0 ? 0 : chance() % 50'000;
  if (is_calm) return plan;
  plan.faults.keeps_order = chance() % 3 != 0;
  if (chance() % 2 == 0) plan.faults.loss = 0.02;
  if (chance() % 2 == 0) plan.faults.repeat = 0.05;
  if (chance() % 2 == 0) plan.faults.damage = 0.02;
  if (chance() % 2 == 0) plan.cut_every_us = 300'000 + chance() % (5 * kSecondUs);
  if (chance() % 2 == 0) {
    plan.stall_every_us = kSecondUs;
    plan.stall_us = 100'000 + chance() % (2 * kSecondUs);
  }
  plan.drains_once = chance() % 4 == 0;
  plan.mischief.reorder = chance() % 2 == 0;
  plan.mischief.seed = chance();
  return plan;
}

VirtualOptions random_swarm(uint64_t seed) {
  Chance chance(seed);
  VirtualOptions options;
  options.seed = seed;
  options.dispatch.mode =
      chance() % 4 == 0 ? swarm::DispatchMode::kAuto : swarm::DispatchMode::kAlways;
  options.dispatch.encoding = static_cast<expert::OutputEncoding>(chance() % 3);
  options.dispatch.probation_tickets = static_cast<uint32_t>(chance() % 3 * 8);
  options.dispatch.secret = {chance(), chance()};
  options.dispatch.seed = chance();
  options.dispatch.verify.share = 0.1 * static_cast<double>(chance() % 3);
  options.local_pair_us = 50 + chance() % 2'000;
  const size_t n_workers = 1 + chance() % 6;
  for (size_t i = 0; i < n_workers; ++i)
    options.workers.push_back(random_plan(chance, /*is_calm=*/seed % 4 == 0));
  if (seed % 3 == 0) {  // lies that must be caught before they are used
    options.dispatch.verify.share = 1;
    options.workers.front().mischief.lie_share = 0.2;
  }
  return options;
}

void fill_random(VirtualCall& call, Chance& chance) {
  constexpr uint32_t kLayers[] = {0, 1, 3};
  call.layer = kLayers[chance() % 3];
  call.top_k = 1 + chance() % 4;
  const size_t n_rows = chance() % 4 == 0 ? 1 + chance() % 24 : 1 + chance() % 3;
  call.rows = expert::random_floats(chance, n_rows * worker::kTestEmbd);
  if (chance() % 20 == 0)  // too large for some format, or not finite on the way
    for (size_t i = 0; i < worker::kTestEmbd; ++i) call.rows[i] *= chance() % 2 == 0 ? 1e7F : 1e37F;
  call.ids.clear();
  std::vector<uint16_t> all(worker::kTestExperts);
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (size_t row = 0; row < n_rows; ++row) {
    std::shuffle(all.begin(), all.end(), chance);
    for (size_t rank = 0; rank < call.top_k; ++rank)
      call.ids.push_back(chance() % 16 == 0 ? expert::kNoExpert : all[rank]);
  }
  call.owners.clear();
  for (size_t row = 0; row < n_rows; ++row) call.owners.push_back(chance() % 8);
}

bool balances(const swarm::TicketCounts& tickets) {
  return tickets.issued == tickets.results + tickets.local_fills + tickets.cancelled + tickets.open;
}

struct Totals {
  uint64_t pairs = 0, remote = 0, late = 0, hedges = 0, lost = 0, deadlines = 0, convicted = 0,
           events = 0;
};

void check_call(VirtualSwarm& swarm, const VirtualCall& call) {
  std::vector<expert::RowFailure> failures;
  const std::vector<float> truth = swarm.truth(call, &failures);
  ASSERT_EQ(std::memcmp(truth.data(), call.out.data(), truth.size() * sizeof(float)), 0);
  ASSERT_EQ(failures.size(), call.failures.size());
  for (size_t i = 0; i < failures.size(); ++i) {
    ASSERT_EQ(failures[i].row, call.failures[i].row);
    ASSERT_EQ(failures[i].error.kind, call.failures[i].error.kind);
  }
  // The longest that an answer is waited for, twice, and computing all of it here.
  ASSERT_LT(call.record.total_us, 12 * kSecondUs);
}

void check_end(VirtualSwarm& swarm) {
  const SwarmStatus status = swarm.dispatcher.status(swarm.clock.now());
  EXPECT_EQ(status.tickets.open, 0U);
  EXPECT_TRUE(balances(status.tickets));
  EXPECT_LE(status.known_identities, swarm.workers.size());
  for (const swarm::WorkerStatus& each : status.workers) {
    EXPECT_EQ(each.open_pairs, 0U);
    EXPECT_LE(each.settled_tickets, 4096U);
  }
  for (const auto& worker : swarm.workers) {
    if (worker->plan.mischief.lie_share > 0) continue;
    EXPECT_FALSE(swarm.convicted.contains(worker->node)) << "an honest worker was convicted";
  }
}

void run_seed(uint64_t seed, Totals& totals) {
  VirtualSwarm swarm(experts(), random_swarm(seed));
  Chance chance(seed ^ 0xABCDEF);
  // Several sequences at once, each with its next call when the last one is done.
  const size_t n_callers = 1 + chance() % 3, n_calls = 40;
  std::vector<std::unique_ptr<VirtualCall>> calls;
  size_t done = 0;
  std::vector<size_t> left(n_callers, n_calls);
  for (size_t caller = 0; caller < n_callers; ++caller) {
    calls.push_back(std::make_unique<VirtualCall>());
    VirtualCall& call = *calls.back();
    call.on_done = [&, caller](VirtualCall& ended) {
      check_call(swarm, ended);
      ++done;
      const SwarmStatus status = swarm.dispatcher.status(swarm.clock.now());
      ASSERT_TRUE(balances(status.tickets));
      if (--left[caller] == 0) return;
      ended.is_done = false;
      swarm.clock.after(chance() % 300'000, [&swarm, &chance, &ended] {
        fill_random(ended, chance);
        swarm.start(ended);
      });
    };
    swarm.clock.after(chance() % 500'000, [&swarm, &chance, &call] {
      fill_random(call, chance);
      swarm.start(call);
    });
  }
  ASSERT_TRUE(swarm.run_until(
      1'000 * kSecondUs,
      [&] { return done == n_callers * n_calls || ::testing::Test::HasFatalFailure(); }))
      << done << " calls of " << n_callers * n_calls << " ended";
  check_end(swarm);
  const SwarmStatus status = swarm.dispatcher.status(swarm.clock.now());
  for (uint64_t pairs : status.pairs) totals.pairs += pairs;
  totals.remote += status.pairs[0] + status.pairs[1];
  totals.lost += status.pairs[static_cast<size_t>(swarm::Why::kLost)];
  totals.deadlines += status.pairs[static_cast<size_t>(swarm::Why::kDeadline)];
  totals.hedges += status.hedges;
  totals.late += status.free_audits;
  totals.convicted += swarm.convicted.size();
  totals.events += swarm.clock.events();
}

// Outputs equal the monolith's to the last bit, every call ends, tickets balance, and who is honest
// is not convicted: whatever the network and the workers do.
TEST(SwarmUnderVirtualTime, GivesTheMonolithsBitsWhateverHappens) {
  const uint64_t only = number_in("KVASIR_SIM_SEED", UINT64_MAX);
  const uint64_t first = only == UINT64_MAX ? 0 : only;
  const uint64_t seeds = only == UINT64_MAX ? number_in("KVASIR_SIM_SEEDS", 50) : 1;
  Totals totals;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(
        fmt::format("replay: KVASIR_SIM_SEED={} swarm_virtual_time_test "
                    "--gtest_filter=SwarmUnderVirtualTime.Gives*",
                    seed));
    run_seed(seed, totals);
    if (HasFailure()) return;
  }
  fmt::print(
      "{} seeds, {} events: {} pairs, {:.1f} % by workers, {} after deadlines, {} lost, {} hedges, "
      "{} free audits, {} liars convicted\n",
      seeds, totals.events, totals.pairs,
      100.0 * static_cast<double>(totals.remote) / static_cast<double>(totals.pairs),
      totals.deadlines, totals.lost, totals.hedges, totals.late, totals.convicted);
  if (seeds < 50) return;
  // The faults do happen, and workers do work.
  EXPECT_GT(totals.remote * 10, totals.pairs * 3);
  EXPECT_GT(totals.deadlines, 0U);
  EXPECT_GT(totals.lost, 0U);
  EXPECT_GT(totals.hedges, 0U);
  EXPECT_GT(totals.late, 0U);
  EXPECT_GT(totals.convicted, 0U);
}

// The same seed is the same run.
TEST(SwarmUnderVirtualTime, RepeatsItself) {
  Totals first, again;
  run_seed(7, first);
  run_seed(7, again);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first.remote, again.remote);
}

// --- Lies
// ---------------------------------------------------------------------------------------------

// One worker lies in a share `f` of its answers, a share `p` of answers is verified. How many
// answers it gives until it is convicted is geometric with mean 1/(p f); the sum over 50 runs has a
// standard deviation of 14 %, so three of them are 42 %.
struct LieRun {
  uint64_t answers = 0;
  std::set<uint64_t> wrong, doubted, never_asked_it;
};

LieRun run_liar(uint64_t seed, double f, double p) {
  VirtualOptions options;
  options.seed = seed;
  options.dispatch.mode = swarm::DispatchMode::kAlways;
  options.dispatch.verify.share = p;
  options.dispatch.probation_tickets = 0;
  options.dispatch.secret = {seed * 3 + 1, seed * 5 + 2};
  options.dispatch.seed = seed;
  options.workers.resize(2);
  for (gguf::UnitId unit : experts().units()) options.workers[unit.group].units.push_back(unit);
  options.workers[0].mischief = {f, false, seed};
  VirtualSwarm swarm(experts(), options);

  LieRun run;
  // Owners with even numbers ask the liar, odd ones the other; five calls each.
  uint64_t number = 0;
  Chance chance(seed);
  VirtualCall call;
  const auto next = [&] {
    const uint64_t turn = number++, owner = turn / 10 * 2 + turn % 2;
    call.layer = 0;
    call.top_k = 1;
    call.rows = expert::random_floats(chance, worker::kTestEmbd);
    call.ids = {
        static_cast<uint16_t>(owner % 2 * worker::kTestGroup + chance() % worker::kTestGroup)};
    call.owners = {owner};
    call.is_done = false;
    if (owner % 2 != 0) run.never_asked_it.insert(owner);
    swarm.start(call);
  };
  call.on_done = [&](VirtualCall& ended) {
    const auto truth = swarm.truth(ended, nullptr);
    if (std::memcmp(truth.data(), ended.out.data(), truth.size() * sizeof(float)) != 0)
      run.wrong.insert(ended.owners[0]);
    if (swarm.convicted.empty()) next();
  };
  swarm.clock.after(2 * kSecondUs, next);
  EXPECT_TRUE(swarm.run_until(100'000 * kSecondUs,
                              [&] { return !swarm.convicted.empty() && call.is_done; }));
  EXPECT_EQ(swarm.convicted, std::set<uint8_t>{swarm.workers[0]->node});
  EXPECT_GT(swarm.evidence, 0U);
  const SwarmStatus status = swarm.dispatcher.status(swarm.clock.now());
  // What the liar answered: all answers less those of the other worker, which is still there.
  run.answers = status.tickets.results;
  for (const swarm::WorkerStatus& each : status.workers) run.answers -= each.counts.answers;
  const auto doubted = swarm.dispatcher.take_doubted();
  run.doubted.insert(doubted.begin(), doubted.end());
  return run;
}

TEST(SwarmUnderVirtualTime, FindsALiarAsSoonAsChanceAllows) {
  constexpr double kF = 0.2, kP = 0.1;
  constexpr int kRuns = 50;
  uint64_t answers = 0, wrong = 0;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    SCOPED_TRACE(seed);
    const LieRun run = run_liar(seed, kF, kP);
    answers += run.answers;
    wrong += run.wrong.size();
    for (uint64_t owner : run.wrong) EXPECT_TRUE(run.doubted.contains(owner));
    for (uint64_t owner : run.never_asked_it) EXPECT_FALSE(run.doubted.contains(owner));
    EXPECT_FALSE(run.doubted.contains(swarm::Dispatcher::kEveryOwner));
  }
  const double expected = kRuns / (kF * kP);
  fmt::print("{} answers until {} convictions, expected {:.0f}; {} sequences had a wrong value\n",
             answers, kRuns, expected, wrong);
  EXPECT_NEAR(static_cast<double>(answers), expected, 0.42 * expected);
  EXPECT_GT(wrong, 0U);
}

// All that a liar can do with everything verified is to be convicted at its first lie.
TEST(SwarmUnderVirtualTime, VerifyingAllLetsNoLieThrough) {
  for (uint64_t seed = 100; seed < 110; ++seed) {
    SCOPED_TRACE(seed);
    const LieRun run = run_liar(seed, 0.2, 1);
    EXPECT_TRUE(run.wrong.empty());
    EXPECT_TRUE(run.doubted.empty());
  }
}

}  // namespace
}  // namespace kvasir::testing
