#include "measure/counting_experts.h"

#include <gtest/gtest.h>

namespace kvasir::measure {
namespace {

// Remembers what it was asked, and answers with a failure of row 1.
class RecordingExperts final : public expert::ExpertService {
 public:
  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override {
    last = request;
    last_out = out;
    return std::vector<expert::RowFailure>{{1, Error::non_finite("as told")}};
  }
  expert::ExpertRequest last;
  float* last_out = nullptr;
};

TEST(CountingExperts, PassesRequestsOnUnchanged) {
  RecordingExperts inner;
  CountingExperts counting(inner, 3, 8);
  const float row[4] = {};
  const uint16_t ids[] = {5, 2};
  float out[16] = {};
  auto failures = counting.compute({2, row, 1, ids, 2, expert::OutputEncoding::kQ8}, out);
  ASSERT_TRUE(failures.has_value());
  EXPECT_EQ(failures->front().row, 1U);
  EXPECT_EQ(inner.last.layer, 2U);
  EXPECT_EQ(inner.last.rows, row);
  EXPECT_EQ(inner.last.ids, ids);
  EXPECT_EQ(inner.last.encoding, expert::OutputEncoding::kQ8);
  EXPECT_EQ(inner.last_out, out);
}

// Per layer: an expert that several rows want counts once, a pair always.
TEST(CountingExperts, CountsDistinctExpertsAndPairs) {
  RecordingExperts inner;
  CountingExperts counting(inner, 2, 8);
  const uint16_t ids[] = {5, 2, 2, 7, 5, 2};
  ASSERT_TRUE(counting.compute({1, nullptr, 3, ids, 2, {}}, nullptr).has_value());
  EXPECT_EQ(counting.use()[0].pairs, 0U);
  EXPECT_EQ(counting.use()[1].pairs, 6U);
  EXPECT_EQ(counting.use()[1].distinct, 3U);
  // A second request of the same layer reads its experts again.
  ASSERT_TRUE(counting.compute({1, nullptr, 1, ids, 2, {}}, nullptr).has_value());
  EXPECT_EQ(counting.use()[1].pairs, 8U);
  EXPECT_EQ(counting.use()[1].distinct, 5U);
  counting.clear();
  EXPECT_EQ(counting.use()[1].pairs, 0U);
  EXPECT_EQ(counting.use()[1].distinct, 0U);
}

TEST(CountingExperts, LeavesNonsenseToTheServiceBehindIt) {
  RecordingExperts inner;
  CountingExperts counting(inner, 1, 4);
  const uint16_t ids[] = {4, 3};
  EXPECT_TRUE(counting.compute({0, nullptr, 1, ids, 2, {}}, nullptr).has_value());
  EXPECT_EQ(counting.use()[0].distinct, 1U);
  EXPECT_TRUE(counting.compute({1, nullptr, 1, ids, 2, {}}, nullptr).has_value());
  EXPECT_EQ(inner.last.layer, 1U);
}

}  // namespace
}  // namespace kvasir::measure
