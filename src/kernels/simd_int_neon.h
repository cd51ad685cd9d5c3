// simd_int.h for NEON: a vector is two registers. With or without the dot-product extension, by the
// flags that the including file is compiled with.
#pragma once

#include <arm_neon.h>

#include "kernels/simd_common.h"

namespace kvasir::kernels {
namespace {

// One lane, and two of them, which here is a whole vector.
using Lane = uint8x16_t;
struct Ints {
  Lane low, high;
};
using TwoLanes = Ints;
struct Floats {
  float32x4_t low, high;
};
inline constexpr int kLanes = 2;

// The elements of a lane, and back.
KVASIR_INLINE int8x16_t s8(Lane v) {
  return vreinterpretq_s8_u8(v);
}
KVASIR_INLINE int16x8_t s16(Lane v) {
  return vreinterpretq_s16_u8(v);
}
KVASIR_INLINE uint16x8_t u16(Lane v) {
  return vreinterpretq_u16_u8(v);
}
KVASIR_INLINE int32x4_t s32(Lane v) {
  return vreinterpretq_s32_u8(v);
}
KVASIR_INLINE uint32x4_t u32(Lane v) {
  return vreinterpretq_u32_u8(v);
}
KVASIR_INLINE uint64x2_t u64(Lane v) {
  return vreinterpretq_u64_u8(v);
}
KVASIR_INLINE Lane lane(int8x16_t v) {
  return vreinterpretq_u8_s8(v);
}
KVASIR_INLINE Lane lane(int16x8_t v) {
  return vreinterpretq_u8_s16(v);
}
KVASIR_INLINE Lane lane(uint16x8_t v) {
  return vreinterpretq_u8_u16(v);
}
KVASIR_INLINE Lane lane(int32x4_t v) {
  return vreinterpretq_u8_s32(v);
}
KVASIR_INLINE Lane lane(uint32x4_t v) {
  return vreinterpretq_u8_u32(v);
}
KVASIR_INLINE Lane lane(uint64x2_t v) {
  return vreinterpretq_u8_u64(v);
}

KVASIR_INLINE Lane load128(const void* p) {
  return vld1q_u8(static_cast<const uint8_t*>(p));
}
KVASIR_INLINE TwoLanes load256(const void* p) {
  const uint8_t* bytes = static_cast<const uint8_t*>(p);
  return {load128(bytes), load128(bytes + 16)};
}
// In memory order.
KVASIR_INLINE Lane lane8(int b0, int b1, int b2, int b3, int b4, int b5, int b6, int b7, int b8,
                         int b9, int b10, int b11, int b12, int b13, int b14, int b15) {
  const auto byte = [](int b) __attribute__((always_inline)) {
    return static_cast<uint8_t>(b);
  };
  return Lane{byte(b0), byte(b1), byte(b2),  byte(b3),  byte(b4),  byte(b5),  byte(b6),  byte(b7),
              byte(b8), byte(b9), byte(b10), byte(b11), byte(b12), byte(b13), byte(b14), byte(b15)};
}
KVASIR_INLINE Lane lane16(short a, short b, short c, short d, short e, short f, short g, short h) {
  return lane(int16x8_t{a, b, c, d, e, f, g, h});
}
KVASIR_INLINE Lane lane32(int a, int b, int c, int d) {
  return lane(int32x4_t{a, b, c, d});
}
KVASIR_INLINE Lane lane64(uint64_t a, uint64_t b) {
  return lane(uint64x2_t{a, b});
}
KVASIR_INLINE Lane low_lane(TwoLanes v) {
  return v.low;
}
KVASIR_INLINE Lane high_lane(TwoLanes v) {
  return v.high;
}
// Sums of neighbouring 16-bit elements, those of a first.
KVASIR_INLINE Lane add_neighbours16(Lane a, Lane b) {
  return lane(vpaddq_s16(s16(a), s16(b)));
}
// The 16-bit elements 0, 2, 4, ... in the low lane, the others in the high one.
KVASIR_INLINE TwoLanes even_odd16(TwoLanes v) {
  return {lane(vuzp1q_u16(u16(v.low), u16(v.high))), lane(vuzp2q_u16(u16(v.low), u16(v.high)))};
}

KVASIR_INLINE Ints all_lanes(Lane v) {
  return {v, v};
}
KVASIR_INLINE Ints zero() {
  return all_lanes(vdupq_n_u8(0));
}
KVASIR_INLINE Ints load(const void* p) {
  return load256(p);
}
KVASIR_INLINE void store(void* p, Ints v) {
  uint8_t* bytes = static_cast<uint8_t*>(p);
  vst1q_u8(bytes, v.low);
  vst1q_u8(bytes + 16, v.high);
}
KVASIR_INLINE Ints all8(int x) {
  return all_lanes(vdupq_n_u8(static_cast<uint8_t>(x)));
}
KVASIR_INLINE Ints all16(int x) {
  return all_lanes(lane(vdupq_n_s16(static_cast<int16_t>(x))));
}
KVASIR_INLINE Ints all32(int x) {
  return all_lanes(lane(vdupq_n_s32(x)));
}
KVASIR_INLINE Ints bit_and(Ints a, Ints b) {
  return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)};
}
KVASIR_INLINE Ints bit_or(Ints a, Ints b) {
  return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)};
}
KVASIR_INLINE Ints add8(Ints a, Ints b) {
  return {vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)};
}
KVASIR_INLINE Ints add16(Ints a, Ints b) {
  return {lane(vaddq_u16(u16(a.low), u16(b.low))), lane(vaddq_u16(u16(a.high), u16(b.high)))};
}
KVASIR_INLINE Ints add32(Ints a, Ints b) {
  return {lane(vaddq_u32(u32(a.low), u32(b.low))), lane(vaddq_u32(u32(a.high), u32(b.high)))};
}
KVASIR_INLINE Ints sub32(Ints a, Ints b) {
  return {lane(vsubq_u32(u32(a.low), u32(b.low))), lane(vsubq_u32(u32(a.high), u32(b.high)))};
}
KVASIR_INLINE Ints mul16(Ints a, Ints b) {
  return {lane(vmulq_u16(u16(a.low), u16(b.low))), lane(vmulq_u16(u16(a.high), u16(b.high)))};
}
// Indices are 0..15, or have the highest bit set for a zero.
KVASIR_INLINE Ints shuffle8(Ints v, Ints index) {
  return {vqtbl1q_u8(v.low, index.low), vqtbl1q_u8(v.high, index.high)};
}
// For counts from 0 to 31 (63). Shifts to the right are shifts to the left by negative counts.
KVASIR_INLINE Ints shift_left32(Ints v, Ints n) {
  return {lane(vshlq_u32(u32(v.low), s32(n.low))), lane(vshlq_u32(u32(v.high), s32(n.high)))};
}
KVASIR_INLINE Ints shift_right32(Ints v, Ints n) {
  return shift_left32(v, sub32(zero(), n));
}
KVASIR_INLINE Ints shift_right64(Ints v, Ints n) {
  const auto right = [](Lane x, Lane count) __attribute__((always_inline)) {
    return lane(vshlq_u64(u64(x), vnegq_s64(vreinterpretq_s64_u8(count))));
  };
  return {right(v.low, n.low), right(v.high, n.high)};
}
template <int n>
KVASIR_INLINE Ints shift_right16(Ints v) {
  if constexpr (n == 0)
    return v;
  else
    return {lane(vshrq_n_u16(u16(v.low), n)), lane(vshrq_n_u16(u16(v.high), n))};
}
template <int n>
KVASIR_INLINE Ints shift_left16(Ints v) {
  return {lane(vshlq_n_u16(u16(v.low), n)), lane(vshlq_n_u16(u16(v.high), n))};
}
template <int n>
KVASIR_INLINE Ints shift_left32(Ints v) {
  return {lane(vshlq_n_u32(u32(v.low), n)), lane(vshlq_n_u32(u32(v.high), n))};
}
template <int n>
KVASIR_INLINE Ints shift_right32(Ints v) {
  return {lane(vshrq_n_u32(u32(v.low), n)), lane(vshrq_n_u32(u32(v.high), n))};
}
KVASIR_INLINE Ints low32(Ints a, Ints b) {
  return {lane(vzip1q_u32(u32(a.low), u32(b.low))), lane(vzip1q_u32(u32(a.high), u32(b.high)))};
}
KVASIR_INLINE Ints high32(Ints a, Ints b) {
  return {lane(vzip2q_u32(u32(a.low), u32(b.low))), lane(vzip2q_u32(u32(a.high), u32(b.high)))};
}
KVASIR_INLINE Ints low64(Ints a, Ints b) {
  return {lane(vzip1q_u64(u64(a.low), u64(b.low))), lane(vzip1q_u64(u64(a.high), u64(b.high)))};
}
KVASIR_INLINE Ints high64(Ints a, Ints b) {
  return {lane(vzip2q_u64(u64(a.low), u64(b.low))), lane(vzip2q_u64(u64(a.high), u64(b.high)))};
}
KVASIR_INLINE Ints low_lanes(Ints a, Ints b) {
  return {a.low, b.low};
}
KVASIR_INLINE Ints high_lanes(Ints a, Ints b) {
  return {a.high, b.high};
}
// a < b ? x : y for each 32-bit element.
KVASIR_INLINE Ints select_if_less32(Ints a, Ints b, Ints x, Ints y) {
  return {vbslq_u8(lane(vcltq_s32(s32(a.low), s32(b.low))), x.low, y.low),
          vbslq_u8(lane(vcltq_s32(s32(a.high), s32(b.high))), x.high, y.high)};
}

