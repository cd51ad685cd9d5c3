// simd_f32.h for NEON: four registers. AArch64 converts f16 in every processor; the only setting it
// asks for is the canonical floating-point environment (base/fp_environment.h).
#pragma once

#include "kernels/simd_int.h"

namespace kvasir::kernels {
namespace {

using Floats4 = float32x4_t;

KVASIR_INLINE Floats4 all4(float x) {
  return vdupq_n_f32(x);
}
KVASIR_INLINE void store4(float* p, Floats4 v) {
  vst1q_f32(p, v);
}

struct F32x16 {
  Floats low, high;
};

KVASIR_INLINE F32x16 splat(float x) {
  return {all_floats(x), all_floats(x)};
}
KVASIR_INLINE F32x16 load16(const float* p) {
  return {bits_as_floats(load(p)), bits_as_floats(load(p + 8))};
}
KVASIR_INLINE void store16(float* p, F32x16 a) {
  store4(p, a.low.low);
  store4(p + 4, a.low.high);
  store4(p + 8, a.high.low);
  store4(p + 12, a.high.high);
}

KVASIR_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {a.low + b.low, a.high + b.high};
}
KVASIR_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {a.low - b.low, a.high - b.high};
}
KVASIR_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {a.low * b.low, a.high * b.high};
}
KVASIR_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {a.low / b.low, a.high / b.high};
}

// What is the same for each of the four registers.
template <typename F>
KVASIR_INLINE F32x16 each(F32x16 a, F f) {
  return {{f(a.low.low), f(a.low.high)}, {f(a.high.low), f(a.high.high)}};
}
template <typename F>
KVASIR_INLINE F32x16 each(F32x16 a, F32x16 b, F f) {
  return {{f(a.low.low, b.low.low), f(a.low.high, b.low.high)},
          {f(a.high.low, b.high.low), f(a.high.high, b.high.high)}};
}

KVASIR_INLINE F32x16 negate(F32x16 a) {
  return each(
      a, [](float32x4_t v) __attribute__((always_inline)) { return vnegq_f32(v); });
}
KVASIR_INLINE F32x16 larger(F32x16 a, F32x16 b) {
  return each(
      a, b,
      [](float32x4_t v, float32x4_t w) __attribute__((always_inline)) { return vmaxq_f32(v, w); });
}

// (bits << 23) + add, as a float.
KVASIR_INLINE F32x16 exponent_from_low_bits(F32x16 a, int add) {
  const uint32x4_t added = vdupq_n_u32(static_cast<uint32_t>(add));
  return each(
      a, [added](float32x4_t v) __attribute__((always_inline)) {
        const uint32x4_t bits = vshlq_n_u32(vreinterpretq_u32_f32(v), 23);
        return vreinterpretq_f32_u32(vaddq_u32(bits, added));
      });
}
// a < b ? x : y
KVASIR_INLINE Floats select_if_less(Floats a, Floats b, Floats x, Floats y) {
  return {vbslq_f32(vcltq_f32(a.low, b.low), x.low, y.low),
          vbslq_f32(vcltq_f32(a.high, b.high), x.high, y.high)};
}
KVASIR_INLINE F32x16 select_if_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {select_if_less(a.low, b.low, x.low, y.low),
          select_if_less(a.high, b.high, x.high, y.high)};
}

// The first n elements, n < 16; the others are zero and not read (not written).
KVASIR_INLINE F32x16 load16_first(const float* p, size_t n) {
  float values[16] = {};
  __builtin_memcpy(values, p, n * sizeof(float));
  return load16(values);
}
KVASIR_INLINE void store16_first(float* p, size_t n, F32x16 a) {
  float values[16];
  store16(values, a);
  __builtin_memcpy(p, values, n * sizeof(float));
}

KVASIR_INLINE F32x16 load16_f16(const void* p) {
  const TwoLanes halves = load256(p);
  return {floats_of_f16(u16(halves.low)), floats_of_f16(u16(halves.high))};
}
KVASIR_INLINE void store16_f16(void* p, F32x16 a) {
  const auto half = [](Floats v) __attribute__((always_inline)) {
    return lane(vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(v.low)),
                             vreinterpret_u16_f16(vcvt_f16_f32(v.high))));
  };
  store(p, {half(a.low), half(a.high)});
}
KVASIR_INLINE F32x16 load16_bf16(const void* p) {
  const TwoLanes halves = load256(p);
  const auto half = [](uint16x8_t v) __attribute__((always_inline)) {
    const uint16x8_t none = vdupq_n_u16(0);
    return Floats{vreinterpretq_f32_u16(vzip1q_u16(none, v)),
                  vreinterpretq_f32_u16(vzip2q_u16(none, v))};
  };
  return {half(u16(halves.low)), half(u16(halves.high))};
}

