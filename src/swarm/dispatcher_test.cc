// The dispatcher by scripted events: what happens to answers that are late, lost, wrong, or of
// nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "swarm/test_dispatcher.h"

namespace kvasir::swarm {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using wire::FailReason;

uint32_t why(const ToyCall& call, Why why) {
  return call.record.why[static_cast<size_t>(why)];
}
DispatchOptions verifying(double share) {
  DispatchOptions options = ToySwarm::options_without_probation();
  options.verify.share = share;
  return options;
}

// --- The plain way
// --------------------------------------------------------------------------------

TEST(Dispatcher, ComputesEverythingHereWithoutWorkers) {
  ToySwarm swarm;
  ToyCall call(0, 2, {3, 5, 5, 7});
  swarm.start(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kHole), 4U);
}

TEST(Dispatcher, SendsWhatAWorkerHoldsAndComputesTheHoles) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 4, 8);
  ToyCall call(1, 2, {3, 5, 5, 7});
  swarm.start(call);
  EXPECT_FALSE(call.done);
  EXPECT_EQ(swarm.computed_here, 1U);
  const ToyTicket ticket = swarm.take(worker);
  EXPECT_THAT(ticket.compute.experts, ElementsAre(5, 5, 7));
  EXPECT_THAT(ticket.compute.counts, ElementsAre(1, 2));
  EXPECT_TRUE(swarm.answer(ticket));
  EXPECT_TRUE(Dispatcher::is_wakeup_due(*call.call));
  EXPECT_TRUE(swarm.dispatcher.take_wakeup());
  EXPECT_FALSE(swarm.dispatcher.take_wakeup());
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.record.pairs_remote, 3U);
  EXPECT_EQ(why(call, Why::kHole), 1U);
  const TicketCounts tickets = swarm.status().tickets;
  EXPECT_EQ(tickets.issued, 1U);
  EXPECT_EQ(tickets.results, 1U);
}

TEST(Dispatcher, PlacesWithoutAnExpertAreNobodys) {
  constexpr uint16_t kNone = expert::kNoExpert;
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {kNone, 5, 2, kNone, kNone, kNone});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  EXPECT_EQ(ticket.compute.n_rows(), 2U);
  EXPECT_TRUE(swarm.answer(ticket));
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.record.pairs, 2U);
  const auto& pairs = swarm.status().pairs;
  EXPECT_EQ(std::accumulate(pairs.begin(), pairs.end(), uint64_t{0}), 2U);

  ToyCall nothing(0, 1, {kNone});
  swarm.start(nothing);
  EXPECT_TRUE(nothing.done);
  EXPECT_TRUE(nothing.is_right());
}

TEST(Dispatcher, SplitsWhatOneTicketCannotAskFor) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join(1, /*rows_max=*/3);
  swarm.ready(worker, 0, 0, 16);
  ToyCall call(0, 1, {1, 2, 3, 4, 5, 6, 7, 8});
  swarm.start(call);
  ASSERT_EQ(swarm.tickets.size(), 3U);
  while (!swarm.tickets.empty()) {
    EXPECT_LE(swarm.tickets.front().compute.n_rows(), 3U);
    EXPECT_TRUE(swarm.answer(swarm.take()));
  }
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
}

TEST(Dispatcher, RowsThatCannotBeQuantisedStayHere) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2, 1, 2});
  call.sendable[0] = 0;
  swarm.start(call);
  EXPECT_EQ(swarm.computed_here, 2U);
  const ToyTicket ticket = swarm.take();
  EXPECT_EQ(ticket.compute.n_rows(), 1U);
  EXPECT_TRUE(swarm.answer(ticket));
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
}

TEST(Dispatcher, AWorkerThatCannotReadTheRowsIsNotAsked) {
  ToySwarm swarm;
  WorkerInfo info;
  info.capabilities = {0b110, 0b111, 64, 64};  // no f32 rows
  info.rows_max = 64;
  const WorkerId worker = swarm.dispatcher.join(std::move(info), swarm.now);
  swarm.ready(worker, 0, 0, 16);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  EXPECT_TRUE(call.done);
  EXPECT_EQ(why(call, Why::kHole), 1U);
}

// A row that fails fails wherever its experts are, and all of it is zero.
TEST(Dispatcher, FailedRowsAreZeroAndOthersAreNot) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 8);
  ToyCall call(0, 2, {3, 12, 4, 13});
  call.bad_row = 1;
  swarm.start(call);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(call);
  ASSERT_EQ(call.failures.size(), 1U);
  EXPECT_EQ(call.failures[0].row, 1U);
  EXPECT_EQ(call.failures[0].error.kind, ErrorKind::kNonFinite);
  EXPECT_TRUE(call.is_right());
}

// The worker says which pair is not finite; this end finds out for itself.
TEST(Dispatcher, ARowThatFailsAtTheWorkerIsComputedHere) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {3, 12, 4, 13});
  call.bad_row = 0;
  swarm.start(call);
  swarm.fail(swarm.take(), FailReason::kNonFinite, 0);
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.failures.size(), 1U);
  EXPECT_EQ(swarm.status().quarantined, 0U);
}

TEST(Dispatcher, TheThreeEncodingsTravel) {
  for (const auto encoding :
       {expert::OutputEncoding::kF32, expert::OutputEncoding::kF16, expert::OutputEncoding::kQ8}) {
    DispatchOptions options = verifying(1);
    options.encoding = encoding;
    ToySwarm swarm(options);
    swarm.join_holding(1, 0, 16);
    ToyCall call(0, 2, {3, 12, 4, 13});
    call.encoding = encoding;
    swarm.start(call);
    EXPECT_TRUE(swarm.answer(swarm.take()));
    swarm.go(call);
    EXPECT_TRUE(call.done);
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(call.record.pairs_remote, 4U) << expert::encoding_name(encoding);
  }
}

