// The bookkeeping of a batch: order of rows, checks before computing, and how failures spread.
#include "engine/batch.h"

#include "model/test_model.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;
using testing::HasSubstr;

constexpr uint32_t kVocabulary = 100;

struct BatchTest : testing::Test {
  Result<void> start(const std::vector<Row>& rows, size_t rows_max = 16) {
    return batch.start(rows, rows_max, kVocabulary, KvType::kF16);
  }

  model::HyperParameters hp = model::tiny_plan().hp;
  Sequence a{hp, KvType::kF16, 8}, b{hp, KvType::kF16, 8}, c{hp, KvType::kF16, 8};
  Batch batch;
};

TEST_F(BatchTest, PutsRowsWithLogitsFirstAndKeepsTheOrderWithinASequence) {
  a.advance(3);
  ASSERT_TRUE(
      start({{&a, 1, false}, {&b, 2, true}, {&a, 3, true}, {&b, 4, false}, {&a, 5, false}}));
  EXPECT_EQ(batch.size(), 5U);
  EXPECT_EQ(batch.n_logits(), 2U);
  std::vector<int32_t> tokens;
  std::vector<size_t> positions, originals;
  for (size_t row = 0; row < batch.size(); ++row) {
    tokens.push_back(batch.row(row).token);
    positions.push_back(batch.row(row).position);
    originals.push_back(batch.row(row).original);
  }
  EXPECT_THAT(tokens, testing::ElementsAre(2, 3, 1, 4, 5));
  EXPECT_THAT(originals, testing::ElementsAre(1, 2, 0, 3, 4));
  EXPECT_THAT(positions, testing::ElementsAre(0, 4, 3, 1, 5));
  ASSERT_EQ(batch.n_sequences(), 2U);
  EXPECT_THAT(batch.rows_of(0), testing::ElementsAre(2, 1, 4));
  EXPECT_THAT(batch.rows_of(1), testing::ElementsAre(0, 3));
}

TEST_F(BatchTest, RefusesTokensOutsideTheVocabulary) {
  for (int32_t token : {-1, 100, 2'147'483'647, -2'147'483'647}) {
    auto result = start({{&a, 0, true}, {&b, token, true}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(result.error().message, fmt::format("token {} of a vocabulary of 100", token));
  }
}

TEST_F(BatchTest, RefusesMoreRowsThanTheEngineHas) {
  EXPECT_EQ(start({{&a, 0, true}, {&a, 0, true}}, 1).error().message,
            "2 rows in one call, at most 1 are possible");
}

TEST_F(BatchTest, NamesBothNumbersWhenAContextIsFull) {
  a.advance(7);
  EXPECT_TRUE(start({{&a, 0, true}}));
  auto result = start({{&b, 0, true}, {&a, 0, true}, {&a, 0, true}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(result.error().message,
            "the context of 8 tokens is full: 7 are taken, 2 more were given");
  EXPECT_EQ(a.position(), 7U);
  EXPECT_EQ(b.position(), 0U);
}

TEST_F(BatchTest, AdvancesSequencesByTheirRows) {
  ASSERT_TRUE(start({{&a, 1, false}, {&b, 2, true}, {&a, 3, true}}));
  EXPECT_TRUE(batch.finish().empty());
  EXPECT_EQ(a.position(), 2U);
  EXPECT_EQ(b.position(), 1U);
}

// Which row of a sequence fails first in time must not matter, or a chunk would end differently
// from its tokens one by one: the error is that of the first position.
TEST_F(BatchTest, ReportsTheFirstFailedPositionOfASequence) {
  ASSERT_TRUE(start({{&a, 1, true}, {&a, 2, true}, {&b, 3, true}, {&a, 4, true}}));
  batch.fail(3, Error::non_finite("the last row, early"));
  batch.spread_failures();
  EXPECT_FALSE(batch.failed(1));
  batch.fail(1, Error::non_finite("the middle row, late"));
  batch.fail(1, Error::non_finite("the middle row, again"));
  batch.spread_failures();
  EXPECT_FALSE(batch.failed(0));
  EXPECT_TRUE(batch.failed(1));
  EXPECT_FALSE(batch.failed(2));
  const auto failures = batch.finish();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].sequence, &a);
  EXPECT_EQ(failures[0].error.message, "the middle row, late");
  EXPECT_EQ(a.failure()->message, "the middle row, late");
  EXPECT_EQ(b.position(), 1U);
  EXPECT_FALSE(b.failure());
}

TEST_F(BatchTest, SpreadsAFailureToLaterRowsOfTheSequenceOnly) {
  ASSERT_TRUE(start({{&a, 1, false}, {&b, 1, true}, {&a, 2, true}, {&c, 1, true}, {&a, 3, false}}));
  const uint32_t middle = batch.rows_of(0)[1];
  batch.fail(middle, Error::non_finite("x"));
  batch.spread_failures();
  std::vector<bool> failed;
  for (uint32_t row : batch.rows_of(0)) failed.push_back(batch.failed(row));
  EXPECT_THAT(failed, testing::ElementsAre(false, true, true));
  EXPECT_FALSE(batch.failed(batch.rows_of(1)[0]));
  EXPECT_FALSE(batch.failed(batch.rows_of(2)[0]));
}

TEST_F(BatchTest, RefusesASequenceThatFailed) {
  a.fail(Error::non_finite("blk.0: broken"));
  auto result = start({{&a, 1, true}});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("blk.0: broken"));
}

}  // namespace
}  // namespace kvasir::engine
