// Rows on the wire: compact forms come back as the kernels made them, hostile ones are refused.
#include "wire/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/canonical_math.h"
#include "kernels/kernels.h"
#include "wire/test_bytes.h"

namespace kvasir::wire {
namespace {

using testing::HasSubstr;

constexpr ActivationFormat kFormats[] = {ActivationFormat::kF32, ActivationFormat::kQ8_0,
                                         ActivationFormat::kQ8_K};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_row(std::mt19937_64& random, size_t n) {
  std::vector<float> row(n);
  std::normal_distribution<float> value(0.0F, 1.0F);
  for (float& x : row) x = value(random);
  return row;
}

// As the kernels make it.
Bytes kernel_row(ActivationFormat format, const std::vector<float>& x) {
  Bytes row(kernels::activation_row_bytes(format, x.size()));
  if (format == ActivationFormat::kF32)
    std::memcpy(row.data(), x.data(), row.size());
  else if (format == ActivationFormat::kQ8_0)
    EXPECT_TRUE(kernels::scalar().quantize_q8_0(x.data(), x.size(),
                                                reinterpret_cast<kernels::BlockQ8_0*>(row.data())));
  else
    EXPECT_TRUE(kernels::scalar().quantize_q8_k(x.data(), x.size(),
                                                reinterpret_cast<kernels::BlockQ8K*>(row.data())));
  return row;
}

Bytes packed(ActivationFormat format, const std::vector<float>& x) {
  Bytes wire(row_bytes(format, x.size()));
  pack_row(format, kernel_row(format, x).data(), x.size(), wire.data());
  return wire;
}

TEST(Rows, WireFormsAreAsShortAsTheProtocolSays) {
  EXPECT_EQ(row_bytes(ActivationFormat::kF32, 3072), 12'288U);
  EXPECT_EQ(row_bytes(ActivationFormat::kQ8_0, 3072), 96U * 34);
  EXPECT_EQ(row_bytes(ActivationFormat::kQ8_K, 3072), 12U * 260);
  EXPECT_EQ(row_bytes(ResultEncoding::kF32, 3072), 12'288U);
  EXPECT_EQ(row_bytes(ResultEncoding::kF16, 3072), 6'146U);
  EXPECT_EQ(row_bytes(ResultEncoding::kQ8, 3072), 3'266U);
}

TEST(Rows, OneTicketHoldsWhatFitsOneResult) {
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kF32, 3072), 15U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kF16, 3072), 31U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kQ8, 3072), 58U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kF32, 2048), 23U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kF32, 48'128), 1U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kF32, 48'129), 0U);
  EXPECT_EQ(pairs_per_ticket(ResultEncoding::kQ8, 32), 1024U);
}

// The kernels' own blocks, sums included, come out again bit for bit.
TEST(Rows, ActivationsComeBackAsTheKernelsMadeThem) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    auto x = random_row(random, 768);
    if (round == 0) std::fill(x.begin(), x.end(), 0.0F);
    if (round == 1) std::fill(x.begin(), x.end(), -1e-3F);
    if (round == 2) x[300] = -3e4F;
    for (ActivationFormat format : kFormats) {
      const Bytes wire = packed(format, x);
      ASSERT_TRUE(check_row(format, wire, x.size()));
      Bytes again(kernels::activation_row_bytes(format, x.size()));
      unpack_row(format, wire, x.size(), again.data());
      EXPECT_EQ(again, kernel_row(format, x)) << "round " << round;
    }
  }
}

