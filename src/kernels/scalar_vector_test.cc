// The float functions of the scalar table against the same formulas in binary64, and the details
// that binary64 cannot see: associations and edge cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "kernels/canonical_math.h"
#include "kernels/test_blocks.h"

namespace kvasir::kernels {
namespace {

using Floats = std::vector<float>;

Floats random_floats(Random& random, size_t n, float size = 2.0f) {
  Floats x(n);
  for (float& value : x) value = uniform(random, -size, size);
  return x;
}

double exact_dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(Norms, DivideByTheRootMeanSquareAndTheLength) {
  Random random(1);
  const Floats x = random_floats(random, 200);
  const Floats weight = random_floats(random, 200);
  const double squares = exact_dot(x, x);
  Floats y(200);
  scalar().rms_norm(x.data(), weight.data(), 200, 1e-6f, y.data());
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(y[i],
                static_cast<double>(x[i]) * static_cast<double>(weight[i]) /
                    std::sqrt(squares / 200 + 1e-6),
                2e-6);
  }
  scalar().l2_norm(x.data(), 200, 1e-6f, y.data());
  for (size_t i = 0; i < 200; ++i)
    EXPECT_NEAR(y[i], static_cast<double>(x[i]) / std::sqrt(squares), 1e-7);
}

TEST(Norms, UseEpsWhereThereIsNothingToDivideBy) {
  const Floats zero(40, 0.0f);
  const Floats ones(40, 1.0f);
  Floats y(40, 1.0f);
  scalar().rms_norm(zero.data(), ones.data(), 40, 1e-6f, y.data());
  EXPECT_EQ(y, zero);
  scalar().l2_norm(zero.data(), 40, 1e-6f, y.data());
  EXPECT_EQ(y, zero);
  const Floats tiny(40, 1e-9f);
  scalar().l2_norm(tiny.data(), 40, 0.5f, y.data());
  EXPECT_EQ(y[0], 1e-9f / 0.5f);
}

// (x * r) * w, not x * (r * w).
TEST(Norms, MultiplyByTheScaleFirst) {
  Random random(2);
  const Floats x = random_floats(random, 64);
  const Floats weight = random_floats(random, 64);
  Floats y(64);
  scalar().rms_norm(x.data(), weight.data(), 64, 1e-5f, y.data());
  const float mean = scalar().dot(x.data(), x.data(), 64) / 64.0f;
  const float r = 1.0f / std::sqrt(mean + 1e-5f);
  int other_differs = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(y[i], (x[i] * r) * weight[i]);
    other_differs += y[i] != x[i] * (r * weight[i]) ? 1 : 0;
  }
  EXPECT_GT(other_differs, 0);
}

TEST(Softmax, SumsToOneAndKeepsTheOrder) {
  Random random(3);
  Floats x = random_floats(random, 100, 10);
  x[40] = -1e30f;  // far below: exactly 0
  Floats p(100);
  scalar().softmax(x.data(), 100, p.data());
  double sum = 0;
  double exact_sum = 0;
  const float max = *std::max_element(x.begin(), x.end());
  for (const float value : x)
    exact_sum += std::exp(static_cast<double>(value) - static_cast<double>(max));
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(p[i], std::exp(static_cast<double>(x[i]) - static_cast<double>(max)) / exact_sum,
                1e-6);
    sum += static_cast<double>(p[i]);
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_EQ(p[40], 0.0f);
  const float one[] = {-3.0f};
  scalar().softmax(one, 1, p.data());
  EXPECT_EQ(p[0], 1.0f);
}

TEST(ElementWise, AppliesTheScalarFunctions) {
  Random random(4);
  const Floats x = random_floats(random, 33, 20);
  const Floats up = random_floats(random, 33);
  Floats silu_mul(33), sigmoid_mul(33), sum(33), y = up;
  scalar().silu_mul(x.data(), up.data(), 33, silu_mul.data());
  scalar().sigmoid_mul(up.data(), x.data(), 33, sigmoid_mul.data());
  scalar().add(x.data(), up.data(), 33, sum.data());
  scalar().axpy(0.7f, x.data(), 33, y.data());
  for (size_t i = 0; i < 33; ++i) {
    EXPECT_EQ(silu_mul[i], canonical_silu(x[i]) * up[i]);
    EXPECT_EQ(sigmoid_mul[i], up[i] * canonical_sigmoid(x[i]));
    EXPECT_EQ(sum[i], x[i] + up[i]);
    EXPECT_EQ(y[i], up[i] + 0.7f * x[i]);
  }
}

TEST(HalfConversion, TellsOverflowApart) {
  uint16_t half[3];
  const float good[] = {65504.0f, -0.1f, 1e-9f};
  EXPECT_TRUE(scalar().f16_from_f32(good, 3, half));
  EXPECT_EQ(half[0], 0x7bff);
  const float bad[] = {1.0f, 65520.0f, 1.0f};
  EXPECT_FALSE(scalar().f16_from_f32(bad, 3, half));
}

