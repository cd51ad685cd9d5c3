// Weight formats with blocks of 256 values, against Q8_K: how a block becomes bytes and 16-bit
// scales in registers, and one integer dot product. simd_matmul.h walks over rows and blocks.
//
// Q4_K, Q5_K and Q6_K are here, Q2_K and Q3_K in simd_kquants_low.h. A format here is a struct of
// static functions:
//   kBytes, kHasMinimum      of a block
//   prepare()                what a tile keeps of one activation block
//   Heads                    what a tile decodes once per block for all its rows: read_heads()
//   dot<kColumns>()          kColumns vectors of 32-bit partial sums of one row, unreduced
//   minimum_sums()           one 32-bit sum of min_j * (sums of x) per row, in row order
// `rows` of read_heads() are pointers to the rows of a tile, or what gives such pointers by index.
#pragma once

#include "kernels/activation.h"
#include "kernels/simd_int.h"

namespace kvasir::kernels {
namespace {

// Vectors per 256 values.
inline constexpr int kVectors = 256 / kVectorBytes;

// `q` in the order in which a format unpacks its weights. `sums` and `sums_odd`: see each format.
struct ActivationK {
  Ints q[kVectors];
  Ints sums;
  Ints sums_odd;
  float d;
};

// --- Orders of unpacking.

KVASIR_INLINE void load_natural(const BlockQ8K& x, Ints* q) {
  KVASIR_UNROLL
  for (int i = 0; i < kVectors; ++i) q[i] = load(x.q + i * kVectorBytes);
}

// Q4_K, Q5_K: vectors 2p and 2p + 1 are the low and the high nibbles of one vector of bytes, that
// is even and odd runs of 32 values.
KVASIR_INLINE void load_by_nibble(const BlockQ8K& x, Ints* q) {
#if defined(__AVX512F__)
  KVASIR_UNROLL
  for (int p = 0; p < 2; ++p) {
    const Ints a = load(x.q + 128 * p);
    const Ints b = load(x.q + 128 * p + 64);
    q[2 * p] = _mm512_shuffle_i64x2(a, b, 0x44);
    q[2 * p + 1] = _mm512_shuffle_i64x2(a, b, 0xee);
  }
#else
  load_natural(x, q);
#endif
}

// --- Sums of x in the arrangements that go with the scales.

// Eight sums of 32 values, in every lane.
KVASIR_INLINE Ints sums_of_32(const BlockQ8K& x) {
  return all_lanes(add_neighbours16(load128(x.sums), load128(x.sums + 8)));
}

// The even sums of 16 in the low half, the odd ones in the high half.
KVASIR_INLINE TwoLanes sums_even_odd(const BlockQ8K& x) {
  return even_odd16(load256(x.sums));
}

// --- Sixteen signed 8-bit scales, one per 16 values, as 16-bit elements.
//
// AVX-512: in order, twice, since a word permutation picks any of them. AVX2 and NEON: even ones in
// the low lane, odd ones in the high lane, so that a shuffle within lanes does.
KVASIR_INLINE Ints widen_scales16(const void* scales) {
#if defined(__AVX512F__)
  const __m256i wide = _mm256_cvtepi8_epi16(load128(scales));
  return _mm512_broadcast_i64x4(wide);
#elif defined(__aarch64__)
  const int8x16_t all = s8(load128(scales));
  return {lane(vmovl_s8(vget_low_s8(vuzp1q_s8(all, all)))),
          lane(vmovl_s8(vget_low_s8(vuzp2q_s8(all, all))))};
#else
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(load128(scales), order));
#endif
}

// `factor` * (sum of scale_j * sums_j) in the sum of all elements, if `sums` is
// scaled_sums16<factor>.
KVASIR_INLINE Ints correct_by_sums16(Ints scales, Ints sums) {
  const Ints products = multiply_pairs_s16(scales, sums);
#if defined(__AVX512F__)
  return products;  // both halves hold all of it, half the factor each
#else
  return add32(products, products);
#endif
}
template <int factor>
KVASIR_INLINE Ints scaled_sums16(const BlockQ8K& x) {
  static_assert(factor % 2 == 0 && factor / 2 * 16 * 127 < 32768);
#if defined(__AVX512F__)
  const Ints sums = _mm512_broadcast_i64x4(load256(x.sums));
#else
  const Ints sums = sums_even_odd(x);
#endif
  return mul16(sums, all16(-factor / 2));
}

// --- Which scale goes with which element in dot product i of add_scaled_dots(): of 16 bits, with
// NEON of 32 bits.

#if defined(__AVX512F__)
// `group_of(vector, lane)`: the group that a lane of an unpacked vector belongs to.
template <int i, typename GroupOf>
KVASIR_INLINE Ints scale_index(GroupOf group_of) {
  const auto lane = [&](int l) __attribute__((always_inline)) {
#if defined(__AVX512VNNI__)
    const __m128i first = _mm_set1_epi16(static_cast<short>(group_of(2 * i, l)));
    const __m128i second = _mm_set1_epi16(static_cast<short>(group_of(2 * i + 1, l)));
    return _mm_unpacklo_epi64(first, second);
#else
    return _mm_set1_epi16(static_cast<short>(group_of(i, l)));
#endif
  };
  const __m256i low = _mm256_set_m128i(lane(1), lane(0));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_set_m128i(lane(3), lane(2)), 1);
}
#endif