template <typename Format>
void expect_refused(Format format, const Bytes& row, size_t n, const char* reason) {
  auto checked = check_row(format, row, n);
  ASSERT_FALSE(checked) << reason;
  EXPECT_EQ(checked.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(checked.error().message, HasSubstr(reason));
}

TEST(Rows, HostileActivationsAreRefused) {
  std::mt19937_64 random(8);
  const auto x = random_row(random, 512);
  const Bytes f32 = packed(ActivationFormat::kF32, x);
  const Bytes q8_0 = packed(ActivationFormat::kQ8_0, x);
  const Bytes q8_k = packed(ActivationFormat::kQ8_K, x);
  for (float bad : {kInfinity, -kInfinity, std::nanf(""), -std::nanf("1")}) {
    expect_refused(ActivationFormat::kF32, with(f32, 0, bad), 512, "value 0 is not finite");
    expect_refused(ActivationFormat::kF32, with(f32, 2044, bad), 512, "value 511 is not finite");
    expect_refused(ActivationFormat::kQ8_K, with(q8_k, 260, bad), 512, "scale of block 1");
  }
  for (uint16_t bad : {0x7C00, 0x7C01, 0x7FFF, 0x8000, 0x8001, 0xBC00, 0xFC00, 0xFFFF})
    expect_refused(ActivationFormat::kQ8_0, with(q8_0, 34, bad), 512, "of block 1");
  for (size_t i : {0, 1, 31})
    expect_refused(ActivationFormat::kQ8_0, with(q8_0, 36 + i, int8_t{-128}), 512,
                   "block 1 holds -128");
  for (size_t i : {0, 1, 255})
    expect_refused(ActivationFormat::kQ8_K, with(q8_k, 264 + i, int8_t{-128}), 512,
                   "block 1 holds -128");
  EXPECT_TRUE(check_row(ActivationFormat::kQ8_K, with(q8_k, 4, int8_t{-127}), 512));
  EXPECT_TRUE(check_row(ActivationFormat::kQ8_0, with(q8_0, 0, uint16_t{0x7BFF}), 512));
}

TEST(Rows, HostileOutputsAreRefused) {
  const Bytes f32(64 * 4), f16(2 + 64 * 2), q8(2 + 2 * 34);
  expect_refused(ResultEncoding::kF32, with(f32, 252, kInfinity), 64, "value 63");
  for (int16_t bad : {-115, 114, INT16_MIN, INT16_MAX}) {
    expect_refused(ResultEncoding::kF16, with(f16, 0, bad), 64, "exponent");
    expect_refused(ResultEncoding::kQ8, with(q8, 0, bad), 64, "exponent");
  }
  for (uint16_t bad : {0x7C00, 0x7E00, 0xFC00, 0xFFFF})
    expect_refused(ResultEncoding::kF16, with(f16, 4, bad), 64, "value 1");
  expect_refused(ResultEncoding::kQ8, with(q8, 36, uint16_t{0x7C00}), 64, "of block 1");
  expect_refused(ResultEncoding::kQ8, with(q8, 36, uint16_t{0x8000}), 64, "of block 1");
  expect_refused(ResultEncoding::kQ8, with(q8, 38, int8_t{-128}), 64, "block 1 holds -128");
}

// What overflows is what the multiplication itself says, at every exponent that could.
TEST(Rows, OutputsThatOverflowAreRefusedAndNoOthers) {
  for (int exponent = 100; exponent <= 113; ++exponent) {
    const float scale = std::ldexp(1.0F, exponent);
    for (unsigned half = 0; half < 0x8000; half += half < 0x7000 ? 61 : 1) {
      const float value = kernels::f32_from_f16(static_cast<uint16_t>(half));
      Bytes f16(2 + 2);
      f16 = with(with(f16, 0, static_cast<int16_t>(exponent)), 2, static_cast<uint16_t>(half));
      EXPECT_EQ(check_row(ResultEncoding::kF16, f16, 1).has_value(), std::isfinite(value * scale))
          << exponent << ' ' << half;
      Bytes q8(2 + 34);
      q8 = with(with(q8, 0, static_cast<int16_t>(exponent)), 2, static_cast<uint16_t>(half));
      q8 = with(q8, 35, int8_t{-127});
      EXPECT_EQ(check_row(ResultEncoding::kQ8, q8, 32).has_value(),
                std::isfinite(value * -127.0F * scale))
          << exponent << ' ' << half;
    }
  }
}

TEST(Rows, CodesBeyondTheLastAreNotKnown) {
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(find_row_format(static_cast<uint8_t>(code)).has_value(), code <= 2);
    EXPECT_EQ(find_result_encoding(static_cast<uint8_t>(code)).has_value(), code <= 2);
  }
}

TEST(Rows, LengthsThatAreNoWholeBlocksAreNoRows) {
  for (size_t n : {1, 31, 33, 255, 257}) {
    EXPECT_TRUE(is_row_length(ActivationFormat::kF32, n));
    EXPECT_FALSE(is_row_length(ActivationFormat::kQ8_K, n));
    EXPECT_FALSE(is_row_length(ActivationFormat::kQ8_0, n));
    EXPECT_FALSE(is_row_length(ResultEncoding::kQ8, n));
  }
  EXPECT_FALSE(is_row_length(ActivationFormat::kF32, 0));
  EXPECT_FALSE(is_row_length(ResultEncoding::kF16, 0));
  EXPECT_TRUE(is_row_length(ActivationFormat::kQ8_0, 32));
}

}  // namespace
}  // namespace kvasir::wire
