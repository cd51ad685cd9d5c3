// Output encodings: what a row is after the wire, and what a hostile row is refused for.
#include "expert/encoding.h"

#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "expert/test_weights.h"

namespace kvasir::expert {
namespace {

using testing::HasSubstr;

constexpr OutputEncoding kEncodings[] = {OutputEncoding::kF32, OutputEncoding::kF16,
                                         OutputEncoding::kQ8};

std::vector<std::byte> encoded(OutputEncoding encoding, std::span<const float> y) {
  std::vector<std::byte> bytes(encoded_bytes(encoding, y.size()));
  encode(kernels::scalar(), encoding, y, bytes.data());
  return bytes;
}

std::vector<float> decoded(OutputEncoding encoding, std::span<const std::byte> bytes, size_t n) {
  std::vector<float> y(n);
  auto result = decode(kernels::scalar(), encoding, bytes, y);
  if (!result) ADD_FAILURE() << result.error().message;
  return y;
}

std::string decode_error(OutputEncoding encoding, std::span<const std::byte> bytes, size_t n) {
  std::vector<float> y(n);
  auto result = decode(kernels::scalar(), encoding, bytes, y);
  if (result) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::kCorrupt);
  return result.error().message;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(Encoding, HasAByteCountThatTheGrammarGives) {
  EXPECT_EQ(encoded_bytes(OutputEncoding::kF32, 64), 256U);
  EXPECT_EQ(encoded_bytes(OutputEncoding::kF16, 64), 2U + 128U);
  EXPECT_EQ(encoded_bytes(OutputEncoding::kQ8, 64), 2U + 2 * 34U);
}

TEST(Encoding, IsFoundByItsName) {
  for (OutputEncoding encoding : kEncodings)
    EXPECT_EQ(find_encoding(encoding_name(encoding)).value(), encoding);
  EXPECT_EQ(find_encoding("f64").error().kind, ErrorKind::kNotFound);
}

// Rows of every magnitude that a float can have: the error stays below the format's step, which is
// relative to the largest value of the row.
TEST(Encoding, KeepsEveryRowWithinItsStep) {
  Random random(7);
  for (int exponent = -99; exponent <= 126; ++exponent) {
    auto y = random_floats(random, 96, std::ldexp(1.0F, exponent));
    y[17] = std::ldexp(1.5F, exponent);  // the largest
    const float largest = y[17];
    EXPECT_TRUE(same_bits(decoded(OutputEncoding::kF32, encoded(OutputEncoding::kF32, y), 96), y));
    const auto f16 = decoded(OutputEncoding::kF16, encoded(OutputEncoding::kF16, y), 96);
    const auto q8 = decoded(OutputEncoding::kQ8, encoded(OutputEncoding::kQ8, y), 96);
    for (size_t i = 0; i < y.size(); ++i) {
      // 11 significant bits; below 2^-28 of the largest there are subnormal halves.
      ASSERT_LE(std::fabs(f16[i] - y[i]), std::fabs(y[i]) * 0x1p-11F + largest * 0x1p-38F)
          << "2^" << exponent << " value " << i;
      // Half a step of 1/127 of the block's largest, and the rounding of the scale to f16.
      ASSERT_LE(std::fabs(q8[i] - y[i]), largest / 127 * 0.57F) << "2^" << exponent << " " << i;
    }
  }
}

// The wire is part of the arithmetic: a second trip changes nothing, or an answer would depend on
// the number of hops.
TEST(Encoding, OfADecodedF16RowIsTheSameRow) {
  Random random(8);
  for (int round = 0; round < 200; ++round) {
    auto y = random_floats(random, 64, std::ldexp(1.0F, round - 98));
    ASSERT_TRUE(apply_encoding(kernels::scalar(), OutputEncoding::kF16, y,
                               encoded(OutputEncoding::kF16, y).data()));
    EXPECT_TRUE(same_bits(decoded(OutputEncoding::kF16, encoded(OutputEncoding::kF16, y), 64), y));
  }
}

TEST(Encoding, TakesARowBelowTheThresholdForZero) {
  const float below = std::nextafter(0x1p-100F, 0.0F);
  for (OutputEncoding encoding : {OutputEncoding::kF16, OutputEncoding::kQ8}) {
    std::vector<float> y(32, -below);
    for (std::byte byte : encoded(encoding, y)) EXPECT_EQ(byte, std::byte{0});
    y[3] = 0x1p-100F;
    const auto bytes = encoded(encoding, y);
    EXPECT_EQ(load_le<int16_t>(bytes.data()), -114);
    EXPECT_NEAR(decoded(encoding, bytes, 32)[3] * 0x1p100F, 1.0F, 0x1p-11F);
  }
}

TEST(Encoding, GivesTheSameBytesOnEveryInstructionSet) {
  Random random(9);
  for (int round = 0; round < 300; ++round) {
    const auto y =
        random_floats(random, 320, std::ldexp(1.0F, static_cast<int>(random() % 220) - 99));
    for (OutputEncoding encoding : kEncodings) {
      const auto expected = encoded(encoding, y);
      const auto row = decoded(encoding, expected, y.size());
      for (const kernels::KernelTable* table : all_tables()) {
        std::vector<std::byte> bytes(expected.size());
        encode(*table, encoding, y, bytes.data());
        ASSERT_EQ(bytes, expected) << table->name;
        std::vector<float> back(y.size());
        ASSERT_TRUE(decode(*table, encoding, bytes, back));
        ASSERT_TRUE(same_bits(back, row)) << table->name;
      }
    }
  }
}

// 2^128 (1 - 2^-24) rounds up to 2^128 as a half: the row must end the request, not become
// infinite.
TEST(Encoding, OfTheLargestFloatIsRefused) {
  std::vector<float> y(32, std::numeric_limits<float>::max());
  std::vector<std::byte> scratch(encoded_bytes(OutputEncoding::kF16, 32));
  EXPECT_FALSE(apply_encoding(kernels::scalar(), OutputEncoding::kF16, y, scratch.data()));
  y.assign(32, 0x1p127F);
  EXPECT_TRUE(apply_encoding(kernels::scalar(), OutputEncoding::kF16, y, scratch.data()));
  EXPECT_EQ(y[0], 0x1p127F);
}

TEST(Decoding, RefusesExponentsThatNoRowHas) {
  for (OutputEncoding encoding : {OutputEncoding::kF16, OutputEncoding::kQ8}) {
    std::vector<std::byte> bytes(encoded_bytes(encoding, 32));
    for (int exponent : {-114, -113, 0, 113}) {
      store_le(bytes.data(), static_cast<int16_t>(exponent));
      EXPECT_EQ(decode_error(encoding, bytes, 32), "accepted") << exponent;
    }
    for (int exponent : {-32768, -115, 114, 32767}) {
      store_le(bytes.data(), static_cast<int16_t>(exponent));
      EXPECT_THAT(decode_error(encoding, bytes, 32), HasSubstr("exponent")) << exponent;
    }
  }
}

TEST(Decoding, RefusesValuesThatAreNotFinite) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    std::vector<std::byte> bytes(encoded_bytes(OutputEncoding::kF32, 32));
    store_le(bytes.data() + 4 * 31, bad);
    EXPECT_THAT(decode_error(OutputEncoding::kF32, bytes, 32), HasSubstr("not finite"));
  }
  for (uint16_t bad : {0x7C00, 0xFC00, 0x7C01, 0x7FFF, 0xFFFF}) {
    std::vector<std::byte> bytes(encoded_bytes(OutputEncoding::kF16, 32));
    store_le(bytes.data() + 2 + 2 * 31, bad);
    EXPECT_THAT(decode_error(OutputEncoding::kF16, bytes, 32), HasSubstr("not finite"));
  }
  // Finite as a half, infinite with its exponent.
  std::vector<std::byte> bytes(encoded_bytes(OutputEncoding::kF16, 32));
  store_le(bytes.data(), int16_t{113});
  store_le(bytes.data() + 2, uint16_t{0x7BFF});
  EXPECT_THAT(decode_error(OutputEncoding::kF16, bytes, 32), HasSubstr("not finite"));
}

