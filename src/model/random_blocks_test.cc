// Random blocks are decoded by a second, slow reading of the format and their statistics checked.
#include "model/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/bytes.h"

namespace kvasir::model {
namespace {

using gguf::TensorType;

constexpr TensorType kComputable[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBF16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ2_K, TensorType::kQ3_K,   TensorType::kQ4_K,   TensorType::kQ5_K,
    TensorType::kQ6_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4,
};

double half(const uint8_t* at) {
  const auto bits = load_le<uint16_t>(at);
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

constexpr int kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Scale and minimum of sub-block b, packed in 12 bytes of 6-bit fields.
std::pair<int, int> packed_scale(const uint8_t* s, size_t b) {
  if (b < 4) return {s[b] & 63, s[b + 4] & 63};
  return {(s[b + 4] & 15) | ((s[b - 4] >> 6) << 4), (s[b + 4] >> 4) | ((s[b] >> 6) << 4)};
}

// Value i of a block.
double value(TensorType type, const uint8_t* b, size_t i) {
  const auto nibble = [&](const uint8_t* qs) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; };
  const size_t h = i / 128, w = i % 128 / 32, l = i % 32;
  switch (type) {
    case TensorType::kF32:
      return static_cast<double>(load_le<float>(b));
    case TensorType::kF16:
      return half(b);
    case TensorType::kBF16: {
      const uint32_t bits = uint32_t{load_le<uint16_t>(b)} << 16;
      return static_cast<double>(load_le<float>(&bits));
    }
    case TensorType::kQ8_0:
      return half(b) * static_cast<int8_t>(b[2 + i]);
    case TensorType::kQ4_0:
      return half(b) * (nibble(b + 2) - 8);
    case TensorType::kQ4_1:
      return half(b) * nibble(b + 4) + half(b + 2);
    case TensorType::kQ5_0:
      return half(b) * ((nibble(b + 6) | ((load_le<uint32_t>(b + 2) >> i & 1) << 4)) - 16.0);
    case TensorType::kQ5_1:
      return half(b) * (nibble(b + 8) | ((load_le<uint32_t>(b + 4) >> i & 1) << 4)) + half(b + 2);
    case TensorType::kIQ4_NL:
      return half(b) * kIq4[nibble(b + 2)];
    case TensorType::kMXFP4:
      return std::ldexp(kFp4[nibble(b + 1)], b[0] - 128);
    case TensorType::kQ2_K: {
      const int q = b[16 + 32 * h + l] >> (2 * w) & 3;
      return half(b + 80) * (b[i / 16] & 15) * q - half(b + 82) * (b[i / 16] >> 4);
    }
    case TensorType::kQ3_K: {
      const int q = (b[32 + 32 * h + l] >> (2 * w) & 3) - ((b[l] >> (i / 32) & 1) != 0 ? 0 : 4);
      const uint8_t* s = b + 96;
      const size_t j = i / 16;
      const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
      return half(b + 108) * ((low | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32) * q;
    }
    case TensorType::kQ4_K: {
      const size_t sub = i / 32;
      const uint8_t byte = b[16 + 32 * (sub / 2) + l];
      const auto [scale, min] = packed_scale(b + 4, sub);
      return half(b) * scale * (sub % 2 == 0 ? byte & 15 : byte >> 4) - half(b + 2) * min;
    }
    case TensorType::kQ5_K: {
      const size_t sub = i / 32;
      const uint8_t byte = b[48 + 32 * (sub / 2) + l];
      const auto [scale, min] = packed_scale(b + 4, sub);
      const int q = (sub % 2 == 0 ? byte & 15 : byte >> 4) | (b[16 + l] >> sub & 1) << 4;
      return half(b) * scale * q - half(b + 2) * min;
    }
    case TensorType::kQ6_K: {
      const uint8_t byte = b[64 * h + 32 * (w & 1) + l];
      const int q = (w < 2 ? byte & 15 : byte >> 4) | (b[128 + 32 * h + l] >> (2 * w) & 3) << 4;
      return half(b + 208) * static_cast<int8_t>(b[192 + i / 16]) * (q - 32);
    }
    case TensorType::kIQ4_XS: {
      const size_t sub = i / 32;
      const uint8_t byte = b[8 + 16 * sub + l % 16];
      const int scale = (b[4 + sub / 2] >> (4 * (sub % 2)) & 15) |
                        (load_le<uint16_t>(b + 2) >> (2 * sub) & 3) << 4;
      return half(b) * (scale - 32) * kIq4[l < 16 ? byte & 15 : byte >> 4];
    }
    default:
      return std::nan("");
  }
}

std::vector<std::byte> random_bytes(TensorType type, float spread, uint64_t seed, size_t bytes) {
  std::vector<std::byte> out(bytes);
  fill_random_weights(type, spread, seed, 0, out);
  return out;
}

// 100,000 values and more of every type, at the spreads of a small and of a large model's rows.
TEST(RandomBlocks, HaveTheSpreadAskedFor) {
  for (TensorType type : kComputable) {
    ASSERT_TRUE(can_fill(type));
    const gguf::TypeInfo& info = gguf::type_info(type);
    for (float spread : {1.0F / 8, 1.0F / 64, 1.0F / 101}) {
      const size_t blocks = 100'000 / info.block_length + 1;
      const auto bytes = random_bytes(type, spread, 7, blocks * info.block_bytes);
      double sum = 0;
      double squares = 0;
      for (size_t block = 0; block < blocks; ++block)
        for (size_t i = 0; i < info.block_length; ++i) {
          const double v = value(
              type, reinterpret_cast<const uint8_t*>(bytes.data()) + block * info.block_bytes, i);
          ASSERT_TRUE(std::isfinite(v)) << info.name;
          sum += v;
          squares += v * v;
        }
      const auto n = static_cast<double>(blocks * info.block_length);
      const double ratio = std::sqrt(squares / n) / static_cast<double>(spread);
      // These have a power of two for a scale; the others come close.
      const bool is_coarse = info.block_length == 1 || type == TensorType::kMXFP4;
      EXPECT_GT(ratio, is_coarse ? 0.67 : 0.95) << info.name << " " << spread;
      EXPECT_LT(ratio, is_coarse ? 1.5 : 1.06) << info.name << " " << spread;
      EXPECT_LT(std::fabs(sum / n), 0.03 * static_cast<double>(spread)) << info.name;
    }
  }
}

// A quantiser never makes -128; kernels may rely on it for speed but not for safety.
TEST(RandomBlocks, HoldNoQ8ValueOfMinus128) {
  const auto bytes = random_bytes(TensorType::kQ8_0, 0.1F, 3, 34 * 10'000);
  int extreme = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (at % 34 < 2) continue;
    EXPECT_NE(bytes[at], std::byte{0x80});
    extreme += bytes[at] == std::byte{0x81} ? 1 : 0;
  }
  EXPECT_GT(extreme, 1000);
}

// Any cutting into pieces gives the bytes of the whole.
TEST(RandomBlocks, DoNotDependOnPieces) {
  for (TensorType type : kComputable) {
    const size_t block_bytes = gguf::type_info(type).block_bytes;
    const size_t size = 70'000 / block_bytes * block_bytes;
    const auto whole = random_bytes(type, 0.1F, 11, size);
    for (size_t piece : {size_t{1000}, size_t{16'384}, size_t{33'001}}) {
      std::vector<std::byte> pieces(size);
      for (size_t at = 0; at < size; at += piece)
        fill_random_weights(type, 0.1F, 11, at,
                            std::span(pieces).subspan(at, std::min(piece, size - at)));
      EXPECT_EQ(pieces, whole) << gguf::type_info(type).name << " " << piece;
    }
  }
}

TEST(RandomBlocks, DifferBySeed) {
  for (TensorType type : kComputable)
    EXPECT_NE(random_bytes(type, 0.1F, 1, 4200), random_bytes(type, 0.1F, 2, 4200));
}

TEST(RandomBlocks, KnowComputableTypesOnly) {
  EXPECT_FALSE(can_fill(TensorType::kIQ2_XXS));
  EXPECT_FALSE(can_fill(TensorType::kI8));
  EXPECT_FALSE(can_fill(TensorType::kNVFP4));
}

TEST(RandomBlocks, FillUniformlyWithinBounds) {
  std::vector<std::byte> whole(40'000);
  fill_uniform(-2.0F, 1.0F, 5, 0, whole);
  double sum = 0;
  float low = 9.0F;
  float high = -9.0F;
  for (size_t at = 0; at < whole.size(); at += 4) {
    const auto v = load_le<float>(whole.data() + at);
    low = std::min(low, v);
    high = std::max(high, v);
    sum += static_cast<double>(v);
  }
  EXPECT_GE(low, -2.0F);
  EXPECT_LT(low, -1.99F);
  EXPECT_LT(high, 1.0F);
  EXPECT_GT(high, 0.99F);
  EXPECT_NEAR(sum / 10'000, -0.5, 0.03);
  std::vector<std::byte> tail(400);
  fill_uniform(-2.0F, 1.0F, 5, 30'000, tail);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 30'000));
}

}  // namespace
}  // namespace kvasir::model
