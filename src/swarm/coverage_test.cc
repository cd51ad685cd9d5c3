#include "swarm/coverage.h"

#include <gtest/gtest.h>

namespace kvasir::swarm {
namespace {

std::vector<LayerRoute> layers() {
  return {{8, {}}, {0, {}}, {4, {}}};
}

TEST(Coverage, KnowsWhichUnitsTheModelHas) {
  const Coverage coverage(layers());
  EXPECT_TRUE(coverage.has({0, 0, 8}));
  EXPECT_TRUE(coverage.has({2, 3, 4}));
  EXPECT_FALSE(coverage.has({0, 0, 9}));
  EXPECT_FALSE(coverage.has({0, 3, 3}));
  EXPECT_FALSE(coverage.has({0, 5, 3}));
  EXPECT_FALSE(coverage.has({1, 0, 1}));  // a layer without experts
  EXPECT_FALSE(coverage.has({3, 0, 1}));
  EXPECT_FALSE(coverage.has({0xFFFF, 0, 1}));
  EXPECT_EQ(coverage.experts(), 12U);
}

TEST(Coverage, CountsWhatChangesHands) {
  Coverage coverage(layers());
  EXPECT_EQ(coverage.add(1, {0, 0, 4}), 4U);
  EXPECT_EQ(coverage.add(1, {0, 2, 6}), 2U);
  EXPECT_EQ(coverage.add(2, {0, 0, 2}), 2U);
  EXPECT_EQ(coverage.covered(), 6U);
  EXPECT_EQ(coverage.covered(0), 6U);
  EXPECT_EQ(coverage.covered(2), 0U);
  EXPECT_EQ(coverage.remove(1, {0, 5, 8}), 1U);
  EXPECT_EQ(coverage.remove(1, {7, 0, 8}), 0U);
  EXPECT_EQ(coverage.remove(1), 5U);
  EXPECT_EQ(coverage.remove(1), 0U);
  EXPECT_EQ(coverage.covered(), 2U);
}

TEST(Coverage, ListsHoldersInTheOrderInWhichTheyCame) {
  Coverage coverage(layers());
  for (WorkerId worker : {7U, 3U, 5U}) coverage.add(worker, {2, 0, 4});
  coverage.remove(3, {2, 1, 2});
  const auto all = coverage.holders(2, 0), two = coverage.holders(2, 1);
  EXPECT_EQ(std::vector<WorkerId>(all.begin(), all.end()), (std::vector<WorkerId>{7, 3, 5}));
  EXPECT_EQ(std::vector<WorkerId>(two.begin(), two.end()), (std::vector<WorkerId>{7, 5}));
}

}  // namespace
}  // namespace kvasir::swarm