// A turn by theta: the length of each pair stays, quarter turns move x[i] to x[i + half].
TEST(Rope, TurnsPairsHalfARowApart) {
  float x[] = {1, 2, 3, 4};
  const float cos[] = {0, 1};
  const float sin[] = {1, 0};
  scalar().rope(cos, sin, 2, x);
  EXPECT_THAT((Floats{x, x + 4}), testing::ElementsAre(-3, 2, 1, 4));
}

// One block equals softmax-weighted values, for both cache types.
TEST(Attention, IsASoftmaxOverThePositionsOfABlock) {
  Random random(5);
  constexpr size_t kDim = 48, kPositions = 37, kStride = kDim * 4 + 8;
  for (const KvType type : {KvType::kF32, KvType::kF16}) {
    std::vector<std::byte> k(kPositions * kStride);
    std::vector<std::byte> v(kPositions * kStride);
    std::vector<Floats> keys, values;
    for (size_t t = 0; t < kPositions; ++t) {
      for (auto* rows : {&keys, &values}) {
        Floats row = random_floats(random, kDim);
        std::byte* at = (rows == &keys ? k : v).data() + t * kStride;
        for (size_t i = 0; i < kDim; ++i) {
          const uint16_t half = f16_from_f32(row[i]);
          row[i] = f32_from_f16(half);  // the same numbers in both types
          if (type == KvType::kF16) store_le(at + 2 * i, half);
          if (type == KvType::kF32) store_le(at + 4 * i, row[i]);
        }
        rows->push_back(row);
      }
    }
    const Floats q = random_floats(random, kDim);
    Floats scores(kPositions), u(kDim);
    scalar().attention_scores(q.data(), k.data(), kStride, type, kDim, kPositions, 0.25f,
                              scores.data());
    for (size_t t = 0; t < kPositions; ++t) {
      EXPECT_EQ(scores[t], scalar().dot(q.data(), keys[t].data(), kDim) * 0.25f);
    }
    const Floats s = scores;
    const float max = *std::max_element(s.begin(), s.end());
    const float l = scalar().attention_values(scores.data(), max, v.data(), kStride, type, kDim,
                                              kPositions, u.data());
    double exact_l = 0;
    for (size_t t = 0; t < kPositions; ++t) {
      EXPECT_EQ(scores[t], canonical_exp(s[t] - max));
      exact_l += static_cast<double>(scores[t]);
    }
    EXPECT_NEAR(l, exact_l, 1e-5 * exact_l);
    for (size_t j = 0; j < kDim; ++j) {
      double want = 0;
      for (size_t t = 0; t < kPositions; ++t)
        want += static_cast<double>(scores[t]) * static_cast<double>(values[t][j]);
      EXPECT_NEAR(u[j], want, 1e-5);
    }
  }
}

TEST(Convolution, TakesTheOldestTapFirst) {
  const Floats taps[] = {{1, 2}, {10, 20}, {100, 200}, {1000, 2000}};
  const float* rows[] = {taps[0].data(), taps[1].data(), taps[2].data(), taps[3].data()};
  const float weight[] = {1, 2, 3, 4, 0, 0, 0, 0.5f};
  float out[2];
  scalar().conv_silu(rows, 4, weight, 2, out);
  EXPECT_EQ(out[0], canonical_silu(1 + 20 + 300 + 4000));
  EXPECT_EQ(out[1], canonical_silu(1000));
  scalar().conv_silu(rows, 1, weight, 2, out);
  EXPECT_EQ(out[1], canonical_silu(2 * 2));
}

// Two steps of the recurrence in binary64, with S[i][j] kept as a matrix.
TEST(DeltaStep, FollowsTheRecurrence) {
  Random random(6);
  constexpr size_t kDim = 24, kColumns = 5;
  Floats state = random_floats(random, kDim * kColumns);
  double s[kDim][kColumns];
  for (size_t j = 0; j < kColumns; ++j) {
    for (size_t i = 0; i < kDim; ++i) s[i][j] = static_cast<double>(state[j * kDim + i]);
  }
  for (int step = 0; step < 2; ++step) {
    const Floats q = random_floats(random, kDim, 0.3f);
    const Floats k = random_floats(random, kDim, 0.3f);
    const Floats v = random_floats(random, kColumns);
    Floats o(kColumns);
    scalar().delta_step(state.data(), q.data(), k.data(), v.data(), 0.75f, 0.5f, 0.125f, kDim,
                        kColumns, o.data());
    for (size_t j = 0; j < kColumns; ++j) {
      double r = 0;
      for (size_t i = 0; i < kDim; ++i) {
        s[i][j] *= 0.75;
        r += s[i][j] * static_cast<double>(k[i]);
      }
      const double delta = 0.5 * (static_cast<double>(v[j]) - r);
      double want = 0;
      for (size_t i = 0; i < kDim; ++i) {
        s[i][j] += static_cast<double>(k[i]) * delta;
        want += s[i][j] * static_cast<double>(q[i]);
        EXPECT_NEAR(state[j * kDim + i], s[i][j], 1e-5);
      }
      EXPECT_NEAR(o[j], want * 0.125, 1e-5);
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels
