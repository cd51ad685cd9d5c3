#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "base/bytes.h"
#include "kernels/test_blocks.h"

namespace kvasir::kernels {
namespace {

constexpr size_t kRows = 8;
constexpr size_t kLength = 1024;

// Eight rows of each quantised type made and unpacked by another implementation.
TEST(DequantizeRow, EqualsTheReferenceBitForBit) {
  for (const WeightType& type : kWeightTypes) {
    if (type.type == TensorType::kF32) continue;
    SCOPED_TRACE(type.name);
    const auto bytes = read_block_file<std::byte>(std::string(type.name) + ".bin");
    const auto want = read_block_file<float>(std::string(type.name) + ".f32");
    const size_t row_bytes = kLength / type.block_length * type.block_bytes;
    ASSERT_EQ(bytes.size(), kRows * row_bytes);
    ASSERT_EQ(want.size(), kRows * kLength);
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<float> got(kLength);
      ASSERT_TRUE(dequantize_row(type.type, bytes.data() + r * row_bytes, kLength, got.data()));
      for (size_t i = 0; i < kLength; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[r * kLength + i]))
            << "row " << r << " value " << i << ": " << got[i] << " " << want[r * kLength + i];
      }
    }
  }
}

struct Expected {
  TensorType type;
  std::vector<std::pair<size_t, float>> values;
  double sum;
};

// Blocks of bytes (37 k + 11) mod 256 with d = 0.25, m or dmin = 0.125, MXFP4's exponent 126.
TEST(DequantizeRow, GivesTheKnownValuesOfTheTestVectors) {
  const Expected vectors[] = {
      {TensorType::kQ4_0, {{0, -0.75f}, {1, 0.5f}, {16, -0.75f}, {31, 0.0f}}, -5.25},
      {TensorType::kQ4_1, {{0, 3.875f}, {1, 1.125f}, {16, 2.375f}, {31, 3.125f}}, 65.25},
      {TensorType::kQ5_0, {{0, 2.25f}, {1, -0.5f}, {16, 3.5f}, {31, 0.25f}}, 3.75},
      {TensorType::kQ5_1, {{0, 4.875f}, {1, 6.125f}, {16, 4.875f}, {31, 1.375f}}, 130.25},
      {TensorType::kQ8_0, {{0, 21.25f}, {1, 30.5f}, {16, -22.75f}, {31, -12.0f}}, -44},
      {TensorType::kIQ4_NL, {{0, -8.75f}, {1, 6.25f}, {16, -8.75f}, {31, 0.25f}}, -64.25},
      {TensorType::kMXFP4, {{0, 0.0f}, {1, 1.5f}, {16, 0.75f}, {31, 1.5f}}, 6.25},
      {TensorType::kQ2_K,
       {{0, 8.25f},
        {1, 0.0f},
        {31, -0.375f},
        {32, 1.875f},
        {100, 5.0f},
        {128, 1.875f},
        {255, 1.125f}},
       514.75},
      {TensorType::kQ3_K,
       {{0, 20.25f}, {1, -27.0f}, {31, 16.0f}, {32, -5.5f}, {100, 0.0f}, {128, 0.5f}, {255, 10.5f}},
       239.5},
      {TensorType::kQ4_K,
       {{0, 78.875f},
        {1, -6.375f},
        {31, 40.125f},
        {32, 2.0f},
        {100, 23.75f},
        {128, 105.75f},
        {255, 12.125f}},
       13610},
      {TensorType::kQ5_K,
       {{0, 202.875f},
        {1, -6.375f},
        {31, 40.125f},
        {32, 28.0f},
        {100, 58.75f},
        {128, 261.75f},
        {255, 27.125f}},
       29054},
      {TensorType::kQ6_K,
       {{0, -357.75f},
        {1, 424.0f},
        {31, -24.0f},
        {32, 57.75f},
        {100, 630.75f},
        {128, -87.75f},
        {255, -15.0f}},
       1153},
      {TensorType::kIQ4_XS,
       {{0, 16.25f},
        {1, -0.25f},
        {31, 8.75f},
        {32, 113.75f},
        {100, 10.0f},
        {128, -146.25f},
        {255, -4.0f}},
       -2751.25},
  };
  for (const Expected& expected : vectors) {
    const WeightType& type = weight_type(expected.type);
    SCOPED_TRACE(type.name);
    std::vector<std::byte> block(type.block_bytes);
    for (size_t k = 0; k < block.size(); ++k) block[k] = std::byte((37 * k + 11) % 256);
    const uint16_t scales[2] = {0x3400, 0x3000};  // 0.25, 0.125
    for (size_t s = 0; s < 2; ++s) {
      if (type.scale_offsets[s] >= 0) store_le(block.data() + type.scale_offsets[s], scales[s]);
    }
    if (type.type == TensorType::kMXFP4) block[0] = std::byte{126};
    std::vector<float> y(type.block_length);
    ASSERT_TRUE(dequantize_row(type.type, block.data(), y.size(), y.data()));
    for (const auto& [i, value] : expected.values) EXPECT_EQ(y[i], value) << "value " << i;
    EXPECT_EQ(std::accumulate(y.begin(), y.end(), 0.0), expected.sum);
  }
}

// Every exponent byte: subnormal factors below 2, and 255 as an ordinary power of two.
TEST(DequantizeRow, UsesEveryMxfp4ExponentAsAPowerOfTwo) {
  std::byte block[17] = {};
  block[1] = std::byte{0x02};  // value 0 is 2, twice E2M1's 1
  for (int e = 0; e < 256; ++e) {
    block[0] = static_cast<std::byte>(e);
    float y[32];
    if (e < 255) {
      ASSERT_TRUE(dequantize_row(TensorType::kMXFP4, block, 32, y)) << e;
      EXPECT_EQ(static_cast<double>(y[0]), std::ldexp(1.0, e - 127)) << e;
    } else {
      block[1] = std::byte{0x01};
      ASSERT_TRUE(dequantize_row(TensorType::kMXFP4, block, 32, y));
      EXPECT_EQ(y[0], 0x1p127f);
    }
  }
}

TEST(DequantizeRow, RefusesValuesThatAreNotFinite) {
  for (const WeightType& type : kWeightTypes) {
    SCOPED_TRACE(type.name);
    std::vector<std::byte> block(type.block_bytes, std::byte{0x11});
    std::vector<float> y(type.block_length);
    for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
      if (type.type == TensorType::kMXFP4) {
        block[0] = std::byte{255};  // 2^127 times 8
        block[1] = std::byte{0x06};
      } else if (type.block_length == 1) {
        // The upper half of an f32 or bf16, or a whole f16.
        store_le(block.data() + block.size() - 2, static_cast<uint16_t>(bad | 0x7f80));
      } else {
        store_le(block.data() + type.scale_offsets[0], bad);
      }
      EXPECT_FALSE(dequantize_row(type.type, block.data(), y.size(), y.data()));
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels
