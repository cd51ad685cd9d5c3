// The worker's state machine with scripted frames: what it answers, what it refuses and why, and
// that nothing that waits is without bound.
#include "worker/worker_core.h"

#include <map>

#include "worker/test_tickets.h"

namespace kvasir::worker {
namespace {

using testing::ElementsAre;
using wire::BusyReason;
using wire::FailReason;
using wire::FrameType;
using wire::ResultEncoding;

constexpr uint64_t kPlenty = uint64_t{1} << 30;
constexpr uint16_t kRowsMax = 32;

CoreConfig test_config() {
  CoreConfig config;
  config.capabilities = {0b111, 0b111, kRowsMax, 0};
  config.rows_max = kRowsMax;
  return config;
}

class WorkerCoreTest : public testing::Test {
 protected:
  WorkerCoreTest() { start(test_config()); }

  void start(CoreConfig config) {
    core_.emplace(std::move(config), experts_.held(), function_);
    sent_bytes_ = consumed_bytes_ = 0;
    while (core_->next_frame(0)) {
    }
  }
  Result<void> arrive(FrameType type, uint64_t ticket, ByteSpan body, wire::Time now = 0,
                      uint64_t credit_left = kPlenty) {
    wire::FrameArrived frame;
    frame.head.type = type;
    frame.head.ticket = ticket;
    frame.body = body;
    frame.wire_bytes = wire::frame_bytes(body.size(), true);
    if (type == FrameType::kCompute) sent_bytes_ += frame.wire_bytes;
    return core_->on_frame(frame, credit_left, now);
  }
  void compute(uint64_t ticket, ByteSpan body, wire::Time now = 0, uint64_t credit = kPlenty) {
    ASSERT_TRUE(arrive(FrameType::kCompute, ticket, body, now, credit));
  }
  void run_all(wire::Time now = 0) {
    while (core_->has_work()) core_->run_next(now);
  }
  std::optional<OutgoingFrame> next(uint64_t credit_left = kPlenty) {
    consumed_bytes_ += core_->take_consumed_bytes();
    auto frame = core_->next_frame(credit_left);
    if (frame) consumed_bytes_ += frame->consumed_bytes;
    return frame;
  }
  // The next frame is a refusal of this kind.
  void expect_failed(uint64_t ticket, FailReason reason, uint16_t pair = wire::Failed::kNoPair) {
    const auto frame = next();
    ASSERT_TRUE(frame.has_value());
    ASSERT_EQ(frame->type, FrameType::kFailed);
    EXPECT_EQ(frame->ticket, ticket);
    const auto failed = wire::decode_failed(frame->body);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->reason, reason) << wire::fail_reason_name(failed->reason);
    EXPECT_EQ(failed->pair, pair);
  }
  void expect_busy(uint64_t ticket, BusyReason reason) {
    const auto frame = next();
    ASSERT_TRUE(frame.has_value());
    ASSERT_EQ(frame->type, FrameType::kBusy);
    EXPECT_EQ(frame->ticket, ticket);
    const auto busy = wire::decode_busy(frame->body);
    ASSERT_TRUE(busy);
    EXPECT_EQ(busy->reason, reason) << wire::busy_reason_name(busy->reason);
  }
  void expect_result(uint64_t ticket, const TestTicket& asked) {
    const auto frame = next();
    ASSERT_TRUE(frame.has_value());
    ASSERT_EQ(frame->type, FrameType::kResult);
    EXPECT_EQ(frame->ticket, ticket);
    EXPECT_EQ(decoded_result(frame->body, asked), asked.expected(local_));
  }
  TestTicket small_ticket(size_t n_rows = 2) {
    TestTicket ticket = random_ticket(random_, 0, 0, 7, n_rows);
    ticket.encoding = ResultEncoding::kF32;
    return ticket;
  }

