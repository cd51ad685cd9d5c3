#include "kernels/canonical_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/test_hash.h"

namespace kvasir::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// |got - want| in units of the last place of an f32 of want's size.
double ulp_error(float got, double want) {
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(static_cast<double>(got) - want) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

// The largest error over every `step`th float between two of one sign.
template <typename Got, typename Want>
double worst_ulp_error(float from, float to, Got got, Want want) {
  constexpr uint32_t kStep = 4001;
  double worst = 0;
  for (uint64_t bits = std::bit_cast<uint32_t>(from); bits <= std::bit_cast<uint32_t>(to);
       bits += kStep) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    worst = std::max(worst, ulp_error(got(x), want(static_cast<double>(x))));
  }
  return worst;
}

// The bounds are those measured over every float of the range, rounded up; see docs/arithmetic.md.
TEST(CanonicalMath, StaysWithinItsBounds) {
  const auto exp = [](double x) { return std::exp(x); };
  const auto log = [](double x) { return std::log(x); };
  const auto log1p = [](double x) { return std::log1p(x); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  const float tiny = 0x1p-126f;
  EXPECT_LE(worst_ulp_error(0.0f, 88.0f, canonical_exp, exp), 1.17);
  EXPECT_LE(worst_ulp_error(-0.0f, -87.0f, canonical_exp, exp), 1.17);
  EXPECT_LE(worst_ulp_error(tiny, 3.4e38f, canonical_log, log), 0.96);
  EXPECT_LE(worst_ulp_error(0.0f, 0x1p30f, canonical_log1p, log1p), 1.33);
  EXPECT_LE(worst_ulp_error(0.0f, 100.0f, canonical_sigmoid, sigmoid), 1.5);
  EXPECT_LE(worst_ulp_error(-0.0f, -87.0f, canonical_sigmoid, sigmoid), 2.49);
  EXPECT_LE(worst_ulp_error(tiny, 100.0f, canonical_silu, silu), 1.52);
  EXPECT_LE(worst_ulp_error(-tiny, -87.0f, canonical_silu, silu), 2.49);
  EXPECT_LE(worst_ulp_error(0.0f, 100.0f, canonical_softplus, softplus), 1.46);
  EXPECT_LE(worst_ulp_error(-0.0f, -87.0f, canonical_softplus, softplus), 2.1);
}

TEST(CanonicalMath, HasTheLimitsOfTheDefinition) {
  EXPECT_EQ(canonical_exp(0.0f), 1.0f);
  EXPECT_EQ(canonical_exp(-0.0f), 1.0f);
  EXPECT_GE(canonical_exp(-87.0f), std::numeric_limits<float>::min());
  EXPECT_EQ(canonical_exp(std::nextafter(-87.0f, -100.0f)), 0.0f);
  EXPECT_TRUE(std::isfinite(canonical_exp(88.0f)));
  EXPECT_EQ(canonical_exp(std::nextafter(88.0f, 100.0f)), kInfinity);
  EXPECT_EQ(canonical_exp(-kInfinity), 0.0f);
  EXPECT_EQ(canonical_exp(kInfinity), kInfinity);
  EXPECT_EQ(canonical_exp(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_TRUE(std::isnan(canonical_exp(std::numeric_limits<float>::quiet_NaN())));

  EXPECT_EQ(canonical_log(1.0f), 0.0f);
  EXPECT_EQ(canonical_log(0.0f), -kInfinity);
  EXPECT_EQ(canonical_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(canonical_log(-1.0f)));
  EXPECT_LE(ulp_error(canonical_log(0x1p-149f), -149 * std::log(2.0)), 1.0);

  EXPECT_EQ(canonical_log1p(0.0f), 0.0f);
  EXPECT_EQ(canonical_sigmoid(0.0f), 0.5f);
  EXPECT_EQ(canonical_sigmoid(100.0f), 1.0f);
  EXPECT_EQ(canonical_sigmoid(-100.0f), 0.0f);
  EXPECT_EQ(canonical_silu(100.0f), 100.0f);
  EXPECT_EQ(canonical_silu(-100.0f), 0.0f);
  EXPECT_EQ(canonical_softplus(20.5f), 20.5f);
  EXPECT_EQ(canonical_softplus(-100.0f), 0.0f);

  EXPECT_EQ(canonical_exp2(10.0), 1024.0);
  EXPECT_EQ(canonical_exp2(-1022.0), 0x1p-1022);
  EXPECT_EQ(canonical_exp2(-1022.5), 0.0);
  EXPECT_EQ(canonical_exp2(1023.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(canonical_log2(0x1p-1074), -1074.0);
  EXPECT_EQ(canonical_log2(0x1p100), 100.0);
  EXPECT_EQ(canonical_log2(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(canonical_sin(0.0), 0.0);
  EXPECT_EQ(canonical_cos(0.0), 1.0);
  EXPECT_TRUE(std::isnan(canonical_sin(0x1.0000001p31)));
}

TEST(CanonicalMath, IsAccurateInDoublePrecision) {
  std::mt19937_64 random(1);
  const auto uniform = [&](double min, double max) {
    return min + (max - min) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  const auto ulp = [](double got, long double want) {
    int exponent = 0;
    std::frexp(want, &exponent);
    return std::fabs(static_cast<long double>(got) - want) / std::ldexp(1.0L, exponent - 53);
  };
  for (int i = 0; i < 100000; ++i) {
    const double small = uniform(-1, 1);
    const double large = uniform(-1022, 1022.9);
    ASSERT_LE(ulp(canonical_exp2(small), std::exp2(static_cast<long double>(small))), 1.2L);
    ASSERT_LE(ulp(canonical_exp2(large), std::exp2(static_cast<long double>(large))), 1.2L);
    for (const double x : {uniform(0.5, 2), std::exp2(large)}) {
      if (x == 1.0) continue;
      ASSERT_LE(ulp(canonical_log2(x), std::log2(static_cast<long double>(x))), 1.8L) << x;
    }
    for (const double x : {uniform(-4, 4), uniform(-0x1p31, 0x1p31),
                           std::ldexp(small, static_cast<int>(random() % 31))}) {
      const auto exact = static_cast<long double>(x);
      ASSERT_LE(std::fabs(static_cast<long double>(canonical_sin(x)) - std::sin(exact)), 2e-16L)
          << x;
      ASSERT_LE(std::fabs(static_cast<long double>(canonical_cos(x)) - std::cos(exact)), 2e-16L)
          << x;
    }
  }
}

template <typename Function>
uint64_t hash_over(float from, float to, Function function) {
  Hash hash;
  for (uint64_t bits = std::bit_cast<uint32_t>(from); bits <= std::bit_cast<uint32_t>(to);
       bits += 10007) {
    hash.add(function(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  }
  return hash.value();
}

// 50,001 values from min to max; 0x1.4f8b588e368f1p-16 is 1 / 50,000.
template <typename Function>
uint64_t hash_over_doubles(double min, double max, Function function) {
  Hash hash;
  for (int i = 0; i <= 50000; ++i)
    hash.add(function(min + (max - min) * (i * 0x1.4f8b588e368f1p-16)));
  return hash.value();
}

// A bit that changes in any of these changes logits: raise kArithmeticVersion with it.
TEST(CanonicalMath, GivesTheBitsOfArithmeticVersion1) {
  EXPECT_EQ(hash_over(0.0f, 90.0f, canonical_exp), 0xfba5d56c040ee7afu);
  EXPECT_EQ(hash_over(-0.0f, -90.0f, canonical_exp), 0x900386c714cd8fb6u);
  EXPECT_EQ(hash_over(0.0f, 3.4e38f, canonical_log), 0x1038e349ccda7428u);
  EXPECT_EQ(hash_over(0.0f, 0x1p30f, canonical_log1p), 0xa34f8702be325168u);
  EXPECT_EQ(hash_over(-0.0f, -90.0f, canonical_sigmoid), 0x3f82f32a2932a79du);
  EXPECT_EQ(hash_over(-0.0f, -90.0f, canonical_silu), 0xaed38c699a7351cfu);
  EXPECT_EQ(hash_over(-0.0f, -90.0f, canonical_softplus), 0x54f68ea6673fe485u);
  EXPECT_EQ(hash_over(0.0f, 25.0f, canonical_softplus), 0x0f74b0fda9e9fba2u);
  EXPECT_EQ(hash_over_doubles(-1023, 1023, canonical_exp2), 0x854d627f231405b9u);
  EXPECT_EQ(hash_over_doubles(0, 1000, canonical_log2), 0x7999479c3cce7201u);
  EXPECT_EQ(hash_over_doubles(-0x1p31, 0x1p31, canonical_sin), 0x2090f64f586eee4bu);
  EXPECT_EQ(hash_over_doubles(-1000, 1000, canonical_cos), 0xf93708a90a9e5803u);
}

TEST(RopeAngles, AreTheExactOnesRoundedOnce) {
  constexpr uint32_t kDims = 64;
  for (const uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{777}, uint64_t{262143}}) {
    float cos[kDims / 2];
    float sin[kDims / 2];
    rope_angles(position, 1e7, kDims, cos, sin);
    for (uint32_t i = 0; i < kDims / 2; ++i) {
      const long double exponent = -2.0L * i / kDims;
      const long double theta = static_cast<long double>(position) * std::pow(1e7L, exponent);
      // theta carries a few units of its last place: 2^18 * 2^-50.
      EXPECT_NEAR(cos[i], static_cast<double>(std::cos(theta)), 0x1p-25 + 1e-9)
          << position << " " << i;
      EXPECT_NEAR(sin[i], static_cast<double>(std::sin(theta)), 0x1p-25 + 1e-9)
          << position << " " << i;
    }
  }
}

TEST(RopeAngles, GiveTheBitsOfArithmeticVersion1) {
  Hash hash;
  for (uint64_t position = 0; position < 262144; position += 307) {
    float cos[16];
    float sin[16];
    rope_angles(position, 1e7, 32, cos, sin);
    for (const float value : cos) hash.add(value);
    for (const float value : sin) hash.add(value);
  }
  EXPECT_EQ(hash.value(), 0xe574c558f8e54777u);
}

// All halves, against the value their bits mean.
TEST(HalfPrecision, ReadsEveryHalf) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = f32_from_f16(static_cast<uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    const double sign = bits >> 15 != 0 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      continue;
    }
    const double want = exponent == 31  ? sign * std::numeric_limits<double>::infinity()
                        : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                        : sign * std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(std::signbit(got), sign < 0) << bits;
    ASSERT_EQ(f16_from_f32(got), bits) << bits;
  }
}

// Each pair of neighbouring halves a < b: what lies between goes to the nearer, the middle to the
// even.
TEST(HalfPrecision, RoundsToTheNearestHalfTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float a = f32_from_f16(static_cast<uint16_t>(bits));
    // Past the largest half, infinity stands where 65536 would be.
    const float b = bits == 0x7bff ? 65536.0f : f32_from_f16(static_cast<uint16_t>(bits + 1));
    const float middle = a + (b - a) / 2;
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const auto half = [&](float x) { return f16_from_f32(sign != 0 ? -x : x); };
      ASSERT_EQ(half(a), sign | bits);
      ASSERT_EQ(half(std::nextafter(middle, a)), sign | bits);
      ASSERT_EQ(half(middle), sign | even);
      ASSERT_EQ(half(std::nextafter(middle, b)), sign | (bits + 1));
    }
  }
  EXPECT_EQ(f16_from_f32(kInfinity), 0x7c00);
  EXPECT_EQ(f16_from_f32(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(f16_from_f32(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
  EXPECT_EQ(f16_from_f32(0x1p-149f), 0);
}

}  // namespace
}  // namespace kvasir::kernels
