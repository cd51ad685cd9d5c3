// Every function is a fixed sequence of IEEE operations, each rounded on its own. Bounds were
// measured: the f32 ones against binary64 results over every float of the range named
// (canonical_math_test.cc repeats a sample), the f64 ones against long double on random arguments.
#include "kernels/canonical_math.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/bit_cast.h"
#include "kernels/exp_constants.h"

namespace kvasir::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ((c[n-1] * x + c[n-2]) * x + ...) * x + c[0]
template <typename T, size_t n>
T horner(const T (&c)[n], T x) {
  T sum = c[n - 1];
  for (size_t k = n - 1; k > 0; --k) sum = sum * x + c[k - 1];
  return sum;
}

}  // namespace

float canonical_exp(float x) {
  const float t = x * kLog2E + kExpRound;
  const float n = t - kExpRound;
  const float r = (x - n * kLn2Hi) - n * kLn2Lo;
  float p = kExp6;
  p = p * r + kExp5;
  p = p * r + kExp4;
  p = p * r + kExp3;
  p = p * r + kExp2;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float y = p * bit_cast<float>((bit_cast<uint32_t>(t) << 23) + kExpOneBits);
  return x < kExpMin ? 0.0f : x > kExpMax ? kInfinity : y;
}

namespace {

// log(1 + f) = 2 artanh(s), s = f / (2 + f), is f - s * (f - R(s^2)) with R(z) = 2/3 z + 2/5 z^2 +
// ...: f is exact, so that only a small term is rounded.
constexpr float kLogSeries[] = {0.0f, 0x1.555556p-1f, 0x1.99999ap-2f, 0x1.24924ap-2f,
                                0x1.c71c72p-3f};

}  // namespace

float canonical_log(float x) {
  if (x == 0.0f) return -kInfinity;
  if (!(x > 0.0f)) return kNan;
  if (x == kInfinity) return x;
  float e = 0.0f;
  if (x < 0x1p-126f) {  // subnormal
    x = x * 0x1p+24f;
    e = -24.0f;
  }
  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)); 0x3f3504f3 is sqrt(1/2).
  const uint32_t offset = bit_cast<uint32_t>(x) - 0x3f3504f3u;
  const int32_t k = static_cast<int32_t>(offset) >> 23;
  const float m = bit_cast<float>(bit_cast<uint32_t>(x) - (static_cast<uint32_t>(k) << 23));
  e = e + static_cast<float>(k);
  const float f = m - 1.0f;
  const float s = f / (2.0f + f);
  const float low = s * (f - horner(kLogSeries, s * s)) - e * kLn2Lo;
  return e * kLn2Hi + (f - low);
}

float canonical_log1p(float x) {
  // log(1 + x) of the rounded sum u, corrected by what the rounding lost: c / u.
  const float u = 1.0f + x;
  const float c = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  return canonical_log(u) + c / u;
}

float canonical_sigmoid(float x) {
  return 1.0f / (1.0f + canonical_exp(-x));
}

float canonical_silu(float x) {
  return x / (1.0f + canonical_exp(-x));
}

float canonical_softplus(float x) {
  return x > 20.0f ? x : canonical_log1p(canonical_exp(x));
}

