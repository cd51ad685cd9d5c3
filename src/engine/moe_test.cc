// Choosing experts (rule 8), against a stable sort.
#include "engine/moe.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kvasir::engine {
namespace {

// Few distinct probabilities, so that most choices are ties.
TEST(ChooseExperts, TakesTheLargestAndOfEqualOnesTheLowestIds) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const size_t n = 1 + random() % 64, k = 1 + random() % std::min<size_t>(n, 10);
    std::vector<float> p(n);
    for (float& value : p) value = static_cast<float>(random() % 6) / 64.0F;
    std::vector<uint16_t> expected(n);
    std::iota(expected.begin(), expected.end(), uint16_t{0});
    std::stable_sort(expected.begin(), expected.end(),
                     [&](uint16_t a, uint16_t b) { return p[a] > p[b]; });
    expected.resize(k);

    std::vector<uint16_t> ids(k);
    std::vector<float> weights(k);
    choose_experts(p.data(), n, k, ids.data(), weights.data());
    ASSERT_EQ(ids, expected);
    float sum = 0;
    for (uint16_t id : expected) sum += p[id];
    for (size_t rank = 0; rank < k; ++rank)
      ASSERT_EQ(weights[rank], p[expected[rank]] / std::max(sum, 0x1p-14F));
  }
}

TEST(ChooseExperts, DoesNotDivideByLessThanTheSmallestSum) {
  const float p[] = {0x1p-20F, 0x1p-20F, 0.0F};
  uint16_t ids[2];
  float weights[2];
  choose_experts(p, 3, 2, ids, weights);
  EXPECT_EQ(weights[0], 0x1p-6F);
  EXPECT_EQ(weights[1], 0x1p-6F);
}

}  // namespace
}  // namespace kvasir::engine