KVASIR_INLINE Floats operator+(Floats a, Floats b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
KVASIR_INLINE Floats operator-(Floats a, Floats b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
KVASIR_INLINE Floats operator*(Floats a, Floats b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
KVASIR_INLINE Floats operator/(Floats a, Floats b) {
  return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
KVASIR_INLINE Floats to_floats(Ints v) {
  return {vcvtq_f32_s32(s32(v.low)), vcvtq_f32_s32(s32(v.high))};
}
KVASIR_INLINE Floats all_floats(float x) {
  return {vdupq_n_f32(x), vdupq_n_f32(x)};
}
KVASIR_INLINE Floats bits_as_floats(Ints v) {
  return {vreinterpretq_f32_u8(v.low), vreinterpretq_f32_u8(v.high)};
}
KVASIR_INLINE Floats floats_of_f16(uint16x8_t v) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(v))),
          vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(v)))};
}
// The f16 in the low halves of 32-bit elements.
KVASIR_INLINE Floats floats_of_low_f16(Ints v) {
  return floats_of_f16(vuzp1q_u16(u16(v.low), u16(v.high)));
}

// Lane i of the result comes from p[i * stride].
template <typename Rows>
KVASIR_INLINE Ints load_lanes(Rows p, size_t stride, size_t offset) {
  return {load128(p[0] + offset), load128(p[stride] + offset)};
}

