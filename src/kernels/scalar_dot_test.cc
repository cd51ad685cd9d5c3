#include <gtest/gtest.h>

#include <cmath>

#include "base/bytes.h"
#include "kernels/scalar.h"
#include "kernels/test_blocks.h"

namespace kvasir::kernels {
namespace {

constexpr size_t kRows = 8;
constexpr size_t kLength = 1024;

// x in the activation format of a weight type.
std::vector<std::byte> activation_row(TensorType type, const std::vector<float>& x) {
  const ActivationFormat format = activation_format(type);
  std::vector<std::byte> row(activation_row_bytes(format, x.size()));
  switch (format) {
    case ActivationFormat::kF32:
      std::memcpy(row.data(), x.data(), row.size());
      break;
    case ActivationFormat::kQ8_0:
      EXPECT_TRUE(
          scalar().quantize_q8_0(x.data(), x.size(), reinterpret_cast<BlockQ8_0*>(row.data())));
      break;
    case ActivationFormat::kQ8_K:
      EXPECT_TRUE(
          scalar().quantize_q8_k(x.data(), x.size(), reinterpret_cast<BlockQ8K*>(row.data())));
      break;
  }
  return row;
}

// Relative to the sum of magnitudes. The reference rounds x to f16 or bf16 for these weights, and
// uses another activation format (Q8_1) for those with a minimum.
double tolerance(TensorType type) {
  switch (type) {
    case TensorType::kBF16:
      return 3e-4;
    case TensorType::kF16:
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
      return 1e-4;
    default:
      return 1e-6;
  }
}

TEST(ScalarMatMul, AgreesWithTheReferenceOnItsBlocks) {
  const auto x = read_block_file<float>("x.f32");
  ASSERT_EQ(x.size(), kLength);
  for (const WeightType& type : kWeightTypes) {
    if (type.type == TensorType::kF32) continue;
    SCOPED_TRACE(type.name);
    const auto bytes = read_block_file<std::byte>(std::string(type.name) + ".bin");
    const auto values = read_block_file<float>(std::string(type.name) + ".f32");
    const auto want = read_block_file<float>(std::string(type.name) + ".dot.f32");
    ASSERT_EQ(want.size(), kRows);
    const size_t row_bytes = kLength / type.block_length * type.block_bytes;
    const auto row = activation_row(type.type, x);
    float y[kRows];
    scalar().matmul(type.type)(bytes.data(), row_bytes, kRows, kLength, row.data(), row.size(), 1,
                               y, kRows);
    for (size_t r = 0; r < kRows; ++r) {
      double magnitudes = 0;
      for (size_t i = 0; i < kLength; ++i) {
        magnitudes +=
            std::fabs(static_cast<double>(values[r * kLength + i]) * static_cast<double>(x[i]));
      }
      EXPECT_NEAR(y[r], want[r], tolerance(type.type) * magnitudes) << "row " << r;
    }
    EXPECT_EQ(y[5], 0.0f);  // the all-zero row
  }
}

// Against the unpacked weights and activations in binary64: catches an index or sign that the
// reference blocks happen not to exercise.
TEST(ScalarMatMul, IsTheDotProductOfWhatTheBlocksMean) {
  Random random(7);
  for (const WeightType& type : kWeightTypes) {
    if (type.block_length == 1) continue;
    SCOPED_TRACE(type.name);
    for (int round = 0; round < 20; ++round) {
      constexpr size_t kN = 512;
      std::vector<float> x(kN);
      for (float& value : x) value = uniform(random, -3, 3);
      std::vector<std::byte> w(kN / type.block_length * type.block_bytes);
      for (std::byte& byte : w) byte = static_cast<std::byte>(random());
      for (size_t at = 0; at < w.size(); at += type.block_bytes) {
        for (const int offset : type.scale_offsets) {
          if (offset >= 0) store_le(&w[at] + offset, f16_from_f32(uniform(random, -1, 1)));
        }
        if (type.type == TensorType::kMXFP4) w[at] = std::byte(120 + random() % 10);
      }
      std::vector<float> values(kN);
      ASSERT_TRUE(dequantize_row(type.type, w.data(), kN, values.data()));
      const auto row = activation_row(type.type, x);
      double want = 0;
      double magnitudes = 0;
      for (size_t i = 0; i < kN; ++i) {
        double x_i = 0;
        if (activation_format(type.type) == ActivationFormat::kQ8_K) {
          const auto& block = reinterpret_cast<const BlockQ8K*>(row.data())[i / 256];
          x_i = static_cast<double>(block.d) * block.q[i % 256];
        } else {
          const auto& block = reinterpret_cast<const BlockQ8_0*>(row.data())[i / 32];
          x_i = static_cast<double>(block.d) * block.q[i % 32];
        }
        want += static_cast<double>(values[i]) * x_i;
        magnitudes += std::fabs(static_cast<double>(values[i]) * x_i);
      }
      float y = 0;
      scalar().matmul(type.type)(w.data(), w.size(), 1, kN, row.data(), row.size(), 1, &y, 1);
      EXPECT_NEAR(y, want, 2e-6 * magnitudes);
    }
  }
}

// Rows and columns are independent: a batch is its rows and columns one by one.
TEST(ScalarMatMul, GivesEachRowAndColumnTheBitsItHasAlone) {
  Random random(11);
  for (const WeightType& type : kWeightTypes) {
    SCOPED_TRACE(type.name);
    constexpr size_t kN = 512, kWeightRows = 5, kColumns = 11, kStride = 7;
    const auto bytes = type.type == TensorType::kF32
                           ? read_block_file<std::byte>("x.f32")
                           : read_block_file<std::byte>(std::string(type.name) + ".bin");
    // Rows that start where the last but one block of the one before does: any stride will do.
    const size_t row_bytes = type.block_bytes;
    std::vector<std::byte> rows;
    for (size_t c = 0; c < kColumns; ++c) {
      std::vector<float> x(kN);
      for (float& value : x) value = uniform(random, -3, 3);
      const auto row = activation_row(type.type, x);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const size_t x_stride = rows.size() / kColumns;
    const MatMul matmul = scalar().matmul(type.type);
    std::vector<float> batch(kColumns * kStride, -1.0f);
    matmul(bytes.data(), row_bytes, kWeightRows, kN, rows.data(), x_stride, kColumns, batch.data(),
           kStride);
    for (size_t c = 0; c < kColumns; ++c) {
      for (size_t r = 0; r < kStride; ++r) {
        float alone = -1.0f;
        if (r < kWeightRows) {
          matmul(bytes.data() + r * row_bytes, row_bytes, 1, kN, rows.data() + c * x_stride,
                 x_stride, 1, &alone, 1);
        }
        EXPECT_EQ(batch[c * kStride + r], alone) << c << " " << r;
      }
    }
  }
}

TEST(ScalarMatMul, ShowsANonFiniteScaleInTheResult) {
  for (const WeightType& type : kWeightTypes) {
    if (type.scale_offsets[0] < 0) continue;
    SCOPED_TRACE(type.name);
    const std::vector<float> x(512, 0.0f);  // worth zero, so that only the scale can show
    const auto row = activation_row(type.type, x);
    for (const int offset : type.scale_offsets) {
      if (offset < 0) continue;
      for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
        std::vector<std::byte> w(512 / type.block_length * type.block_bytes);
        store_le(w.data() + offset, bad);
        float y = 0;
        scalar().matmul(type.type)(w.data(), w.size(), 1, 512, row.data(), row.size(), 1, &y, 1);
        EXPECT_FALSE(std::isfinite(y));
      }
    }
  }
}

// 1e8 swallows ones (its unit in the last place is 8) as long as the sum it is in holds it, so the
// result tells which terms met before it was taken away again.
TEST(Rule16, AddsInSixteenLanesThenFoldsHalves) {
  const std::vector<float> ones(32, 1.0f);
  const auto sum_with = [&](size_t plus, size_t minus) {
    std::vector<float> a(32, 1.0f);
    a[plus] = 1e8f;
    a[minus] = -1e8f;
    return scalar().dot(a.data(), ones.data(), a.size());
  };
  EXPECT_EQ(sum_with(0, 16), 30.0f);  // one lane
  EXPECT_EQ(sum_with(0, 8), 28.0f);   // first fold: each has swallowed the other one of its lane
  EXPECT_EQ(sum_with(0, 4), 24.0f);   // second fold: and a lane of 2 each
  EXPECT_EQ(sum_with(0, 2), 16.0f);   // third fold: and 4 each, a tie that goes to the even 1e8
}

// Against the rule written out without loops, on values whose sum depends on the order.
TEST(Rule16, HasExactlyOneOrder) {
  Random random(3);
  int differs_from_running_sum = 0;
  for (int round = 0; round < 100; ++round) {
    float a[40];
    float b[40];
    float running = 0;
    float p[16] = {};
    for (size_t i = 0; i < 40; ++i) {
      a[i] = uniform(random, -1, 1);
      b[i] = uniform(random, -1, 1);
      running = running + a[i] * b[i];
      p[i & 15] = p[i & 15] + a[i] * b[i];
    }
    const float p8[8] = {p[0] + p[8],  p[1] + p[9],  p[2] + p[10], p[3] + p[11],
                         p[4] + p[12], p[5] + p[13], p[6] + p[14], p[7] + p[15]};
    const float p4[4] = {p8[0] + p8[4], p8[1] + p8[5], p8[2] + p8[6], p8[3] + p8[7]};
    const float want = (p4[0] + p4[2]) + (p4[1] + p4[3]);
    EXPECT_EQ(scalar().dot(a, b, 40), want);
    differs_from_running_sum += want != running ? 1 : 0;
  }
  EXPECT_GT(differs_from_running_sum, 50);
}

}  // namespace
}  // namespace kvasir::kernels
