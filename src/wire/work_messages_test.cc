// Frames of work: a good one with one thing wrong at a time.
#include "wire/work_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "wire/frame.h"
#include "wire/test_bytes.h"

namespace kvasir::wire {
namespace {

using testing::HasSubstr;

constexpr ModelShape kShape{4, 16, 256};
constexpr uint16_t kRows = 8;

// Offsets in the body.
constexpr size_t kLayer = 0, kEncoding = 2, kFormat = 3, kDeadline = 4, kNRows = 8, kNPairs = 10,
                 kCounts = 12;

struct Sample {
  Bytes rows = Bytes(2 * 260);
  Compute compute;

  Sample() {
    compute.layer = 3;
    compute.encoding = ResultEncoding::kF16;
    compute.row_format = ActivationFormat::kQ8_K;
    compute.deadline_ms = 200;
    compute.counts = {2, 1};
    compute.experts = {0, 15, 7};
    compute.rows = rows;
  }
  Bytes body() const { return encode_compute(compute); }
};

Result<Compute> decode(const Bytes& body) {
  return decode_compute(body, kShape, kRows);
}

TEST(Compute, ComesBackAsItWasSent) {
  const Sample sample;
  const Bytes body = sample.body();
  EXPECT_EQ(body.size(), kCounts + 2 + 6 + 520);
  auto compute = decode(body);
  ASSERT_TRUE(compute) << compute.error().message;
  EXPECT_EQ(compute->layer, 3);
  EXPECT_EQ(compute->encoding, ResultEncoding::kF16);
  EXPECT_EQ(compute->row_format, ActivationFormat::kQ8_K);
  EXPECT_EQ(compute->deadline_ms, 200U);
  EXPECT_EQ(compute->counts, sample.compute.counts);
  EXPECT_EQ(compute->experts, sample.compute.experts);
  EXPECT_EQ(encode_compute(*compute), body);
}

TEST(Compute, LayoutIsTheOneOfTheProtocolPage) {
  const Bytes body = Sample().body();
  EXPECT_EQ(Bytes(body.begin(), body.begin() + 20),
            bytes({3, 0, 1, 2, 200, 0, 0, 0, 2, 0, 3, 0, 2, 1, 0, 0, 15, 0, 7, 0}));
}

TEST(Compute, WhatIsWrongIsRefusedWithAReason) {
  const Bytes good = Sample().body();
  struct Case {
    const char* name;
    Bytes body;
    const char* reason;
    ErrorKind kind = ErrorKind::kCorrupt;
  };
  const std::vector<Case> cases = {
      {"layer at the limit", with(good, kLayer, uint16_t{4}), "layer 4", ErrorKind::kInvalid},
      {"layer at the end", with(good, kLayer, uint16_t{0xFFFF}), "layer", ErrorKind::kInvalid},
      {"encoding", with(good, kEncoding, uint8_t{3}), "encoding"},
      {"encoding 255", with(good, kEncoding, uint8_t{255}), "encoding"},
      {"format", with(good, kFormat, uint8_t{3}), "row format"},
      {"format of other length", with(good, kFormat, uint8_t{1}), "expected"},
      {"no deadline", with(good, kDeadline, uint32_t{0}), "deadline"},
      {"far deadline", with(good, kDeadline, kDeadlineMsMax + 1), "deadline"},
      {"endless deadline", with(good, kDeadline, UINT32_MAX), "deadline"},
      {"no rows", with(good, kNRows, uint16_t{0}), "no rows"},
      {"a row less", with(good, kNRows, uint16_t{1}), "expected"},
      {"a row more", with(good, kNRows, uint16_t{3}), "expected"},
      {"rows beyond what was agreed", with(good, kNRows, uint16_t{kRows + 1}), "9 rows"},
      {"65535 rows", with(good, kNRows, uint16_t{0xFFFF}), "65535 rows"},
      {"no pairs", with(good, kNPairs, uint16_t{0}), "expected"},
      {"a pair less", with(good, kNPairs, uint16_t{2}), "expected"},
      {"65535 pairs", with(good, kNPairs, uint16_t{0xFFFF}), "one RESULT holds"},
      {"a row wants nothing", with(good, kCounts, uint8_t{0}), "no expert"},
      {"counts below pairs", with(good, kCounts, uint8_t{1}), "add up"},
      {"counts above pairs", with(good, kCounts, uint8_t{255}), "add up"},
      {"expert at the limit", with(good, kCounts + 4, uint16_t{16}), "expert 16",
       ErrorKind::kInvalid},
      {"expert 65535", with(good, kCounts + 2, uint16_t{0xFFFF}), "expert 65535",
       ErrorKind::kInvalid},
      {"expert twice for one row", with(good, kCounts + 4, uint16_t{0}), "twice"},
      {"scale NaN", with(good, 20, std::nanf("")), "row 0: scale of block 0"},
      {"-128", with(good, 20 + 260 + 4 + 255, int8_t{-128}), "row 1: block 0 holds -128"},
      {"empty", {}, "ends too early"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    auto compute = decode(c.body);
    ASSERT_FALSE(compute);
    EXPECT_EQ(compute.error().kind, c.kind);
    EXPECT_THAT(compute.error().message, HasSubstr(c.reason));
  }
}

TEST(Compute, OneExpertForTwoRowsIsNoRepetition) {
  EXPECT_TRUE(decode(with(Sample().body(), kCounts + 6, uint16_t{0})));
}

TEST(Compute, EveryOtherLengthIsRefused) {
  Bytes body = Sample().body();
  for (size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(decode({body.data(), body.data() + n}));
  body.push_back(std::byte{0});
  EXPECT_FALSE(decode(body));
}

TEST(Compute, RowsAndPairsUpToTheLimitAreTaken) {
  Compute compute;
  compute.encoding = ResultEncoding::kF32;
  compute.deadline_ms = kDeadlineMsMax;
  const ModelShape shape{1, 256, 3072};
  for (size_t pairs : {15, 16}) {
    compute.counts.assign(pairs, 1);
    compute.experts.assign(pairs, 255);
    const Bytes rows(pairs * 12'288);
    compute.rows = rows;
    EXPECT_EQ(decode_compute(encode_compute(compute), shape, kRowsMax).has_value(), pairs == 15);
  }
  // Without an upper bound from WELCOME there is still one.
  const ModelShape narrow{1, 256, 1};
  compute.counts.assign(kRowsMax + 1, 1);
  compute.experts.assign(kRowsMax + 1, 0);
  const Bytes rows((kRowsMax + 1) * 4);
  compute.rows = rows;
  EXPECT_FALSE(decode_compute(encode_compute(compute), narrow, 0xFFFF));
}

TEST(Compute, FormatsThatTheModelsRowsCannotHaveAreRefused) {
  const ModelShape odd{4, 16, 48};
  Compute compute = Sample().compute;
  compute.counts = {1};
  compute.experts = {0};
  const Bytes rows(48 * 4);
  compute.rows = rows;
  compute.row_format = ActivationFormat::kF32;
  EXPECT_TRUE(decode_compute(encode_compute(compute), odd, kRows));
  compute.encoding = ResultEncoding::kQ8;
  EXPECT_FALSE(decode_compute(encode_compute(compute), odd, kRows));
  compute.encoding = ResultEncoding::kF32;
  compute.row_format = ActivationFormat::kQ8_0;
  EXPECT_FALSE(decode_compute(encode_compute(compute), odd, kRows));
}

TEST(Outputs, ComeBackAsTheyWereSent) {
  const Bytes outputs(3 * 514, std::byte{1});
  const Bytes body = encode_result({1234, 5, outputs}, 3);
  EXPECT_EQ(Bytes(body.begin(), body.begin() + 8), bytes({0xD2, 4, 0, 0, 5, 0, 3, 0}));
  // 0x0101 as exponent is out of range.
  EXPECT_FALSE(decode_result(body, ResultEncoding::kF16, 256, 3));
  Bytes good = body;
  for (size_t pair = 0; pair < 3; ++pair) store_le(good.data() + 8 + pair * 514, int16_t{0});
  auto result = decode_result(good, ResultEncoding::kF16, 256, 3);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->compute_us, 1234U);
  EXPECT_EQ(result->queue_depth, 5);
  EXPECT_EQ(result->outputs.size(), outputs.size());
  EXPECT_EQ(encode_result(*result, 3), good);
}

TEST(Outputs, OfAnotherShapeThanAskedForAreRefused) {
  const Bytes outputs(2 * 1024);
  const Bytes good = encode_result({1, 0, outputs}, 2);
  EXPECT_TRUE(decode_result(good, ResultEncoding::kF32, 256, 2));
  EXPECT_FALSE(decode_result(good, ResultEncoding::kF32, 256, 1));
  EXPECT_FALSE(decode_result(good, ResultEncoding::kF32, 256, 3));
  EXPECT_FALSE(decode_result(good, ResultEncoding::kF32, 128, 2));
  EXPECT_FALSE(decode_result(good, ResultEncoding::kF32, 512, 2));
  EXPECT_FALSE(decode_result(good, ResultEncoding::kF16, 256, 2));
  EXPECT_FALSE(decode_result(with(good, 6, uint16_t{0xFFFF}), ResultEncoding::kF32, 256, 2));
  for (size_t n = 0; n < good.size(); n += 7)
    EXPECT_FALSE(decode_result({good.data(), n}, ResultEncoding::kF32, 256, 2));
  auto late = decode_result(with(good, 8 + 1024 + 4, std::nanf("")), ResultEncoding::kF32, 256, 2);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("output 1: value 1"));
}

TEST(Refusals, EveryReasonHasANameAndNothingElseIsAReason) {
  for (unsigned reason = 0; reason < 256; ++reason) {
    auto busy = decode_busy(with(encode_busy({BusyReason::kPaused, 9}), 0, uint8_t(reason)));
    EXPECT_EQ(busy.has_value(), reason >= 1 && reason <= 4) << reason;
    if (busy) {
      EXPECT_FALSE(busy_reason_name(busy->reason).empty());
    }
    auto failed = decode_failed(with(encode_failed({}), 0, uint8_t(reason)));
    EXPECT_EQ(failed.has_value(), reason >= 1 && reason <= 7) << reason;
    if (failed) {
      EXPECT_FALSE(fail_reason_name(failed->reason).empty());
    }
  }
  EXPECT_EQ(decode_busy(encode_busy({BusyReason::kQueueFull, 250}))->retry_after_ms, 250U);
  EXPECT_EQ(decode_failed(encode_failed({FailReason::kNonFinite, 7}))->pair, 7);
  EXPECT_FALSE(decode_busy(with(encode_busy({}), 2, uint8_t{1})));
  EXPECT_FALSE(decode_failed(with(encode_failed({}), 1, uint8_t{1})));
  EXPECT_FALSE(decode_busy({}));
  EXPECT_FALSE(decode_failed({}));
}

TEST(Refusals, CancelHasNoBody) {
  EXPECT_TRUE(decode_cancel({}));
  EXPECT_FALSE(decode_cancel(bytes({0})));
}

TEST(Tickets, OnlyEverRise) {
  TicketOrder order;
  EXPECT_FALSE(order.accept(0));
  EXPECT_TRUE(order.accept(1));
  EXPECT_FALSE(order.accept(1));
  EXPECT_TRUE(order.accept(UINT64_MAX));
  EXPECT_FALSE(order.accept(UINT64_MAX));
  EXPECT_FALSE(order.accept(2));
}

}  // namespace
}  // namespace kvasir::wire