// --- Late, refused, lost
// ----------------------------------------------------------------------------

TEST(Dispatcher, ComputesHereWhatIsLate) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  EXPECT_NE(call.step.until, kNeverUs);
  EXPECT_LE(call.step.until, swarm.now + 5 * kSecondUs);
  swarm.run_out(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kDeadline), 2U);
  EXPECT_THAT(swarm.cancelled, ElementsAre(std::pair(worker, ticket.number)));
  EXPECT_TRUE(swarm.status_of(worker).suspect);
  EXPECT_EQ(swarm.status_of(worker).open_pairs, 0U);
  EXPECT_EQ(swarm.status().tickets.local_fills, 1U);
}

TEST(Dispatcher, ComputesHereAtOnceWhatIsRefused) {
  for (int way = 0; way < 4; ++way) {
    ToySwarm swarm;
    const WorkerId worker = swarm.join_holding(1, 0, 16);
    ToyCall call(0, 2, {1, 2});
    swarm.start(call);
    const ToyTicket ticket = swarm.take();
    if (way == 0) swarm.busy(ticket);
    if (way == 1) swarm.fail(ticket, FailReason::kInternal);
    if (way == 2) swarm.dispatcher.on_unsent(worker, ticket.number, swarm.now);
    if (way == 3) swarm.dispatcher.leave(worker, swarm.now);
    EXPECT_TRUE(Dispatcher::is_wakeup_due(*call.call));
    const TimeUs before = swarm.now;
    swarm.go(call);
    EXPECT_TRUE(call.done) << way;
    EXPECT_EQ(swarm.now, before + swarm.compute_us);
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(why(call, way == 3 ? Why::kLost : Why::kRefused), 2U);
    EXPECT_TRUE(swarm.is_balanced());
  }
}

TEST(Dispatcher, NotHeldTakesTheExpertFromTheWorker) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {4, 9});
  swarm.start(call);
  swarm.fail(swarm.take(), FailReason::kNotHeld, 1);
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_TRUE(swarm.dispatcher.coverage().holders(0, 9).empty());
  EXPECT_FALSE(swarm.dispatcher.coverage().holders(0, 4).empty());
  EXPECT_FALSE(swarm.dispatcher.coverage().holders(1, 9).empty());
  EXPECT_EQ(swarm.status_of(worker).experts, 31U);

  ToyCall again(0, 2, {4, 8});
  swarm.start(again);
  swarm.fail(swarm.take(), FailReason::kNotHeld);  // not said which: all of them
  swarm.go(again);
  EXPECT_EQ(swarm.status_of(worker).experts, 29U);
}

TEST(Dispatcher, LeavingSettlesEverythingAtOnce) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join(1, /*rows_max=*/1);
  swarm.ready(worker, 0, 0, 16);
  ToyCall one(0, 1, {1, 2, 3}), two(0, 1, {4, 5}, 7);
  swarm.start(one);
  swarm.start(two);
  EXPECT_EQ(swarm.status().tickets.open, 5U);
  swarm.dispatcher.leave(worker, swarm.now);
  EXPECT_EQ(swarm.status().tickets.open, 0U);
  EXPECT_EQ(swarm.dispatcher.coverage().covered(), 0U);
  swarm.go(one);
  swarm.go(two);
  EXPECT_TRUE(one.is_right() && two.is_right());
  EXPECT_EQ(why(one, Why::kLost), 3U);
  swarm.dispatcher.leave(worker, swarm.now);  // twice is once
  EXPECT_TRUE(swarm.is_balanced());
}

TEST(Dispatcher, AnAnswerOfAWorkerThatLeftIsStillUsed) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.dispatcher.leave(worker, swarm.now);
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kRemote), 1U);
}

// --- Coverage
// ---------------------------------------------------------------------------------------

TEST(Dispatcher, CountsExpertsAndDrainingByWhatIsHeld) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join(1);
  swarm.ready(worker, 0, 0, 8);
  swarm.ready(worker, 0, 4, 12);
  swarm.ready(worker, 5, 0, 4);    // no such layer
  swarm.ready(worker, 0, 12, 20);  // not within the model
  EXPECT_EQ(swarm.status_of(worker).experts, 12U);
  swarm.drain(worker, 0, 8, 16);
  swarm.drain(worker, 0, 8, 16);
  swarm.drain(worker, 1, 0, 16);
  EXPECT_EQ(swarm.status_of(worker).experts, 8U);
  EXPECT_FALSE(swarm.status_of(worker).draining);
  swarm.drain(worker, 0, 0, 8);
  EXPECT_TRUE(swarm.status_of(worker).draining);
  EXPECT_EQ(swarm.dispatcher.coverage().covered(), 0U);

  swarm.ready(worker, 0, 0, 4);  // and back
  ToyCall call(0, 1, {1});
  swarm.start(call);
  EXPECT_FALSE(call.done);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
}

// DRAIN means no new tickets; what is open is still answered.
TEST(Dispatcher, AWorkerThatDrainsMayFinish) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 1, {1}), next(0, 1, {1});
  swarm.start(call);
  swarm.drain(worker, 0, 0, 16);
  swarm.start(next);
  EXPECT_EQ(why(next, Why::kHole), 1U);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(call);
  EXPECT_EQ(why(call, Why::kRemote), 1U);
}