TEST(Decoding, RefusesQ8ValuesThatNoEncoderWrites) {
  std::vector<std::byte> good(encoded_bytes(OutputEncoding::kQ8, 64));
  store_le(good.data() + 2 + 34, uint16_t{0x3C00});
  EXPECT_EQ(decode_error(OutputEncoding::kQ8, good, 64), "accepted");
  for (uint16_t bad : {0x7C00, 0x7E00, 0x8000, 0xBC00, 0xFC00, 0xFFFF}) {
    auto bytes = good;
    store_le(bytes.data() + 2 + 34, bad);
    EXPECT_THAT(decode_error(OutputEncoding::kQ8, bytes, 64), HasSubstr("scale")) << bad;
  }
  auto bytes = good;
  bytes[2 + 34 + 2 + 31] = std::byte{0x80};
  EXPECT_THAT(decode_error(OutputEncoding::kQ8, bytes, 64), HasSubstr("value 63 is -128"));
}

// Any bytes at all: accepted with finite values, or refused as corrupt.
TEST(Decoding, SurvivesRandomBytes) {
  Random random(10);
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    const OutputEncoding encoding = kEncodings[static_cast<size_t>(round) % 3];
    std::vector<std::byte> bytes(encoded_bytes(encoding, 32));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (encoding != OutputEncoding::kF32)
      store_le(bytes.data(), static_cast<int16_t>(static_cast<int>(random() % 240) - 120));
    std::vector<float> y(32);
    auto result = decode(kernels::scalar(), encoding, bytes, y);
    if (!result) {
      EXPECT_EQ(result.error().kind, ErrorKind::kCorrupt);
      continue;
    }
    ++accepted;
    for (float value : y) EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace kvasir::expert