  expert::Random random_{20};
  TestExperts experts_{random_};
  ThreadPool pool_{2};
  TicketFunction function_{**kernels::select_table(), pool_, experts_.held()};
  expert::LocalExpertService local_{experts_.layers(), kernels::scalar(), pool_};
  std::optional<WorkerCore> core_;
  size_t sent_bytes_ = 0, consumed_bytes_ = 0;
};

TEST_F(WorkerCoreTest, SaysFirstWhatItHolds) {
  core_.emplace(test_config(), experts_.held(), function_);
  const auto frame = core_->next_frame(0);
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->type, FrameType::kReady);
  const auto units = wire::decode_leased_units(frame->body);
  ASSERT_TRUE(units);
  std::vector<std::vector<int>> seen;
  for (const wire::LeasedUnit& unit : *units)
    seen.push_back({unit.unit.layer, unit.unit.expert_begin, unit.unit.expert_end,
                    static_cast<int>(unit.epoch)});
  EXPECT_THAT(seen,
              ElementsAre(ElementsAre(0, 0, 4, 0), ElementsAre(0, 4, 8, 0), ElementsAre(1, 4, 8, 0),
                          ElementsAre(3, 0, 4, 0), ElementsAre(3, 4, 8, 0)));
  EXPECT_FALSE(core_->next_frame(kPlenty).has_value());
}

// Random layers, experts, rows, encodings and formats; several tickets wait at once. What comes
// back is what the local service computes, to the last bit, and every byte is accounted for.
TEST_F(WorkerCoreTest, AnswersAsTheLocalServiceDoes) {
  std::map<uint64_t, TestTicket> open;
  uint64_t number = 0;
  size_t rounds = 0;
  for (; rounds < 60; ++rounds) {
    for (size_t i = random_() % 4; i > 0; --i) {
      const uint16_t layer = std::array<uint16_t, 3>{0, 1, 3}[random_() % 3];
      TestTicket ticket = random_ticket(random_, layer, layer == 1 ? 4 : 0, 7, 1 + random_() % 9);
      compute(++number, ticket.body());
      open.emplace(number, std::move(ticket));
    }
    run_all();
    while (auto frame = next()) {
      ASSERT_EQ(frame->type, FrameType::kResult);
      ASSERT_EQ(open.count(frame->ticket), 1U);
      const TestTicket& asked = open.at(frame->ticket);
      EXPECT_EQ(decoded_result(frame->body, asked), asked.expected(local_));
      open.erase(frame->ticket);
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(consumed_bytes_, sent_bytes_);
  }
  EXPECT_EQ(core_->stats().results, number);
  EXPECT_GT(number, 50U);
}

TEST_F(WorkerCoreTest, SaysHowLongItComputedAndHowManyTicketsWait) {
  CoreConfig config = test_config();
  uint64_t clock = 1000;
  config.clock_us = [&] { return clock += 7; };
  start(std::move(config));
  const TestTicket ticket = small_ticket(1);
  compute(1, ticket.body());
  compute(2, ticket.body());
  core_->run_next(0);
  const auto frame = next();
  ASSERT_TRUE(frame.has_value());
  const auto result = wire::decode_result(frame->body, ticket.encoding, kTestEmbd,
                                          static_cast<uint16_t>(ticket.experts.size()));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->compute_us, 7U);
  EXPECT_EQ(result->queue_depth, 1U);
}

// --- What a hostile or mistaken backbone may send. None of it costs the worker its session.

TEST_F(WorkerCoreTest, RefusesWhatIsMalformedAndGoesOn) {
  const std::vector<std::byte> good = small_ticket().body();
  uint64_t number = 0;
  const auto refused = [&](std::vector<std::byte> body) {
    compute(++number, body);
    expect_failed(number, FailReason::kMalformed);
  };
  const auto with = [&](size_t at, auto value) {
    std::vector<std::byte> body = good;
    store_le(body.data() + at, value);
    return body;
  };
  refused({});
  refused(with(4, uint32_t{0}));  // deadline
  refused(with(4, uint32_t{wire::kDeadlineMsMax + 1}));
  refused(with(4, UINT32_MAX));
  for (uint16_t rows : {0, 1, 3, kRowsMax + 1, 257, 0x7FFF, 0xFFFF}) refused(with(8, rows));
  for (uint16_t pairs : {0, 1, 1025, 0x7FFF, 0xFFFF}) refused(with(10, pairs));
  refused(with(12, uint8_t{0}));  // a row that wants no expert
  refused(with(12, uint8_t{255}));
  for (size_t cut = 1; cut <= good.size(); cut += 1 + good.size() / 200)
    refused({good.begin(), good.end() - static_cast<ptrdiff_t>(cut)});
  std::vector<std::byte> longer = good;
  longer.push_back({});
  refused(longer);
  longer.resize(wire::kDataBodyMax, std::byte{0xFF});
  refused(longer);

  const TestTicket ticket = small_ticket();
  compute(++number, ticket.body());
  run_all();
  expect_result(number, ticket);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, RefusesAnExpertThatIsWantedTwice) {
  TestTicket ticket = small_ticket(1);
  ticket.counts = {2};
  ticket.experts = {3, 3};
  compute(1, ticket.body());
  expect_failed(1, FailReason::kMalformed);
}

TEST_F(WorkerCoreTest, RefusesRowsThatHoldMinus128OrNoNumbers) {
  TestTicket ticket = small_ticket(2);
  uint64_t number = 0;
  const auto refused = [&](wire::ActivationFormat format, uint16_t layer, size_t at, auto value) {
    ticket.format = format;
    ticket.layer = layer;
    ticket.counts = {1, 1};
    ticket.experts = {5, 6};
    std::vector<std::byte> body = ticket.body();
    const size_t rows_at = body.size() - 2 * wire::row_bytes(format, kTestEmbd);
    store_le(body.data() + rows_at + wire::row_bytes(format, kTestEmbd) + at, value);
    compute(++number, body);
    expect_failed(number, FailReason::kMalformed);
  };
  constexpr uint32_t kNan = 0x7FC00000, kMinusInfinity = 0xFF800000;
  using wire::ActivationFormat;
  refused(ActivationFormat::kF32, 3, 400, kNan);
  refused(ActivationFormat::kF32, 3, 0, kMinusInfinity);
  refused(ActivationFormat::kQ8_K, 0, 0, kNan);
  refused(ActivationFormat::kQ8_K, 0, 259, uint8_t{0x80});
  refused(ActivationFormat::kQ8_0, 1, 34, uint16_t{0x7E00});
  refused(ActivationFormat::kQ8_0, 1, 34, uint16_t{0x8000});
  refused(ActivationFormat::kQ8_0, 1, 271, uint8_t{0x80});
}

TEST_F(WorkerCoreTest, RefusesLayersAndExpertsThatItDoesNotHold) {
  struct Case {
    uint16_t layer, expert;
    uint16_t pair;  // of FAILED
  };
  constexpr uint16_t kNone = wire::Failed::kNoPair;
  uint64_t number = 0;
  for (const Case& hostile :
       {Case{2, 0, 0}, Case{4, 0, kNone}, Case{0xFFFF, 0, kNone}, Case{0, 8, kNone},
        Case{0, 0xFFFF, kNone}, Case{1, 3, 0}, Case{1, 0, 0}}) {
    TestTicket ticket = small_ticket(1);
    ticket.format = wire::ActivationFormat::kF32;
    ticket.layer = hostile.layer;
    ticket.counts = {1};
    ticket.experts = {hostile.expert};
    compute(++number, ticket.body());
    expect_failed(number, FailReason::kNotHeld, hostile.pair);
  }
  // The pair that is at fault is named.
  TestTicket ticket = small_ticket(1);
  ticket.format = wire::ActivationFormat::kF32;
  ticket.layer = 1;
  ticket.counts = {3};
  ticket.experts = {4, 7, 3};
  compute(++number, ticket.body());
  expect_failed(number, FailReason::kNotHeld, 2);
}