// --- Hedges
// -----------------------------------------------------------------------------------------

// Fills the budget with answered calls, which teaches latencies as well.
void ask_for(ToySwarm& swarm, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    ToyCall call(0, 1, {static_cast<uint16_t>(i % 16)});
    swarm.start(call);
    const ToyTicket ticket = swarm.take();
    swarm.now += 3'000;
    ASSERT_TRUE(swarm.answer(ticket));
    swarm.go(call);
    ASSERT_TRUE(call.done);
  }
}

TEST(Dispatcher, AsksAnotherWorkerWhenTheFirstIsLate) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  swarm.join_holding(2, 0, 16);
  ask_for(swarm, 40);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  const ToyTicket first = swarm.take();
  swarm.now = call.step.until;
  swarm.go(call);
  ASSERT_EQ(swarm.tickets.size(), 1U);
  const ToyTicket hedge = swarm.take();
  EXPECT_NE(hedge.worker, first.worker);
  EXPECT_TRUE(swarm.answer(hedge));
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kHedge), 1U);
  EXPECT_EQ(swarm.status().hedges, 1U);
  EXPECT_THAT(swarm.cancelled, ElementsAre(std::pair(first.worker, first.number)));
  EXPECT_TRUE(swarm.is_balanced());
}

TEST(Dispatcher, ARefusedFirstTicketLeavesItsPairToTheHedge) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  swarm.join_holding(2, 0, 16);
  ask_for(swarm, 40);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  const ToyTicket first = swarm.take();
  swarm.now = call.step.until;
  swarm.go(call);
  const ToyTicket hedge = swarm.take();
  swarm.busy(first);
  swarm.go(call);
  EXPECT_FALSE(call.done);
  swarm.fail(hedge, FailReason::kInternal);
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_EQ(why(call, Why::kRefused), 1U);
  EXPECT_TRUE(call.is_right());
}

TEST(Dispatcher, AHedgeThatHadNoTimeMakesNobodySuspect) {
  ToySwarm swarm;
  const WorkerId one = swarm.join_holding(1, 0, 16), two = swarm.join_holding(2, 0, 16);
  ask_for(swarm, 40);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  const WorkerId late = swarm.take().worker;
  swarm.run_out(call);
  EXPECT_EQ(call.record.hedges, 1U);
  EXPECT_TRUE(swarm.status_of(late).suspect);
  EXPECT_FALSE(swarm.status_of(late == one ? two : one).suspect);
}

// No answers at all: hedges stay within a tenth of what was asked, none goes where its pair is.
TEST(Dispatcher, HedgesKeepToTheirBudget) {
  ToySwarm swarm;
  for (uint8_t key = 1; key <= 4; ++key) swarm.join_holding(key, 0, 16);
  size_t asked = 0;
  for (int i = 0; i < 50; ++i) {
    for (WorkerId worker = 1; worker <= 4; ++worker) swarm.ready(worker, 0, 0, 16);  // are heard
    ToyCall call(0, 4, {1, 2, 3, 4, 9, 10, 11, 12});
    swarm.start(call);
    asked += 8;
    std::map<std::pair<uint32_t, uint16_t>, WorkerId> first;  // by row's number and expert
    const auto each_pair = [](const ToyTicket& ticket, auto use) {
      size_t pair = 0;
      for (size_t row = 0; row < ticket.compute.n_rows(); ++row) {
        const auto row_is = load_le<uint32_t>(ticket.row(row));
        for (size_t j = 0; j < ticket.compute.counts[row]; ++j)
          use(std::pair(row_is, ticket.compute.experts[pair++]));
      }
    };
    for (const ToyTicket& ticket : swarm.tickets)
      each_pair(ticket, [&](auto pair) { first[pair] = ticket.worker; });
    swarm.tickets.clear();
    swarm.run_out(call);
    EXPECT_TRUE(call.is_right());
    for (const ToyTicket& ticket : swarm.tickets)
      each_pair(ticket, [&](auto pair) { EXPECT_NE(first.at(pair), ticket.worker); });
    swarm.tickets.clear();
    EXPECT_LE(swarm.status().hedges * HedgeBudget::kOneIn, asked);
  }
  EXPECT_GT(swarm.status().hedges, 0U);
  EXPECT_TRUE(swarm.is_balanced());
}

// --- Answers that are nobody's
// ------------------------------------------------------------------------

TEST(Dispatcher, DuplicateUnknownAndForeignAnswersAreCountedAndNotUsed) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16), stranger = swarm.join(2);
  ToyCall call(0, 1, {1, 2});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  ToyTicket foreign = ticket, unknown = ticket;
  foreign.worker = stranger;
  unknown.number = 77;
  EXPECT_TRUE(swarm.lie(foreign));
  EXPECT_TRUE(swarm.lie(unknown));
  EXPECT_EQ(swarm.status().unknown_answers, 2U);
  EXPECT_FALSE(Dispatcher::is_wakeup_due(*call.call));
  swarm.busy(foreign);
  swarm.fail(unknown, FailReason::kNotHeld);
  EXPECT_EQ(swarm.status_of(worker).experts, 32U);
  EXPECT_TRUE(swarm.answer(ticket));
  EXPECT_TRUE(swarm.lie(ticket));  // a second answer, before the first was looked at
  EXPECT_EQ(swarm.status().unknown_answers, 3U);
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_TRUE(swarm.lie(ticket));  // and after the call
  EXPECT_EQ(swarm.status().unknown_answers, 4U);
  EXPECT_EQ(swarm.status().quarantined, 0U);
  ToyTicket gone = ticket;
  gone.worker = 99;
  EXPECT_TRUE(swarm.lie(gone));
}

TEST(Dispatcher, ALateAnswerIsAFreeAudit) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  swarm.run_out(call);
  EXPECT_TRUE(swarm.answer(ticket));
  EXPECT_EQ(swarm.status().free_audits, 1U);
  EXPECT_EQ(swarm.status_of(worker).counts.late, 1U);
  EXPECT_EQ(swarm.status_of(worker).counts.audited_free, 1U);
  EXPECT_FALSE(swarm.status_of(worker).suspect);  // it was heard
  EXPECT_EQ(swarm.status().quarantined, 0U);
}

TEST(Dispatcher, ALateLieConvicts) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  swarm.run_out(call);
  EXPECT_TRUE(swarm.lie(ticket, 1));
  EXPECT_THAT(swarm.dispatcher.take_convicted(), ElementsAre(worker));
  EXPECT_TRUE(swarm.dispatcher.objection(ToySwarm::key_of(1)));
  EXPECT_FALSE(swarm.dispatcher.objection(ToySwarm::key_of(2)));
  EXPECT_EQ(swarm.dispatcher.take_evidence().size(), 1U);
  EXPECT_EQ(swarm.dispatcher.coverage().covered(), 0U);
  swarm.ready(worker, 0, 0, 16);  // nobody listens any more
  EXPECT_EQ(swarm.dispatcher.coverage().covered(), 0U);
}

// While the call still computes, a ticket that was given up is answered.
TEST(Dispatcher, ALateAnswerWithinTheCallIsComparedAndNotUsed) {
  for (const bool lies : {false, true}) {
    ToySwarm swarm;
    swarm.join_holding(1, 0, 16);
    ToyCall call(0, 2, {1, 2});
    swarm.start(call);
    const ToyTicket ticket = swarm.take();
    swarm.now += 5 * kSecondUs;
    call.step = swarm.dispatcher.step(*call.call, swarm.now);
    ASSERT_EQ(call.step.kind, Step::Kind::kCompute);
    EXPECT_TRUE(lies ? swarm.lie(ticket) : swarm.answer(ticket));
    swarm.compute(call);
    swarm.go(call);
    EXPECT_TRUE(call.done);
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(why(call, Why::kDeadline), 2U);
    EXPECT_EQ(swarm.status().quarantined, lies ? 1U : 0U);
    EXPECT_EQ(swarm.status().free_audits, lies ? 0U : 1U);
  }
}

TEST(Dispatcher, AnAnswerAfterAnHourIsUnknown) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  const ToyTicket ticket = swarm.take();
  swarm.run_out(call);
  swarm.now += 3'600 * kSecondUs;
  EXPECT_TRUE(swarm.lie(ticket));
  EXPECT_EQ(swarm.status().unknown_answers, 1U);
  EXPECT_LT(swarm.status_of(worker).latency_p99_us, 10 * kSecondUs);
  EXPECT_EQ(swarm.status().quarantined, 0U);
}

// --- Malformed answers
// --------------------------------------------------------------------------------

TEST(Dispatcher, MalformedAnswersAreErrorsAndComputedHere) {
  using Bytes = std::vector<std::byte>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    expert::OutputEncoding encoding;
    std::function<void(Bytes&)> spoil;
  };
  const size_t row_q8 = expert::encoded_bytes(expert::OutputEncoding::kQ8, kToyEmbd);
  const std::vector<Case> cases = {
      {expert::OutputEncoding::kF32, [](Bytes& body) { body.clear(); }},
      {expert::OutputEncoding::kF32, [](Bytes& body) { body.resize(7); }},
      {expert::OutputEncoding::kF32, [](Bytes& body) { body.pop_back(); }},
      {expert::OutputEncoding::kF32, [](Bytes& body) { body.push_back({}); }},
      {expert::OutputEncoding::kF32, [](Bytes& body) { body[6] = std::byte{3}; }},
      {expert::OutputEncoding::kF32,
       [=](Bytes& body) { std::memcpy(body.data() + 8 + 4 * kToyEmbd, &nan, sizeof nan); }},
      {expert::OutputEncoding::kF16,
       [](Bytes& body) { store_le(body.data() + 8 + 2, uint16_t{0x7C00}); }},
      {expert::OutputEncoding::kF16,
       [](Bytes& body) { store_le(body.data() + 8, int16_t{32767}); }},
      {expert::OutputEncoding::kQ8, [=](Bytes& body) { body[8 + row_q8 - 1] = std::byte{0x80}; }},
      {expert::OutputEncoding::kQ8,
       [](Bytes& body) { store_le(body.data() + 8 + 2, uint16_t{0x8001}); }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const bool late : {false, true}) {
      DispatchOptions options = ToySwarm::options_without_probation();
      options.encoding = cases[i].encoding;
      ToySwarm swarm(options);
      const WorkerId worker = swarm.join_holding(1, 0, 16);
      ToyCall call(0, 2, {1, 2});
      call.encoding = cases[i].encoding;
      swarm.start(call);
      const ToyTicket ticket = swarm.take();
      Bytes body = swarm.result_body(ticket.outputs());
      cases[i].spoil(body);
      if (late) swarm.run_out(call);
      const Result<void> result =
          swarm.dispatcher.on_result(worker, ticket.number, body, swarm.now);
      ASSERT_FALSE(result) << i;
      EXPECT_EQ(result.error().kind, ErrorKind::kCorrupt) << i;
      swarm.go(call);
      EXPECT_TRUE(call.done);
      EXPECT_TRUE(call.is_right());
      EXPECT_TRUE(swarm.is_balanced());
      EXPECT_EQ(swarm.status().quarantined, 0U);
    }
  }
}