// Of a block in natural order: groups 2i and 2i + 1 in vector i with AVX2 and NEON, 4i to 4i + 3
// with AVX-512, one per lane.
template <int i>
KVASIR_INLINE Ints scales16_natural(Ints scales) {
#if defined(__AVX512F__)
  return _mm512_permutexvar_epi16(
      scale_index<i>([](int vector, int lane) { return 4 * vector + lane; }), scales);
#elif defined(__aarch64__)
  return {repeat32<i>(s16(scales.low)), repeat32<i>(s16(scales.high))};
#else
  return shuffle8(scales, all16((2 * i + 1) << 8 | 2 * i));
#endif
}
// Eight scales per block, bytes 0..7 of every lane, in Q4_K's order. Without AVX-512 each belongs
// to a whole vector.
#if defined(__aarch64__)
template <int i>
KVASIR_INLINE Lane scales8_by_nibble(Ints scales) {
  return repeat32<i>(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(scales.low))));
}
#else
template <int i>
KVASIR_INLINE Ints scales8_by_nibble(Ints scales) {
  constexpr int kZero = 0x80 << 8;  // clears the upper byte of each 16-bit element
#if defined(__AVX512F__)
  return shuffle8(scales, scale_index<i>([](int vector, int lane) {
                    return kZero | (vector / 2 * 4 + vector % 2 + lane / 2 * 2);
                  }));
#else
  return shuffle8(scales, all16(kZero | i));
#endif
}
#endif

// Calls f with Index<0>{} ... Index<n - 1>{}: a loop whose counter is a constant.
template <int i>
struct Index {
  static constexpr int value = i;
};
template <int n, int i = 0, typename F>
KVASIR_INLINE void for_each_index(F&& f) {
  if constexpr (i < n) {
    f(Index<i>{});
    for_each_index<n, i + 1>(f);
  }
}

// sums[c] += weights . q of column c, with the scales that `scales_of` gives for dot product i.
// With NEON that is the sums of four products, in 32 bits. With VNNI it is the sums of four
// products in two vectors, packed to 16 bits: they fit if weights are at most 63. Otherwise it is
// pairs of products in one vector: they fit if weights are at most 128.
template <int kColumns, typename ScalesOf>
KVASIR_INLINE void add_scaled_dots(const Ints* weights, const ActivationK* x, ScalesOf scales_of,
                                   Ints* sums) {
#if defined(__AVX512VNNI__)
  constexpr int kDots = kVectors / 2;
#else
  constexpr int kDots = kVectors;
#endif
  for_each_index<kDots>([&](auto i) __attribute__((always_inline)) {
    const auto scales = scales_of(i);
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
#if defined(__AVX512VNNI__)
      constexpr int k = 2 * i.value;
      const Ints dots = _mm512_packs_epi32(dot_u8_s8(weights[k], x[c].q[k]),
                                           dot_u8_s8(weights[k + 1], x[c].q[k + 1]));
      sums[c] = add_products_s16(sums[c], dots, scales);
#elif defined(__aarch64__)
      sums[c] = add_scaled(sums[c], weights[i.value], x[c].q[i.value], scales);
#else
      const Ints dots = multiply_pairs_u8_s8(weights[i.value], x[c].q[i.value]);
      sums[c] = add_products_s16(sums[c], dots, scales);
#endif
    }
  });
}