namespace {

// 1.5 * 2^52: adding it leaves the nearest integer, ties to even, in the low bits of the sum.
constexpr double kRound = 0x1.8p+52;
constexpr double kInfinity64 = std::numeric_limits<double>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();

// 2^f = sum of (ln 2)^k / k! * f^k. The first term left out is below 4.2e-18 for |f| <= 1/2.
constexpr double kExp2Series[] = {
    1.0,
    0x1.62e42fefa39efp-1,
    0x1.ebfbdff82c58fp-3,
    0x1.c6b08d704a0c0p-5,
    0x1.3b2ab6fba4e77p-7,
    0x1.5d87fe78a6731p-10,
    0x1.430912f86c787p-13,
    0x1.ffcbfc588b0c7p-17,
    0x1.62c0223a5c824p-20,
    0x1.b5253d395e7c4p-24,
    0x1.e4cf5158b8ecap-28,
    0x1.e8cac7351bb25p-32,
    0x1.c3bd650fc2986p-36,
    0x1.816193166d0f9p-40,
};

// As kLogSeries, to 2/21: the first term left out is below 1e-17 relative to 2 s.
constexpr double kLog64Series[] = {
    0.0,
    0x1.5555555555555p-1,
    0x1.999999999999ap-2,
    0x1.2492492492492p-2,
    0x1.c71c71c71c71cp-3,
    0x1.745d1745d1746p-3,
    0x1.3b13b13b13b14p-3,
    0x1.1111111111111p-3,
    0x1.e1e1e1e1e1e1ep-4,
    0x1.af286bca1af28p-4,
    0x1.8618618618618p-4,
};
constexpr double kLog2E64 = 0x1.71547652b82fep+0;

// sin r = r + r * z * S(z) and cos r = C(z) with z = r^2, |r| <= pi / 4.
constexpr double kSinSeries[] = {
    -0x1.5555555555555p-3,  0x1.1111111111111p-7,  -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
    -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33, -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49,
};
constexpr double kCosSeries[] = {
    1.0,
    -0x1p-1,
    0x1.5555555555555p-5,
    -0x1.6c16c16c16c17p-10,
    0x1.a01a01a01a01ap-16,
    -0x1.27e4fb7789f5cp-22,
    0x1.1eed8eff8d898p-29,
    -0x1.93974a8c07c9dp-37,
    0x1.ae7f3e733b81fp-45,
};

// pi / 2 in four parts; the first three have 22 bits at most, so that n times one of them is exact
// for |n| < 2^31.
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPi[] = {0x1.921fbp+0, 0x1.5110bp-22, 0x1.1846980p-44, 0x1.3198a2e037073p-69};
constexpr double kAngleMax = 0x1p+31;

// sin(x + quadrant * pi / 2) for |x| <= 2^31.
double sin_shifted(double x, uint64_t quadrant) {
  if (!(std::fabs(x) <= kAngleMax)) return kNan64;
  const double t = x * kTwoOverPi + kRound;
  const double n = t - kRound;
  const double r = (((x - n * kHalfPi[0]) - n * kHalfPi[1]) - n * kHalfPi[2]) - n * kHalfPi[3];
  quadrant += bit_cast<uint64_t>(t);
  const double z = r * r;
  const double y = quadrant % 2 == 0 ? r + (r * z) * horner(kSinSeries, z) : horner(kCosSeries, z);
  return quadrant % 4 >= 2 ? -y : y;
}

}  // namespace

double canonical_exp2(double x) {
  if (x < -1022.0) return 0.0;
  if (x >= 1023.0) return kInfinity64;
  const double t = x + kRound;
  const double f = x - (t - kRound);
  const uint64_t power_bits = (bit_cast<uint64_t>(t) << 52) + 0x3ff0000000000000u;
  return horner(kExp2Series, f) * bit_cast<double>(power_bits);
}

double canonical_log2(double x) {
  if (x == 0.0) return -kInfinity64;
  if (!(x > 0.0)) return kNan64;
  if (x == kInfinity64) return x;
  double e = 0.0;
  if (x < 0x1p-1022) {  // subnormal
    x = x * 0x1p+54;
    e = -54.0;
  }
  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)); 0x3fe6a09e667f3bcd is sqrt(1/2).
  const uint64_t offset = bit_cast<uint64_t>(x) - 0x3fe6a09e667f3bcdu;
  const int64_t k = static_cast<int64_t>(offset) >> 52;
  const double m = bit_cast<double>(bit_cast<uint64_t>(x) - (static_cast<uint64_t>(k) << 52));
  e = e + static_cast<double>(k);
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  return e + (f - s * (f - horner(kLog64Series, s * s))) * kLog2E64;
}

double canonical_sin(double x) {
  return sin_shifted(x, 0);
}
double canonical_cos(double x) {
  return sin_shifted(x, 1);
}

uint16_t f16_from_f32(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half = 0;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x1ff);  // NaN, made quiet
  } else if (magnitude >= 0x477ff000) {
    half = 0x7c00;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000) {
    // Normal: rebias the exponent by 15 - 127, round the 13 bits that go, ties to even.
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {
    // Subnormal or zero: units of 2^-24, which is the unit in the last place of 0.5.
    half = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  }
  return static_cast<uint16_t>(sign | half);
}

float f32_from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} << 16 & 0x80000000;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) {
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    return bit_cast<float>(sign | 0x7f800000 | magnitude << 13 | quiet);
  }
  // The bits in the place of an f32's, its exponent off by 127 - 15; subnormals come right too.
  const float value = bit_cast<float>(magnitude << 13) * 0x1p+112f;
  return bit_cast<float>(bit_cast<uint32_t>(value) | sign);
}

void rope_angles(uint64_t position, double base, uint32_t n_dims, float* cos, float* sin) {
  const double log2_base = canonical_log2(base);
  for (uint32_t i = 0; i < n_dims / 2; ++i) {
    const double exponent = static_cast<double>(2 * uint64_t{i}) / static_cast<double>(n_dims);
    const double theta = static_cast<double>(position) * canonical_exp2(-(exponent * log2_base));
    cos[i] = static_cast<float>(canonical_cos(theta));
    sin[i] = static_cast<float>(canonical_sin(theta));
  }
}

}  // namespace kvasir::kernels