// --- Audits
// -------------------------------------------------------------------------------------------

TEST(Dispatcher, VerifyingAllCatchesALieBeforeItIsUsed) {
  ToySwarm swarm(verifying(1));
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2, 1, 2});
  call.owners = {5, 6};
  swarm.start(call);
  EXPECT_EQ(swarm.computed_here, 4U);
  const ToyTicket ticket = swarm.take();
  EXPECT_TRUE(swarm.lie(ticket, 2));
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(call.record.pairs_remote, 0U);
  EXPECT_THAT(swarm.dispatcher.take_convicted(), ElementsAre(worker));
  EXPECT_TRUE(swarm.dispatcher.take_doubted().empty());
  const auto evidence = swarm.dispatcher.take_evidence();
  ASSERT_EQ(evidence.size(), 1U);
  EXPECT_EQ(evidence[0].pair, 2U);
  EXPECT_EQ(evidence[0].compute, ticket.body);
  EXPECT_EQ(evidence[0].expected, toy_output(0, 1, &call.rows[kToyEmbd]));
  EXPECT_EQ(swarm.status().audits, 1U);
}

TEST(Dispatcher, AVerifiedAnswerCountsAsTheWorkers) {
  ToySwarm swarm(verifying(1));
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(call);
  EXPECT_EQ(call.record.pairs_remote, 2U);
  EXPECT_EQ(swarm.status_of(worker).counts.rows_used, 2U);
  EXPECT_EQ(swarm.status_of(worker).counts.audited, 1U);
}

TEST(Dispatcher, ProbationVerifiesTheFirstAnswersOfAKey) {
  DispatchOptions options = ToySwarm::options_without_probation();
  options.probation_tickets = 3;
  ToySwarm swarm(options);
  WorkerId worker = swarm.join_holding(1, 0, 16);
  for (size_t i = 0; i < 6; ++i) {
    if (i == 2) {  // a new login of the same key goes on where it was
      swarm.dispatcher.leave(worker, swarm.now);
      worker = swarm.join_holding(1, 0, 16);
    }
    ToyCall call(0, 2, {1, 2});
    swarm.computed_here = 0;
    swarm.start(call);
    EXPECT_EQ(swarm.computed_here, i < 3 ? 2U : 0U) << i;
    EXPECT_TRUE(swarm.answer(swarm.take()));
    swarm.go(call);
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(call.record.pairs_remote, 2U);
  }
  EXPECT_EQ(swarm.status().audits, 3U);
}

// A damaged slice lies about one expert only, which may be asked for long after the first tickets.
TEST(Dispatcher, ProbationVerifiesTheFirstAnswerOfEveryExpert) {
  DispatchOptions options = ToySwarm::options_without_probation();
  options.probation_tickets = 1;
  ToySwarm swarm(options);
  swarm.join_holding(1, 0, 16);
  const auto ask = [&](std::vector<uint16_t> experts) {
    ToyCall call(0, 2, std::move(experts));
    swarm.computed_here = 0;
    swarm.start(call);
    EXPECT_TRUE(swarm.answer(swarm.take()));
    swarm.go(call);
    EXPECT_TRUE(call.is_right());
    return swarm.computed_here;
  };
  EXPECT_EQ(ask({1, 2}), 2U);
  EXPECT_EQ(ask({1, 2}), 0U);
  EXPECT_EQ(ask({2, 9}), 2U);  // 9 is new
  EXPECT_EQ(ask({1, 9}), 0U);

  ToyCall call(0, 2, {9, 11});
  swarm.start(call);
  EXPECT_TRUE(swarm.lie(swarm.take(), 1));
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(swarm.status().quarantined, 1U);
}

// A call uses unverified answers; a later one convicts their worker.
TEST(Dispatcher, AConvictionDoubtsWhoUsedUnverifiedAnswers) {
  DispatchOptions options = verifying(0.5);
  ToySwarm swarm(options);
  const AuditSampler sampler(options.secret, options.verify);
  const WorkerId liar = swarm.join_holding(1, 0, 8), other = swarm.join_holding(2, 8, 16);
  std::set<uint64_t> affected;
  uint64_t owner = 100, ticket_number = 0;
  for (; swarm.status().quarantined == 0; ++owner) {
    // The liar answers for even owners, the other for odd ones.
    ToyCall call(0, 1, {static_cast<uint16_t>(owner % 2 == 0 ? 3 : 12)});
    call.owners = {owner};
    swarm.start(call);
    const ToyTicket ticket = swarm.take();
    const bool verified =
        sampler.picks(ToySwarm::key_of(ticket.worker == liar ? 1 : 2), ticket.number);
    if (ticket.worker == liar && !verified) affected.insert(owner);
    ticket_number += ticket.worker == liar ? 1 : 0;
    // Honest until there is something to doubt.
    const bool lies = ticket.worker == liar && affected.size() >= 2;
    EXPECT_TRUE(lies ? swarm.lie(ticket) : swarm.answer(ticket));
    swarm.go(call);
    ASSERT_TRUE(call.done);
    ASSERT_LT(owner, 200U);
  }
  const auto doubted = swarm.dispatcher.take_doubted();
  EXPECT_EQ(std::set<uint64_t>(doubted.begin(), doubted.end()), affected);
  EXPECT_EQ(doubted.size(), affected.size());
  EXPECT_TRUE(swarm.dispatcher.take_doubted().empty());
  EXPECT_FALSE(swarm.dispatcher.coverage().holders(0, 12).empty());
  EXPECT_EQ(swarm.status_of(other).counts.wrong, 0U);
}

TEST(Dispatcher, AnOwnerThatHasEndedIsForgotten) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  for (uint64_t owner : {7, 8}) {
    ToyCall call(0, 1, {1});
    call.owners = {owner};
    swarm.start(call);
    EXPECT_TRUE(swarm.answer(swarm.take()));
    swarm.go(call);
  }
  swarm.dispatcher.forget(7);
  ToyCall late(0, 1, {1});
  swarm.start(late);
  const ToyTicket ticket = swarm.take();
  swarm.run_out(late);
  EXPECT_TRUE(swarm.lie(ticket));
  EXPECT_THAT(swarm.dispatcher.take_doubted(), ElementsAre(8U));
}

// A lie was used already by the call under way when another call convicts.
TEST(Dispatcher, AConvictionMakesTheCallsUnderWayComputeAgain) {
  ToySwarm swarm;
  const WorkerId liar = swarm.join_holding(1, 0, 8);
  swarm.join_holding(2, 8, 16);
  ToyCall late(0, 1, {1});
  swarm.start(late);
  const ToyTicket evidence = swarm.take();
  swarm.run_out(late);
  swarm.ready(liar, 0, 0, 8);  // heard: not suspect

  ToyCall call(0, 2, {3, 12});
  call.owners = {9};
  swarm.start(call);
  EXPECT_TRUE(swarm.lie(swarm.take(liar)));
  swarm.go(call);
  EXPECT_FALSE(call.done);  // waits for the other worker, with a lie in its outputs
  EXPECT_TRUE(swarm.lie(evidence));
  EXPECT_TRUE(Dispatcher::is_wakeup_due(*call.call));
  swarm.go(call);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kAudit), 1U);
  EXPECT_EQ(why(call, Why::kRemote), 1U);
  // What was computed again need not be computed from the beginning.
  EXPECT_TRUE(swarm.dispatcher.take_doubted().empty());
}

TEST(Dispatcher, OpenTicketsOfAConvictedWorkerAreComputedHere) {
  ToySwarm swarm;
  const WorkerId liar = swarm.join_holding(1, 0, 16);
  ToyCall late(0, 1, {1}), open(0, 1, {2}), arrived(0, 1, {3});
  swarm.start(late);
  const ToyTicket evidence = swarm.take();
  swarm.run_out(late);
  swarm.ready(liar, 0, 0, 16);  // heard: not suspect
  swarm.start(open);
  const ToyTicket first = swarm.take();
  swarm.start(arrived);
  EXPECT_TRUE(swarm.lie(swarm.take()));
  EXPECT_TRUE(swarm.lie(evidence));
  EXPECT_EQ(swarm.status().tickets.open, 0U);
  EXPECT_TRUE(swarm.answer(first));
  swarm.go(open);
  swarm.go(arrived);
  EXPECT_TRUE(open.done && open.is_right());
  EXPECT_TRUE(arrived.done && arrived.is_right());
  EXPECT_TRUE(swarm.is_balanced());
}

// Two workers answer the same pair differently, and nothing was computed here.
TEST(Dispatcher, ADisputeIsDecidedByComputing) {
  for (const bool first_lies : {true, false}) {
    ToySwarm swarm;
    swarm.join_holding(1, 0, 16);
    swarm.join_holding(2, 0, 16);
    ask_for(swarm, 40);
    ToyCall call(0, 1, {1, 2});
    call.owners = {4, 5};
    std::vector<ToyTicket> firsts, hedges;
    swarm.start(call);
    while (!swarm.tickets.empty()) firsts.push_back(swarm.take());
    swarm.now = call.step.until;
    swarm.go(call);
    while (!swarm.tickets.empty()) hedges.push_back(swarm.take());
    ASSERT_FALSE(hedges.empty());
    // Both answers are there before the call looks.
    const ToyTicket hedge = hedges.front();
    const ToyTicket* first = nullptr;
    for (const ToyTicket& ticket : firsts)
      if (std::find(ticket.compute.experts.begin(), ticket.compute.experts.end(),
                    hedge.compute.experts[0]) != ticket.compute.experts.end())
        first = &ticket;
    ASSERT_NE(first, nullptr);
    const auto at = std::find(first->compute.experts.begin(), first->compute.experts.end(),
                              hedge.compute.experts[0]);
    const auto pair = static_cast<size_t>(at - first->compute.experts.begin());
    EXPECT_TRUE(first_lies ? swarm.lie(*first, pair) : swarm.answer(*first));
    EXPECT_TRUE(first_lies ? swarm.answer(hedge) : swarm.lie(hedge));
    for (const ToyTicket& ticket : firsts) EXPECT_TRUE(&ticket == first || swarm.answer(ticket));
    swarm.go(call);
    if (!call.done) swarm.run_out(call);
    EXPECT_TRUE(call.is_right());
    EXPECT_EQ(swarm.status().disputes, 1U);
    EXPECT_THAT(swarm.dispatcher.take_convicted(),
                ElementsAre(first_lies ? first->worker : hedge.worker));
  }
}