// Lane i of the result is the sum of the lanes of parts[i].
KVASIR_INLINE Ints add_lanes(const Ints* parts) {
  return add32(low_lanes(parts[0], parts[1]), high_lanes(parts[0], parts[1]));
}
KVASIR_INLINE void add_lanes_of_blocks(const Ints* parts, Ints* sums) {
  sums[0] = add_lanes(parts);
}
// Element i of each lane is the sum of that lane of parts[i].
KVASIR_INLINE Ints add_within_lanes(const Ints* parts) {
  const auto sums = [](Lane a, Lane b, Lane c, Lane d) __attribute__((always_inline)) {
    return lane(vpaddq_u32(vpaddq_u32(u32(a), u32(b)), vpaddq_u32(u32(c), u32(d))));
  };
  return {sums(parts[0].low, parts[1].low, parts[2].low, parts[3].low),
          sums(parts[0].high, parts[1].high, parts[2].high, parts[3].high)};
}

// Two products of 16-bit elements in each 32-bit one, or acc plus them. Which two of a lane does
// not matter: what is used is the sum of the lane.
KVASIR_INLINE Ints add_products_s16(Ints acc, Ints a, Ints b) {
  const auto add = [](int32x4_t sum, int16x8_t x, int16x8_t y) __attribute__((always_inline)) {
    return lane(vmlal_high_s16(vmlal_s16(sum, vget_low_s16(x), vget_low_s16(y)), x, y));
  };
  return {add(s32(acc.low), s16(a.low), s16(b.low)), add(s32(acc.high), s16(a.high), s16(b.high))};
}
KVASIR_INLINE Ints multiply_pairs_s16(Ints a, Ints b) {
  return add_products_s16(zero(), a, b);
}