// The folds of rule16: 16 -> 8 -> 4, then down to one float.
KVASIR_INLINE Floats4 fold_to_4(F32x16 a) {
  const Floats folded = a.low + a.high;
  return vaddq_f32(folded.low, folded.high);
}
KVASIR_INLINE float fold(F32x16 a) {
  const float32x4_t v = fold_to_4(a);
  return vpadds_f32(vadd_f32(vget_low_f32(v), vget_high_f32(v)));
}
// The same for four sums at once: element i is fold(a[i]).
KVASIR_INLINE Floats4 fold_four(const F32x16* a) {
  const float32x4_t a0 = fold_to_4(a[0]);
  const float32x4_t a1 = fold_to_4(a[1]);
  const float32x4_t a2 = fold_to_4(a[2]);
  const float32x4_t a3 = fold_to_4(a[3]);
  // Elements 0 and 1 of two sums each, plus their elements 2 and 3.
  const auto folded = [](float32x4_t x, float32x4_t y) __attribute__((always_inline)) {
    return vaddq_f32(vcombine_f32(vget_low_f32(x), vget_low_f32(y)),
                     vcombine_f32(vget_high_f32(x), vget_high_f32(y)));
  };
  return vpaddq_f32(folded(a0, a1), folded(a2, a3));
}

struct I32x16 {
  int32x4_t v[4];
};
// Nearest integers, ties to even.
KVASIR_INLINE I32x16 round_to_even(F32x16 a) {
  return {vcvtnq_s32_f32(a.low.low), vcvtnq_s32_f32(a.low.high), vcvtnq_s32_f32(a.high.low),
          vcvtnq_s32_f32(a.high.high)};
}
template <typename F>
KVASIR_INLINE I32x16 each(I32x16 a, I32x16 b, F f) {
  return {f(a.v[0], b.v[0]), f(a.v[1], b.v[1]), f(a.v[2], b.v[2]), f(a.v[3], b.v[3])};
}
KVASIR_INLINE I32x16 at_most_127(I32x16 a) {
  const int32x4_t limit = vdupq_n_s32(127);
  return each(
      a, a, [limit](int32x4_t v, int32x4_t) __attribute__((always_inline)) {
        return vminq_s32(v, limit);
      });
}
// For values in -128..127.
KVASIR_INLINE void store16_bytes(int8_t* p, I32x16 a) {
  const auto to_words = [](int32x4_t v, int32x4_t w) __attribute__((always_inline)) {
    return vcombine_s16(vmovn_s32(v), vmovn_s32(w));
  };
  vst1q_s8(p,
           vcombine_s8(vmovn_s16(to_words(a.v[0], a.v[1])), vmovn_s16(to_words(a.v[2], a.v[3]))));
}

// The bits of |a|: as integers they are ordered like the magnitudes, infinity and NaN above all.
KVASIR_INLINE I32x16 magnitude_bits(F32x16 a) {
  const auto bits = [](float32x4_t v) __attribute__((always_inline)) {
    return vreinterpretq_s32_f32(vabsq_f32(v));
  };
  return {bits(a.low.low), bits(a.low.high), bits(a.high.low), bits(a.high.high)};
}
KVASIR_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return each(
      a, b,
      [](int32x4_t v, int32x4_t w) __attribute__((always_inline)) { return vmaxq_s32(v, w); });
}
KVASIR_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return each(
      a, b,
      [](int32x4_t v, int32x4_t w) __attribute__((always_inline)) { return vaddq_s32(v, w); });
}
// Bit i: element i is x.
KVASIR_INLINE uint32_t which_are(I32x16 a, int x) {
  const int32x4_t wanted = vdupq_n_s32(x);
  uint32_t bits = 0;
  KVASIR_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t own_bit = {1, 2, 4, 8};
    bits |= vaddvq_u32(vandq_u32(vceqq_s32(a.v[i], wanted), own_bit)) << 4 * i;
  }
  return bits;
}
KVASIR_INLINE int largest(I32x16 a) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.v[0], a.v[1]), vmaxq_s32(a.v[2], a.v[3])));
}
KVASIR_INLINE int sum_of(I32x16 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
}

KVASIR_INLINE float square_root(float x) {
  return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0);
}
KVASIR_INLINE float float_of_bits(int bits) {
  return vget_lane_f32(vreinterpret_f32_s32(vdup_n_s32(bits)), 0);
}
// x to the nearest f16, ties to even, and back. False if that is infinite.
KVASIR_INLINE bool round_to_f16(float x, float& rounded) {
  const float16x4_t half = vcvt_f16_f32(vdupq_n_f32(x));
  if ((vget_lane_u16(vreinterpret_u16_f16(half), 0) & 0x7fff) == 0x7c00) return false;
  rounded = vgetq_lane_f32(vcvt_f32_f16(half), 0);
  return true;
}

// Looks for f16 that are not finite.
class NonFiniteF16 {
 public:
  KVASIR_INLINE void look_at_16(const void* p) {
    const uint16x8_t mask = vdupq_n_u16(0x7c00);
    const TwoLanes halves = load256(p);
    found_ = vorrq_u16(found_, vceqq_u16(vandq_u16(u16(halves.low), mask), mask));
    found_ = vorrq_u16(found_, vceqq_u16(vandq_u16(u16(halves.high), mask), mask));
  }
  KVASIR_INLINE bool found() const { return vmaxvq_u16(found_) != 0; }

 private:
  uint16x8_t found_ = vdupq_n_u16(0);
};

}  // namespace
}  // namespace kvasir::kernels