TEST_F(WorkerCoreTest, RefusesTicketsThatDoNotRise) {
  const TestTicket ticket = small_ticket(1);
  compute(5, ticket.body());
  for (uint64_t number : {uint64_t{5}, uint64_t{4}, uint64_t{0}}) {
    compute(number, ticket.body());
    expect_failed(number, FailReason::kDuplicateTicket);
  }
  run_all();
  expect_result(5, ticket);
  compute(5, ticket.body());  // replayed after the answer
  expect_failed(5, FailReason::kDuplicateTicket);
  compute(UINT64_MAX, ticket.body());
  run_all();
  expect_result(UINT64_MAX, ticket);
  compute(6, ticket.body());
  expect_failed(6, FailReason::kDuplicateTicket);
}

TEST_F(WorkerCoreTest, RefusesFormatsAndEncodingsThatItDidNotName) {
  CoreConfig config = test_config();
  config.capabilities.row_formats = 0b011;
  config.capabilities.encodings = 0b101;
  start(std::move(config));
  std::vector<std::byte> body = small_ticket(1).body();
  uint64_t number = 0;
  const auto refused = [&](size_t at, uint8_t value, uint8_t other) {
    body[2] = body[3] = std::byte{other};
    body[at] = std::byte{value};
    compute(++number, body);
    expect_failed(number, FailReason::kUnsupported);
  };
  for (uint8_t code : {1, 3, 7, 8, 255}) refused(2, code, 0);
  for (uint8_t code : {2, 3, 7, 8, 255}) refused(3, code, 0);
}

// A format that it knows, but that the experts of this layer do not take.
TEST_F(WorkerCoreTest, RefusesRowsInTheFormatOfAnotherLayer) {
  TestTicket ticket = small_ticket(1);
  ticket.format = wire::ActivationFormat::kQ8_0;
  compute(1, ticket.body());
  expect_failed(1, FailReason::kUnsupported);
  ticket.layer = 3;  // gate and up differ: only f32 will do
  ticket.format = wire::ActivationFormat::kQ8_K;
  compute(2, ticket.body());
  expect_failed(2, FailReason::kUnsupported);
}

TEST_F(WorkerCoreTest, NamesThePairWhoseValuesAreNotFinite) {
  TestTicket ticket = small_ticket(3);
  ticket.layer = 3;
  ticket.format = wire::ActivationFormat::kF32;
  ticket.counts = {2, 2, 1};
  ticket.experts = {0, 1, 7, 2, 0};
  std::fill_n(ticket.rows.begin() + kTestEmbd, kTestEmbd, 3e38F);
  compute(1, ticket.body());
  run_all();
  expect_failed(1, FailReason::kNonFinite, 2);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, EndsTheSessionForOtherFramesThatAreMalformed) {
  const std::vector<std::byte> some(7, std::byte{1});
  for (FrameType type : {FrameType::kCancel, FrameType::kOffer, FrameType::kLease,
                         FrameType::kDrain, FrameType::kRevoke, FrameType::kPeerHere}) {
    const auto taken = arrive(type, 1, some);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().kind, ErrorKind::kCorrupt);
  }
}

// --- Bounds