// Found by reading: an answer that came between the last step and finish() made pairs needed again.
TEST(Dispatcher, NothingReachesACallThatSaidItIsDone) {
  ToySwarm swarm;
  swarm.join_holding(1, 0, 16);
  swarm.join_holding(2, 0, 16);
  ask_for(swarm, 40);
  ToyCall call(0, 1, {1});
  call.owners = {3};
  swarm.start(call);
  const ToyTicket first = swarm.take();
  swarm.now = call.step.until;
  swarm.go(call);
  const ToyTicket hedge = swarm.take();
  EXPECT_TRUE(swarm.answer(hedge));
  call.step = swarm.dispatcher.step(*call.call, swarm.now);
  ASSERT_EQ(call.step.kind, Step::Kind::kDone);
  EXPECT_TRUE(swarm.lie(first));
  EXPECT_FALSE(Dispatcher::is_wakeup_due(*call.call));
  Dispatcher::finish(std::move(call.call));
  EXPECT_TRUE(call.is_right());
}

// Found by reading: a probe counted as a ticket that is waited for.
TEST(Dispatcher, AProbeDoesNotKeepAPairAway) {
  DispatchOptions options = ToySwarm::options_without_probation();
  options.mode = DispatchMode::kAuto;
  ToySwarm swarm(options);
  swarm.compute_us = 100'000;
  const WorkerId one = swarm.join_holding(1, 0, 16);
  const auto answer_all = [&] {
    swarm.now += 500;
    swarm.collect();
    while (!swarm.tickets.empty()) EXPECT_TRUE(swarm.answer(swarm.take()));
  };
  // Shipping pays as soon as the worker is known by its probes: run until it happens.
  swarm.while_computing = answer_all;
  for (int i = 0; swarm.status().governor.mode != Governor::Mode::kShip; ++i) {
    ASSERT_LT(i, 2'000);
    ToyCall call(0, 2, {1, 2});
    swarm.start(call);
    answer_all();
    swarm.go(call);
    ASSERT_TRUE(call.done);
  }
  swarm.while_computing = nullptr;
  // A new one is probed for what the first is asked for, which that refuses.
  const WorkerId two = swarm.join_holding(2, 0, 16);
  ToyCall call(0, 2, {1, 2});
  swarm.start(call);
  ASSERT_FALSE(call.done);
  const ToyTicket first = swarm.take(one);
  swarm.take(two);
  EXPECT_EQ(swarm.status().tickets.open, 2U);
  swarm.busy(first);
  swarm.go(call);
  EXPECT_TRUE(call.done);
  EXPECT_TRUE(call.is_right());
  EXPECT_EQ(why(call, Why::kRefused), 2U);
  EXPECT_TRUE(swarm.is_balanced());
}

// A worker that came back after others were known to be quick got nothing to do any more: what is
// guessed of the unknown is slower.
TEST(Dispatcher, ANewcomerIsAskedBesideTheKnown) {
  ToySwarm swarm;
  const auto run_calls = [&swarm](int count) {
    for (int i = 0; i < count; ++i) {
      ToyCall call(0, 1, {1});
      swarm.start(call);
      swarm.now += 500;
      EXPECT_TRUE(swarm.answer(swarm.take()));
      swarm.go(call);
      EXPECT_TRUE(call.done);
    }
  };
  swarm.join_holding(1, 0, 16);
  run_calls(50);
  const WorkerId newcomer = swarm.join_holding(2, 0, 16);
  run_calls(200);
  EXPECT_GT(swarm.status_of(newcomer).counts.answers, 50U);
}

TEST(Dispatcher, ASuspectIsProbedAndComesBack) {
  ToySwarm swarm;
  const WorkerId worker = swarm.join_holding(1, 0, 16);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  swarm.take();
  swarm.run_out(call);
  ASSERT_TRUE(swarm.status_of(worker).suspect);
  ToyCall probing(0, 1, {1});
  swarm.start(probing);
  EXPECT_TRUE(probing.done);  // nobody waits for the probe
  EXPECT_EQ(swarm.status().probes, 1U);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  EXPECT_FALSE(swarm.status_of(worker).suspect);
  EXPECT_EQ(swarm.status().free_audits, 1U);
  ToyCall back(0, 1, {1});
  swarm.start(back);
  EXPECT_FALSE(back.done);
  EXPECT_TRUE(swarm.answer(swarm.take()));
  swarm.go(back);
  EXPECT_TRUE(swarm.is_balanced());
}

TEST(Dispatcher, KeysThatAreRememberedHaveALimit) {
  ToySwarm swarm;
  const WorkerId stays = swarm.join_holding(200, 0, 16);
  for (uint32_t i = 0; i < 17'000; ++i) {
    WorkerInfo info;
    info.key[0] = std::byte{static_cast<uint8_t>(i)};
    info.key[1] = std::byte{static_cast<uint8_t>(i >> 8)};
    info.capabilities = {0b111, 0b111, 64, 64};
    swarm.dispatcher.leave(swarm.dispatcher.join(std::move(info), swarm.now), swarm.now);
  }
  EXPECT_LE(swarm.status().known_identities, 16'384U);
  ToyCall call(0, 1, {1});
  swarm.start(call);
  EXPECT_TRUE(swarm.answer(swarm.take(stays)));
  swarm.go(call);
  EXPECT_TRUE(call.is_right());
}

// --- Everything at once
// ---------------------------------------------------------------------------------

// Random calls, answers, refusals, repeats, lies, leaves and times. After every event the tickets
// balance; every call ends with the right outputs; who did not lie is not convicted.
class Chaos {
 public:
  explicit Chaos(uint64_t seed) : random_(seed), swarm_(options(seed)) {
    for (uint8_t key = 1; key <= 4; ++key) join(key);
  }
  void run() {
    for (int event = 0; event < 300; ++event) {
      step();
      ASSERT_TRUE(swarm_.is_balanced());
    }
    for (auto& call : calls_) {
      if (!call->done) swarm_.run_out(*call);
      check(*call);
    }
    const SwarmStatus status = swarm_.status();
    EXPECT_EQ(status.tickets.open, 0U);
    for (const WorkerStatus& worker : status.workers) EXPECT_EQ(worker.open_pairs, 0U);
    for (uint8_t key = 1; key <= 4; ++key)
      EXPECT_TRUE(liars_.contains(key) || !swarm_.dispatcher.objection(ToySwarm::key_of(key)));
  }

 private:
  static DispatchOptions options(uint64_t seed) {
    DispatchOptions options = ToySwarm::options_without_probation();
    options.mode = seed % 3 == 0 ? DispatchMode::kAuto : DispatchMode::kAlways;
    options.verify.share = seed % 2 == 0 ? 1 : 0;
    options.probation_tickets = static_cast<uint32_t>(seed % 5);
    options.seed = seed;
    return options;
  }
  bool lies_go_unseen() const { return swarm_.dispatcher.status(0).verify_share < 1; }

  void join(uint8_t key) {
    const auto begin = static_cast<uint16_t>(random_() % 12);
    workers_[key] = swarm_.join_holding(key, begin, static_cast<uint16_t>(begin + 4));
  }
  void step() {
    switch (random_() % 8) {
      case 0:
        if (calls_.size() < 40) start();
        break;
      case 1:
        swarm_.now += random_() % 60'000;
        break;
      case 2: {
        const auto key = static_cast<uint8_t>(1 + random_() % 4);
        if (random_() % 4 != 0) break;
        swarm_.dispatcher.leave(workers_[key], swarm_.now);
        if (!swarm_.dispatcher.objection(ToySwarm::key_of(key))) join(key);
        break;
      }
      case 3: {
        const auto key = static_cast<uint8_t>(1 + random_() % 4);
        const auto begin = static_cast<uint16_t>(random_() % 12);
        if (random_() % 2 == 0)
          swarm_.ready(workers_[key], random_() % 2, begin, static_cast<uint16_t>(begin + 4));
        else
          swarm_.drain(workers_[key], random_() % 2, begin, static_cast<uint16_t>(begin + 4));
        break;
      }
      case 4:
        for (auto& call : calls_) {
          if (call->done || random_() % 2 == 0) continue;
          swarm_.go(*call);
          check(*call);
        }
        break;
      default:
        answer();
    }
  }
  void start() {
    std::vector<uint16_t> ids;
    const size_t n_rows = 1 + random_() % 3;
    for (size_t row = 0; row < n_rows; ++row) {
      const auto first = static_cast<uint16_t>(random_() % 14);
      ids.push_back(first);
      ids.push_back(random_() % 8 == 0 ? expert::kNoExpert : static_cast<uint16_t>(first + 2));
    }
    calls_.push_back(
        std::make_unique<ToyCall>(random_() % 2, 2, ids, static_cast<float>(random_() % 40)));
    calls_.back()->sendable[0] = random_() % 8 != 0;
    if (random_() % 8 == 0) calls_.back()->at_hand.assign(kToyExperts, 0);
    swarm_.start(*calls_.back());
    check(*calls_.back());
  }
  void answer() {
    swarm_.collect();
    if (swarm_.tickets.empty()) return;
    const size_t at = random_() % swarm_.tickets.size();
    const ToyTicket ticket = swarm_.tickets[at];
    if (random_() % 4 != 0) swarm_.tickets.erase(swarm_.tickets.begin() + static_cast<long>(at));
    switch (random_() % 10) {
      case 0:
        swarm_.busy(ticket);
        break;
      case 1:
        swarm_.fail(ticket, static_cast<FailReason>(1 + random_() % 7),
                    static_cast<uint16_t>(random_() % 4));
        break;
      case 2:
        swarm_.dispatcher.on_unsent(ticket.worker, ticket.number, swarm_.now);
        break;
      case 3: {
        const auto body = swarm_.result_body(ticket.outputs());
        static_cast<void>(swarm_.dispatcher.on_result(ticket.worker, ticket.number,
                                                      ByteSpan(body).first(random_() % body.size()),
                                                      swarm_.now));
        break;
      }
      case 4:
        // Only where it cannot be believed.
        if (lies_go_unseen() || random_() % 4 != 0) break;
        for (const auto& [key, worker] : workers_)
          if (worker == ticket.worker) liars_.insert(key);
        EXPECT_TRUE(swarm_.lie(ticket));
        break;
      default:
        EXPECT_TRUE(swarm_.answer(ticket));
    }
  }
  void check(const ToyCall& call) { ASSERT_TRUE(!call.done || call.is_right()); }

  std::mt19937_64 random_;
  ToySwarm swarm_;
  std::map<uint8_t, WorkerId> workers_;
  std::set<uint8_t> liars_;
  std::vector<std::unique_ptr<ToyCall>> calls_;
};

TEST(Dispatcher, EveryTicketEndsOnceWhateverHappens) {
  for (uint64_t seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos(seed).run();
  }
}

}  // namespace
}  // namespace kvasir::swarm