// The scales of a whole tile in 16 bytes per row. Vector i holds rows i, i + 4, i + 8, ...: then
// first_of_lanes and add_within_lanes of the four vectors come out in row order.
struct TileScales {
  alignas(64) uint8_t bytes[4][kVectorBytes];

  const uint8_t* of_row(int r) const { return bytes[r % 4] + r / 4 * 16; }
};

// --- Q4_K and Q5_K: d f16 @0, dmin f16 @2, 12 bytes of 6-bit scales and minimums @4.

struct ScalesAndMinimums {
  struct Heads {
    Floats d;
    Floats d_minimum;
    TileScales scales;  // 8 scales, then 8 minimums
  };

  template <typename Rows>
  KVASIR_INLINE static void read_heads(Rows rows, size_t offset, Heads& heads) {
    // s[b] & 63 for b < 4; otherwise 4 bits of s[b + 4] and, on top, the upper 2 bits of s[b - 4];
    // the minimums alike, from s[b + 4], s[b + 4] >> 4 and s[b].
    const Ints low_bytes =
        all_lanes(lane8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const Ints low_shifts = all_lanes(lane32(0, 0, 0, 4));
    const Ints low_mask = all_lanes(lane32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const Ints high_bytes =
        all_lanes(lane8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    Ints raw[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      raw[i] = load_lanes(rows + i, 4, offset);
      const Ints low = bit_and(shift_right32(shuffle8(raw[i], low_bytes), low_shifts), low_mask);
      const Ints high = bit_and(shift_right16<2>(shuffle8(raw[i], high_bytes)), all8(0x30));
      store(heads.scales.bytes[i], bit_or(low, high));
    }
    const Ints both = first_of_lanes(raw);
    heads.d = floats_of_low_f16(both);
    heads.d_minimum = floats_of_low_f16(shift_right32<16>(both));
  }

  KVASIR_INLINE static Ints minimum_sums(const Heads& heads, const ActivationK& x) {
    const Ints sums[4] = {x.sums, x.sums, x.sums, x.sums};
    return minimum_sums(heads, sums);
  }
  // sums[i]: in lane l those of the activations that row i + 4l meets.
  KVASIR_INLINE static Ints minimum_sums(const Heads& heads, const Ints* sums) {
    const Ints widen =
        all_lanes(lane8(8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1));
    Ints parts[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      parts[i] = multiply_pairs_s16(shuffle8(load(heads.scales.bytes[i]), widen), sums[i]);
    }
    return add_within_lanes(parts);
  }

  KVASIR_INLINE static ActivationK prepare(const BlockQ8K& x) {
    ActivationK a;
    load_by_nibble(x, a.q);
    a.sums = sums_of_32(x);
    a.d = x.d;
    return a;
  }

  template <int kColumns>
  KVASIR_INLINE static void add_dots(const Ints* weights, const Heads& heads, int row,
                                     const ActivationK* x, Ints* sums) {
    const Ints scales = all_lanes(load128(heads.scales.of_row(row)));
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = zero();
    add_scaled_dots<kColumns>(
        weights, x,
        [scales](auto i)
            __attribute__((always_inline)) { return scales8_by_nibble<i.value>(scales); },
        sums);
  }
};

struct WeightsQ4K : ScalesAndMinimums {
  static constexpr size_t kBytes = 144;
  static constexpr bool kHasMinimum = true;

  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads& heads, int row,
                                const ActivationK* x, Ints* sums) {
    Ints w[kVectors];
    KVASIR_UNROLL
    for (int p = 0; p < kVectors / 2; ++p) {
      const Ints bytes = load(block + 16 + p * kVectorBytes);
      w[2 * p] = bit_and(bytes, all8(0x0f));
      w[2 * p + 1] = bit_and(shift_right16<4>(bytes), all8(0x0f));
    }
    add_dots<kColumns>(w, heads, row, x, sums);
  }
};

struct WeightsQ5K : ScalesAndMinimums {
  static constexpr size_t kBytes = 176;
  static constexpr bool kHasMinimum = true;

  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads& heads, int row,
                                const ActivationK* x, Ints* sums) {
    const Ints fifth = all8(0x10);
    Ints w[kVectors];
#if defined(__AVX512F__)
    // Bits b of run b: vector 2p holds runs 4p and 4p + 2, vector 2p + 1 runs 4p + 1 and 4p + 3.
    // Two bits apart, so the upper half is shifted ahead by two.
    const Ints bits = _mm512_srlv_epi16(_mm512_broadcast_i64x4(load256(block + 16)),
                                        _mm512_inserti64x4(zero(), _mm256_set1_epi16(2), 1));
    const Ints high[4] = {shift_left16<4>(bits), shift_left16<3>(bits), bits,
                          shift_right16<1>(bits)};
#else
    const Ints bits = load(block + 16);
    const Ints high[8] = {shift_left16<4>(bits),
                          shift_left16<3>(bits),
                          shift_left16<2>(bits),
                          shift_left16<1>(bits),
                          bits,
                          shift_right16<1>(bits),
                          shift_right16<2>(bits),
                          shift_right16<3>(bits)};
#endif
    KVASIR_UNROLL
    for (int p = 0; p < kVectors / 2; ++p) {
      const Ints bytes = load(block + 48 + p * kVectorBytes);
      w[2 * p] = bit_or(bit_and(bytes, all8(0x0f)), bit_and(high[2 * p], fifth));
      w[2 * p + 1] =
          bit_or(bit_and(shift_right16<4>(bytes), all8(0x0f)), bit_and(high[2 * p + 1], fifth));
    }
    add_dots<kColumns>(w, heads, row, x, sums);
  }
};

// --- Q6_K: low nibbles @0, high bit pairs @128, 16 signed scales @192, d f16 @208.

struct WeightsQ6K {
  static constexpr size_t kBytes = 210;
  static constexpr bool kHasMinimum = false;