TEST_F(WorkerCoreTest, IsBusyWhenTooManyTicketsWait) {
  CoreConfig config = test_config();
  config.tickets_max = 2;
  start(std::move(config));
  const TestTicket ticket = small_ticket(1);
  for (uint64_t number = 1; number <= 3; ++number) compute(number, ticket.body());
  expect_busy(3, BusyReason::kQueueFull);
  core_->run_next(0);
  compute(4, ticket.body());
  run_all();
  for (uint64_t number : {1, 2, 4}) expect_result(number, ticket);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, IsBusyWhenTicketsThatWaitAreTooLarge) {
  const TestTicket ticket = small_ticket(4);
  CoreConfig config = test_config();
  config.queue_bytes_max = 2 * ticket.body().size();
  start(std::move(config));
  for (uint64_t number = 1; number <= 3; ++number) compute(number, ticket.body());
  expect_busy(3, BusyReason::kQueueFull);
  ASSERT_TRUE(arrive(FrameType::kCancel, 1, {}));
  compute(4, ticket.body());
  run_all();
  for (uint64_t number : {2, 4}) expect_result(number, ticket);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, IsBusyWhenTheAnswerCouldNotLeave) {
  const TestTicket ticket = small_ticket(4);
  const size_t answer =
      wire::frame_bytes(8 + ticket.experts.size() * kTestEmbd * sizeof(float), true);
  CoreConfig config = test_config();
  config.answer_bytes_max = answer;
  start(std::move(config));
  // One goes out by the credit, one may wait.
  compute(1, ticket.body(), 0, answer);
  compute(2, ticket.body(), 0, answer);
  compute(3, ticket.body(), 0, answer);
  expect_busy(3, BusyReason::kNoCredit);
  core_->run_next(0);
  compute(4, ticket.body(), 0, answer);  // the first still waits
  expect_busy(4, BusyReason::kNoCredit);
  expect_result(1, ticket);
  compute(5, ticket.body(), 0, answer);
  run_all();
  expect_result(2, ticket);
  expect_result(5, ticket);
}

