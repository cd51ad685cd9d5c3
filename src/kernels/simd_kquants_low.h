// Q3_K and Q2_K, the 256-value formats made of bit pairs: the same hooks as in simd_kquants.h.
#pragma once

#include "kernels/simd_kquants.h"

namespace kvasir::kernels {
namespace {

// Q2_K, Q3_K: AVX-512 holds run w of both halves of the block in one vector; AVX2 is natural.
KVASIR_INLINE void load_by_bit_pair(const BlockQ8K& x, Ints* q) {
#if defined(__AVX512F__)
  KVASIR_UNROLL
  for (int p = 0; p < 2; ++p) {
    const Ints a = load(x.q + 64 * p);
    const Ints b = load(x.q + 64 * p + 128);
    q[2 * p] = _mm512_shuffle_i64x2(a, b, 0x44);
    q[2 * p + 1] = _mm512_shuffle_i64x2(a, b, 0xee);
  }
#else
  load_natural(x, q);
#endif
}

// The scales in that order, as in simd_kquants.h.
template <int i>
KVASIR_INLINE Ints scales16_by_bit_pair(Ints scales) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_epi16(
      scale_index<i>([](int vector, int lane) { return 2 * vector + lane % 2 + lane / 2 * 8; }),
      scales);
#else
  return scales16_natural<i>(scales);
#endif
}

// --- Q3_K: high bits @0, bit pairs @32, 12 bytes of 6-bit scales @96, d f16 @108.

struct WeightsQ3K {
  static constexpr size_t kBytes = 110;
  static constexpr bool kHasMinimum = false;

  struct Heads {
    Floats d;
    TileScales scales;  // 16 signed scales
  };

  template <typename Rows>
  KVASIR_INLINE static void read_heads(Rows rows, size_t offset, Heads& heads) {
    // The last 16 bytes of the block: 2 of the bit pairs, s[0..11], d. Scale j has 4 bits in
    // s[j % 8] and 2 in s[8 + j % 4].
    const Ints low_bytes = all_lanes(lane8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
    const Ints low_shifts = all_lanes(lane64(0, 4));
    const Ints high_bytes =
        all_lanes(lane8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
    const Ints high_shifts = all_lanes(lane32(0, 2, 4, 6));
    Ints raw[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      raw[i] = load_lanes(rows + i, 4, offset + kBytes - 16);
      const Ints low = bit_and(shift_right64(shuffle8(raw[i], low_bytes), low_shifts), all8(0x0f));
      const Ints high =
          bit_and(shift_right32(shuffle8(raw[i], high_bytes), high_shifts), all8(0x03));
      store(heads.scales.bytes[i], add8(bit_or(low, shift_left16<4>(high)), all8(-32)));
    }
    heads.d = floats_of_low_f16(shift_right32<16>(last_of_lanes(raw)));
  }

  KVASIR_INLINE static ActivationK prepare(const BlockQ8K& x) {
    ActivationK a;
    load_by_bit_pair(x, a.q);
    a.sums = scaled_sums16<4>(x);
    a.d = x.d;
    return a;
  }

  // The 3-bit values as 0..7, four more than they mean.
  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads& heads, int row,
                                const ActivationK* x, Ints* sums) {
    Ints w[kVectors];
#if defined(__AVX512F__)
    // The upper half of the vector is the second half of the block, whose high bits are bits 4..7.
    const Ints high = _mm512_srlv_epi16(_mm512_broadcast_i64x4(load256(block)),
                                        _mm512_inserti64x4(zero(), _mm256_set1_epi16(4), 1));
    unpack(load(block + 32), high, w);
#else
    const Ints high = load(block);
    unpack(load(block + 32), high, w);
    unpack(load(block + 64), shift_right16<4>(high), w + 4);
#endif
    const Ints scales = widen_scales16(heads.scales.of_row(row));
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = correct_by_sums16(scales, x[c].sums);
    add_scaled_dots<kColumns>(
        w, x,
        [scales](auto i)
            __attribute__((always_inline)) { return scales16_by_bit_pair<i.value>(scales); },
        sums);
  }

 private:
  // w[i]: bit pair i of each byte and bit i of `high`.
  KVASIR_INLINE static void unpack(Ints pairs, Ints high, Ints* w) {
    const Ints pair_mask = all8(0x03);
    const Ints high_mask = all8(0x04);
    w[0] = bit_or(bit_and(pairs, pair_mask), bit_and(shift_left16<2>(high), high_mask));
    w[1] = bit_or(bit_and(shift_right16<2>(pairs), pair_mask),
                  bit_and(shift_left16<1>(high), high_mask));
    w[2] = bit_or(bit_and(shift_right16<4>(pairs), pair_mask), bit_and(high, high_mask));
    w[3] = bit_or(bit_and(shift_right16<6>(pairs), pair_mask),
                  bit_and(shift_right16<1>(high), high_mask));
  }
};

// --- Q2_K: 16 bytes of 4-bit scales and minimums @0, bit pairs @16, d f16 @80, dmin f16 @82.

struct WeightsQ2K {
  static constexpr size_t kBytes = 84;
  static constexpr bool kHasMinimum = true;

  struct Heads {
    Floats d;
    Floats d_minimum;
    TileScales scales;  // 16 bytes: low nibble the scale, high nibble the minimum
  };

  template <typename Rows>
  KVASIR_INLINE static void read_heads(Rows rows, size_t offset, Heads& heads) {
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) store(heads.scales.bytes[i], load_lanes(rows + i, 4, offset));
    const Ints both = load_u32_of_rows(rows, offset + 80);
    heads.d = floats_of_low_f16(both);
    heads.d_minimum = floats_of_low_f16(shift_right32<16>(both));
  }

  KVASIR_INLINE static ActivationK prepare(const BlockQ8K& x) {
    ActivationK a;
    load_by_bit_pair(x, a.q);
    const TwoLanes sums = sums_even_odd(x);
    a.sums = all_lanes(low_lane(sums));
    a.sums_odd = all_lanes(high_lane(sums));
    a.d = x.d;
    return a;
  }

  KVASIR_INLINE static Ints minimum_sums(const Heads& heads, const ActivationK& x) {
    Ints parts[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Ints bytes = load(heads.scales.bytes[i]);
      const Ints even = bit_and(shift_right16<4>(bytes), all16(0x0f));
      const Ints odd = shift_right16<12>(bytes);
      parts[i] = add_products_s16(multiply_pairs_s16(even, x.sums), odd, x.sums_odd);
    }
    return add_within_lanes(parts);
  }

  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads&, int, const ActivationK* x,
                                Ints* sums) {
    const Ints pair_mask = all8(0x03);
    Ints w[kVectors];
    KVASIR_UNROLL
    for (int h = 0; h < kVectors / 4; ++h) {
      const Ints pairs = load(block + 16 + h * kVectorBytes);
      w[4 * h] = bit_and(pairs, pair_mask);
      w[4 * h + 1] = bit_and(shift_right16<2>(pairs), pair_mask);
      w[4 * h + 2] = bit_and(shift_right16<4>(pairs), pair_mask);
      w[4 * h + 3] = bit_and(shift_right16<6>(pairs), pair_mask);
    }
    const Ints scales = bit_and(widen_scales16(block), all16(0x0f));
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = zero();
    add_scaled_dots<kColumns>(
        w, x,
        [scales](auto i)
            __attribute__((always_inline)) { return scales16_by_bit_pair<i.value>(scales); },
        sums);
  }
};

}  // namespace
}  // namespace kvasir::kernels