  struct Heads {
    Floats d;
  };

  template <typename Rows>
  KVASIR_INLINE static void read_heads(Rows rows, size_t offset, Heads& heads) {
    heads.d = load_f16_of_rows(rows, offset + 208);
  }

  KVASIR_INLINE static ActivationK prepare(const BlockQ8K& x) {
    ActivationK a;
    load_natural(x, a.q);
    a.sums = scaled_sums16<32>(x);
    a.d = x.d;
    return a;
  }

  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads&, int, const ActivationK* x,
                                Ints* sums) {
    const Ints low_mask = all8(0x0f);
    const Ints high_mask = all8(0x30);
    Ints w[kVectors];
    KVASIR_UNROLL
    for (int h = 0; h < 2; ++h) {
#if defined(__AVX512F__)
      // Runs 0 and 1 are low nibbles, runs 2 and 3 high ones; bit pair w belongs to run w.
      const Ints low = load(block + 64 * h);
      const Ints high = _mm512_broadcast_i64x4(load256(block + 128 + 32 * h));
      const Ints left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
      const Ints right = _mm512_inserti64x4(zero(), _mm256_set1_epi16(2), 1);
      w[2 * h] = bit_or(bit_and(low, low_mask), bit_and(_mm512_sllv_epi16(high, left), high_mask));
      w[2 * h + 1] = bit_or(bit_and(shift_right16<4>(low), low_mask),
                            bit_and(_mm512_srlv_epi16(high, right), high_mask));
#else
      const Ints low0 = load(block + 64 * h);
      const Ints low1 = load(block + 64 * h + 32);
      const Ints high = load(block + 128 + 32 * h);
      w[4 * h] = bit_or(bit_and(low0, low_mask), bit_and(shift_left16<4>(high), high_mask));
      w[4 * h + 1] = bit_or(bit_and(low1, low_mask), bit_and(shift_left16<2>(high), high_mask));
      w[4 * h + 2] = bit_or(bit_and(shift_right16<4>(low0), low_mask), bit_and(high, high_mask));
      w[4 * h + 3] = bit_or(bit_and(shift_right16<4>(low1), low_mask),
                            bit_and(shift_right16<2>(high), high_mask));
#endif
    }
    const Ints scales = widen_scales16(block + 192);
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = correct_by_sums16(scales, x[c].sums);
    add_scaled_dots<kColumns>(
        w, x,
        [scales](auto i)
            __attribute__((always_inline)) { return scales16_natural<i.value>(scales); },
        sums);
  }
};

}  // namespace
}  // namespace kvasir::kernels