// sum plus four products of signed bytes in each 32-bit element; which four of a lane does not
// matter, either.
KVASIR_INLINE int32x4_t add_dots(int32x4_t sum, Lane w, Lane x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, s8(w), s8(x));
#else
  // Two products are at most 2 * 128 * 127, since x is never -128, and fit in 16 bits.
  const int16x8_t pairs = vmlal_s8(vmull_s8(vget_low_s8(s8(w)), vget_low_s8(s8(x))),
                                   vget_high_s8(s8(w)), vget_high_s8(s8(x)));
  return vpadalq_s16(sum, pairs);
#endif
}
KVASIR_INLINE Ints add_dots(Ints sums, Ints w, Ints x) {
  return {lane(add_dots(s32(sums.low), w.low, x.low)),
          lane(add_dots(s32(sums.high), w.high, x.high))};
}
KVASIR_INLINE Ints dot_s8_s8(Ints w, Ints x) {
  return add_dots(zero(), w, x);
}
// w at most 127: all unsigned weights are.
KVASIR_INLINE Ints dot_u8_s8(Ints w, Ints x) {
  return dot_s8_s8(w, x);
}
// What dot_s8_s8 counts too much, per unit of x.
inline constexpr int kSignedExcess = 0;

// sums + a * b in 32-bit elements.
KVASIR_INLINE Ints add_products32(Ints sums, Ints a, Ints b) {
  return {lane(vmlaq_s32(s32(sums.low), s32(a.low), s32(b.low))),
          lane(vmlaq_s32(s32(sums.high), s32(a.high), s32(b.high)))};
}

// sums + scale * (products of w and x). One scale for the whole vector, in every element of a lane;
// the halves of `sums` take turns, so that additions do not wait for each other.
KVASIR_INLINE Ints add_scaled(Ints sums, Ints w, Ints x, Lane scale) {
  const int32x4_t dots = add_dots(add_dots(vdupq_n_s32(0), w.low, x.low), w.high, x.high);
  return {sums.high, lane(vmlaq_s32(s32(sums.low), dots, s32(scale)))};
}
// The same with a scale for each lane.
KVASIR_INLINE Ints add_scaled(Ints sums, Ints w, Ints x, Ints scales) {
  return add_products32(sums, dot_s8_s8(w, x), scales);
}

// Element i of eight 16-bit numbers, as every 32-bit element.
template <int i>
KVASIR_INLINE Lane repeat32(int16x8_t v) {
  const int32x4_t wide = i < 4 ? vmovl_s16(vget_low_s16(v)) : vmovl_high_s16(v);
  return lane(vdupq_laneq_s32(wide, i % 4));
}

// 16 bytes to 32 nibbles: the low ones, then the high ones.
KVASIR_INLINE Ints nibbles(Lane bytes) {
  return {vandq_u8(bytes, vdupq_n_u8(0x0f)), vshrq_n_u8(bytes, 4)};
}
// Byte i is 0xff where bit i is set.
KVASIR_INLINE Ints masks_of_bits(uint32_t bits) {
  const Lane all = lane(vdupq_n_u32(bits));
  const Lane own_bit = lane8(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128);
  const Lane first = lane8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const Lane second = lane8(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  return {vtstq_u8(vqtbl1q_u8(all, first), own_bit), vtstq_u8(vqtbl1q_u8(all, second), own_bit)};
}

// The f16 at p[r] + offset of each row of a tile.
template <typename Rows>
KVASIR_INLINE Floats load_f16_of_rows(Rows p, size_t offset) {
  const auto at = [=](int r) __attribute__((always_inline)) {
    return load_s16(p[r] + offset);
  };
  return floats_of_f16(u16(lane16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))));
}
// The 32 bits at p[r] + offset of each row of a tile.
template <typename Rows>
KVASIR_INLINE Ints load_u32_of_rows(Rows p, size_t offset) {
  const auto at = [=](int r) __attribute__((always_inline)) {
    return static_cast<int>(load_u32(p[r] + offset));
  };
  return {lane32(at(0), at(1), at(2), at(3)), lane32(at(4), at(5), at(6), at(7))};
}

// The first n_rows elements to y, for a tile's results.
KVASIR_INLINE void store_tile(Floats v, size_t n_rows, float* y) {
  if (n_rows == 8) {
    vst1q_f32(y, v.low);
    vst1q_f32(y + 4, v.high);
    return;
  }
  float values[8];
  vst1q_f32(values, v.low);
  vst1q_f32(values + 4, v.high);
  for (size_t r = 0; r < n_rows; ++r) y[r] = values[r];
}

}  // namespace
}  // namespace kvasir::kernels