TEST_F(WorkerCoreTest, KeepsAnAnswerUntilThereIsCredit) {
  const TestTicket ticket = small_ticket(2);
  compute(1, ticket.body());
  compute(2, std::vector<std::byte>(3));
  run_all();
  EXPECT_EQ(core_->wake_at(), 1'000U);
  expect_failed(2, FailReason::kMalformed);  // needs no credit
  EXPECT_FALSE(next(100).has_value());
  ASSERT_NE(core_->blocked(100), nullptr);
  EXPECT_EQ(core_->blocked(100)->ticket, 1U);
  EXPECT_LT(consumed_bytes_, sent_bytes_);
  core_->on_timer(999);
  EXPECT_EQ(core_->blocked(kPlenty), nullptr);
  expect_result(1, ticket);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
  EXPECT_EQ(core_->wake_at(), wire::kNever);
}

TEST_F(WorkerCoreTest, GivesUpAnAnswerThatGetsNoCreditInTime) {
  compute(1, small_ticket(2).body(), 10);
  run_all(11);
  core_->on_timer(1'010);
  expect_failed(1, FailReason::kDeadline);
  EXPECT_FALSE(next().has_value());
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, ComputesNothingAfterTheDeadline) {
  compute(1, small_ticket(2).body(), 10);
  compute(2, small_ticket(2).body(), 11);
  core_->run_next(1'010);
  core_->run_next(1'010);
  expect_failed(1, FailReason::kDeadline);
  EXPECT_EQ(next()->type, FrameType::kResult);
}

TEST_F(WorkerCoreTest, ForgetsWhatIsCancelled) {
  const TestTicket ticket = small_ticket(1);
  for (uint64_t number : {1, 2, 3}) compute(number, ticket.body());
  core_->run_next(0);
  for (uint64_t number : {1, 2, 9}) ASSERT_TRUE(arrive(FrameType::kCancel, number, {}));
  run_all();
  expect_result(3, ticket);
  EXPECT_FALSE(next().has_value());
  EXPECT_EQ(core_->stats().cancelled, 2U);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

// Refusals are not sent for lack of a reader: the sender's credit is what bounds them, so a COMPUTE
// must not count as dealt with before its refusal has left.
TEST_F(WorkerCoreTest, TakesNoCreditBackBeforeARefusalHasLeft) {
  for (uint64_t number = 1; number <= 100; ++number) compute(number, std::vector<std::byte>(3));
  EXPECT_EQ(core_->take_consumed_bytes(), 0U);
  size_t refusals = 0;
  for (; next(); ++refusals) {
  }
  EXPECT_EQ(refusals, 100U);
  EXPECT_EQ(consumed_bytes_, sent_bytes_);
}

TEST_F(WorkerCoreTest, AnswersALeaseOfWhatItHolds) {
  const auto body = wire::encode_lease_terms({{{0, 0, 4}, 77, 5, 1'000},
                                              {{1, 0, 4}, 78, 5, 1'000},
                                              {{1, 4, 8}, 79, 5, 1'000},
                                              {{9, 0, 0xFFFF}, 80, 5, 1'000}});
  ASSERT_TRUE(arrive(FrameType::kLease, 0, body));
  const auto frame = next();
  ASSERT_TRUE(frame.has_value());
  ASSERT_EQ(frame->type, FrameType::kReady);
  const auto units = wire::decode_leased_units(frame->body);
  ASSERT_TRUE(units);
  ASSERT_EQ(units->size(), 2U);
  EXPECT_EQ((*units)[0].epoch, 77U);
  EXPECT_EQ((*units)[1].epoch, 79U);
  // A flood of leases that nobody waits for the answers of.
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(arrive(FrameType::kLease, 0, body));
  size_t frames = 0;
  for (; next(); ++frames) {
  }
  EXPECT_LE(frames, 64U);
  EXPECT_EQ(core_->stats().notices_dropped, 1'000 - frames);
}

TEST_F(WorkerCoreTest, DrainsByFinishingWhatItHasAndTakingNoMore) {
  const TestTicket ticket = small_ticket(1);
  compute(1, ticket.body());
  EXPECT_FALSE(core_->is_drained());
  core_->drain();
  core_->drain();
  const auto frame = next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->type, FrameType::kDrain);
  EXPECT_EQ(wire::decode_leased_units(frame->body)->size(), 5U);
  compute(2, ticket.body());
  expect_busy(2, BusyReason::kDraining);
  EXPECT_FALSE(core_->is_drained());
  run_all();
  EXPECT_FALSE(core_->is_drained());
  expect_result(1, ticket);
  EXPECT_TRUE(core_->is_drained());
}

// --- Seams for those who test audits

TEST_F(WorkerCoreTest, LiesByOneBitWhenToldTo) {
  for (double share : {1.0, 0.25}) {
    CoreConfig config = test_config();
    config.mischief.lie_share = share;
    config.mischief.seed = 3;
    start(std::move(config));
    size_t lies = 0;
    constexpr size_t kTickets = 60;
    for (uint64_t number = 1; number <= kTickets; ++number) {
      const TestTicket ticket = random_ticket(random_, 0, 0, 7, 2);
      compute(number, ticket.body());
      run_all();
      const auto frame = next();
      ASSERT_TRUE(frame.has_value());
      const std::vector<float> got = decoded_result(frame->body, ticket);
      const std::vector<float> honest = ticket.expected(local_);
      ASSERT_EQ(got.size(), honest.size());  // still valid
      size_t wrong = 0;
      for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != honest[i] ? 1 : 0;
      EXPECT_LE(wrong, 1U);
      lies += wrong;
    }
    EXPECT_EQ(core_->stats().lies, lies);
    if (share == 1.0) {
      EXPECT_EQ(lies, kTickets);
    } else {
      EXPECT_GT(lies, kTickets / 10);
      EXPECT_LT(lies, kTickets / 2);
    }
  }
}

TEST_F(WorkerCoreTest, AnswersInRandomOrderWhenToldTo) {
  CoreConfig config = test_config();
  config.mischief.reorder = true;
  start(std::move(config));
  std::map<uint64_t, TestTicket> open;
  for (uint64_t number = 1; number <= 20; ++number) {
    open.emplace(number, small_ticket(1));
    compute(number, open.at(number).body());
  }
  run_all();
  std::vector<uint64_t> order;
  while (auto frame = next()) {
    order.push_back(frame->ticket);
    const TestTicket& asked = open.at(frame->ticket);
    EXPECT_EQ(decoded_result(frame->body, asked), asked.expected(local_));
  }
  EXPECT_EQ(order.size(), 20U);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace kvasir::worker
