#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "kernels/canonical_math.h"
#include "kernels/test_blocks.h"

namespace kvasir::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The reference's row, 256 values a block: d, 256 q, 16 sums. Same rule, so same bits.
TEST(QuantizeQ8K, EqualsTheReferenceBitForBit) {
  const auto x = read_block_file<float>("x.f32");
  const auto want = read_block_file<std::byte>("x.q8_K");
  ASSERT_EQ(x.size(), 1024u);
  ASSERT_EQ(want.size(), 4 * 292u);
  std::vector<BlockQ8K> got(4);
  ASSERT_TRUE(scalar().quantize_q8_k(x.data(), x.size(), got.data()));
  for (size_t b = 0; b < 4; ++b) {
    const std::byte* block = want.data() + 292 * b;
    EXPECT_EQ(std::bit_cast<uint32_t>(got[b].d), load_le<uint32_t>(block)) << b;
    EXPECT_EQ(std::memcmp(got[b].q, block + 4, 256), 0) << b;
    EXPECT_EQ(std::memcmp(got[b].sums, block + 260, 32), 0) << b;
  }
}

// The reference multiplies by 127 / a where the rule says 1 / (a / 127), so that a value near a tie
// may end on its other side: the scale is equal, a q at most one off, and few of them.
TEST(QuantizeQ8_0, IsWithinOneStepOfTheReference) {
  const auto x = read_block_file<float>("x.f32");
  const auto want = read_block_file<std::byte>("x.q8_0");
  ASSERT_EQ(want.size(), 32 * 34u);
  std::vector<BlockQ8_0> got(32);
  ASSERT_TRUE(scalar().quantize_q8_0(x.data(), x.size(), got.data()));
  int n_off = 0;
  for (size_t b = 0; b < 32; ++b) {
    const std::byte* block = want.data() + 34 * b;
    EXPECT_EQ(f16_from_f32(got[b].d), load_le<uint16_t>(block)) << b;
    for (size_t i = 0; i < 32; ++i) {
      const int difference = got[b].q[i] - load_le<int8_t>(block + 2 + i);
      EXPECT_LE(std::abs(difference), 1) << b << " " << i;
      n_off += difference != 0 ? 1 : 0;
    }
  }
  EXPECT_LE(n_off, 4);
}

// x_j = (j mod 7) - 2.5, whose values are in the format's description.
TEST(QuantizeQ8K, GivesTheKnownExample) {
  float x[256];
  for (size_t j = 0; j < 256; ++j) x[j] = static_cast<float>(j % 7) - 2.5f;
  BlockQ8K block;
  ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &block));
  const int8_t q[] = {91, 54, 18, -18, -54, -91, -127, 91};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(block.q[i], q[i]);
  EXPECT_FLOAT_EQ(block.d, -0.027559055f);
  EXPECT_EQ(block.sums[0], -109);
  EXPECT_EQ(block.sums[1], -254);
  EXPECT_EQ(block.sums[2], -399);
}

TEST(QuantizeQ8K, TakesTheFirstOfEqualMagnitudes) {
  float x[256] = {};
  x[10] = 2.0f;
  x[20] = -2.0f;
  BlockQ8K block;
  ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &block));
  EXPECT_LT(block.d, 0.0f);
  EXPECT_EQ(block.q[10], -127);
  EXPECT_EQ(block.q[20], 127);
  std::swap(x[10], x[20]);
  ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &block));
  EXPECT_GT(block.d, 0.0f);
  EXPECT_EQ(block.q[10], -127);
}

TEST(QuantizeQ8_0, RoundsTiesToEven) {
  float x[32] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
  BlockQ8_0 block;
  ASSERT_TRUE(scalar().quantize_q8_0(x, 32, &block));
  const int8_t q[] = {127, 0, 2, 2, 0, -2, -2, 126};
  int32_t sum = 0;
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(block.q[i], q[i]) << i;
  for (const int8_t value : block.q) sum += value;
  EXPECT_EQ(block.sum, sum);
  EXPECT_EQ(block.d, 1.0f);
}

// Just under 2^-100 a block is zero, at it there is a scale.
TEST(Quantize, StartsAtTwoToTheMinusHundred) {
  float x[256] = {};
  BlockQ8K k;
  BlockQ8_0 o;
  x[3] = std::nextafter(-0x1p-100f, 0.0f);
  ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &k));
  ASSERT_TRUE(scalar().quantize_q8_0(x, 32, &o));
  EXPECT_EQ(k.d, 0.0f);
  EXPECT_EQ(k.q[3], 0);
  EXPECT_EQ(o.d, 0.0f);
  EXPECT_EQ(o.q[3], 0);
  x[3] = -0x1p-100f;
  ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &k));
  ASSERT_TRUE(scalar().quantize_q8_0(x, 32, &o));
  EXPECT_GT(k.d, 0.0f);
  EXPECT_EQ(k.q[3], -127);
  EXPECT_EQ(o.d, 0.0f);  // far below f16: the block is worth nothing, its q are what they are
  EXPECT_EQ(o.q[3], -127);
}

TEST(QuantizeQ8_0, RefusesAScaleThatDoesNotFitF16) {
  float x[32] = {};
  BlockQ8_0 block;
  x[5] = 127.0f * 65504.0f;
  EXPECT_TRUE(scalar().quantize_q8_0(x, 32, &block));
  EXPECT_EQ(block.d, 65504.0f);
  x[5] = 127.0f * 65519.0f;
  EXPECT_TRUE(scalar().quantize_q8_0(x, 32, &block));
  EXPECT_EQ(block.d, 65504.0f);
  x[5] = 127.0f * 65520.0f;
  EXPECT_FALSE(scalar().quantize_q8_0(x, 32, &block));
  x[5] = std::numeric_limits<float>::max();
  EXPECT_FALSE(scalar().quantize_q8_0(x, 32, &block));
}

TEST(Quantize, RefusesWhatIsNotFinite) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const size_t at : {size_t{0}, size_t{17}, size_t{511}}) {
      std::vector<float> x(512, 1.0f);
      x[at] = bad;
      std::vector<BlockQ8K> k(2);
      std::vector<BlockQ8_0> o(16);
      EXPECT_FALSE(scalar().quantize_q8_k(x.data(), x.size(), k.data()));
      EXPECT_FALSE(scalar().quantize_q8_0(x.data(), x.size(), o.data()));
      EXPECT_FALSE(scalar().all_finite(x.data(), x.size()));
    }
  }
}

// Every block of any sizes stays within -127..127 and within half a step (and the rounding of the
// scale) of its values.
TEST(Quantize, ComesBackWithinHalfAStep) {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const float size = std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
    float x[256];
    float max = 0;
    for (float& value : x) {
      value = uniform(random, -size, size);
      max = std::max(max, std::fabs(value));
    }
    BlockQ8K k;
    ASSERT_TRUE(scalar().quantize_q8_k(x, 256, &k));
    const float step = max / 127.0f;
    for (size_t i = 0; i < 256; ++i) {
      ASSERT_GE(k.q[i], -127);
      ASSERT_NEAR(k.d * static_cast<float>(k.q[i]), x[i], 0.5001f * step);
    }
    for (size_t g = 0; g < 16; ++g) {
      int sum = 0;
      for (size_t i = 16 * g; i < 16 * g + 16; ++i) sum += k.q[i];
      ASSERT_EQ(k.sums[g], sum);
    }
    BlockQ8_0 o[8];
    ASSERT_TRUE(scalar().quantize_q8_0(x, 256, o));
    for (size_t i = 0; i < 256; ++i) {
      const BlockQ8_0& block = o[i / 32];
      ASSERT_GE(block.q[i % 32], -127);
      // An f16 scale is off by 2^-11 of itself, or by 2^-25 where it is subnormal.
      const float scale_error = 127.0f * std::max(step * 0x1p-11f, 0x1p-25f);
      ASSERT_NEAR(block.d * static_cast<float>(block.q[i % 32]), x[i],
                  0.5001f * step + scale_error);
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels
