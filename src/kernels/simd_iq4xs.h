// IQ4_XS: a 4-bit index into a table of 16 signed values, blocks of 256 against Q8_K. The same
// hooks as in simd_kquants.h.
#pragma once

#include "kernels/simd_kquants.h"

namespace kvasir::kernels {
namespace {

// The values that IQ4_XS and IQ4_NL index.
KVASIR_INLINE Ints iq4_values() {
  return all_lanes(lane8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
}

// d f16 @0, scales_h u16 @2, scales_l[4] @4, nibbles @8: 16 bytes per run of 32 values, first the
// low nibbles, then the high ones.
struct WeightsIQ4XS {
  static constexpr size_t kBytes = 136;
  static constexpr bool kHasMinimum = false;

  struct Heads {
    Floats d;
    TileScales scales;  // eight signed scales of 16 bits
  };

  template <typename Rows>
  KVASIR_INLINE static void read_heads(Rows rows, size_t offset, Heads& heads) {
    // Scale b has 4 bits in scales_l (nibble b) and 2 in scales_h (pair b). There is no variable
    // 16-bit shift in AVX2: a product moves the bits up to one place, a fixed shift brings them
    // down.
    const Ints low_bytes = all_lanes(lane8(4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1));
    const Ints low_factors = all_lanes(lane16(16, 1, 16, 1, 16, 1, 16, 1));
    const Ints high_bytes = all_lanes(lane8(2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3));
    const Ints high_factors =
        all_lanes(lane16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1));
    Ints raw[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      raw[i] = load_lanes(rows + i, 4, offset);
      const Ints low =
          bit_and(shift_right16<4>(mul16(shuffle8(raw[i], low_bytes), low_factors)), all16(0x0f));
      const Ints high = shift_right16<14>(mul16(shuffle8(raw[i], high_bytes), high_factors));
      store(heads.scales.bytes[i], add16(bit_or(low, shift_left16<4>(high)), all16(-32)));
    }
    heads.d = floats_of_low_f16(first_of_lanes(raw));
  }

  // Vectors 2p and 2p + 1: the first and the second halves of kLanes runs.
  KVASIR_INLINE static ActivationK prepare(const BlockQ8K& x) {
    ActivationK a;
    KVASIR_UNROLL
    for (int p = 0; p < kVectors / 2; ++p) {
      const Ints first = load(x.q + 2 * p * kVectorBytes);
      const Ints second = load(x.q + (2 * p + 1) * kVectorBytes);
#if defined(__AVX512F__)
      a.q[2 * p] = _mm512_shuffle_i64x2(first, second, 0x88);
      a.q[2 * p + 1] = _mm512_shuffle_i64x2(first, second, 0xdd);
#else
      a.q[2 * p] = low_lanes(first, second);
      a.q[2 * p + 1] = high_lanes(first, second);
#endif
    }
    a.sums = mul16(sums_of_32(x), all16(-8));
    a.d = x.d;
    return a;
  }

  template <int kColumns>
  KVASIR_INLINE static void dot(const uint8_t* block, const Heads& heads, int row,
                                const ActivationK* x, Ints* sums) {
    const Ints scales = all_lanes(load128(heads.scales.of_row(row)));
#if defined(__AVX512VNNI__)
    // dot_s8_s8 counts 128 * x too much: -8 (in x.sums) in each of the four lanes, times 4.
    const Ints values = bit_xor(iq4_values(), all8(0x80));
    const Ints wide_scales =
        _mm512_castsi256_si512(_mm256_cvtepi16_epi32(load128(heads.scales.of_row(row))));
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = shift_left32<2>(multiply_pairs_s16(scales, x[c].sums));
    }
    KVASIR_UNROLL
    for (int p = 0; p < 2; ++p) {
      const Ints bytes = load(block + 8 + p * kVectorBytes);
      const Ints low = shuffle8(values, bit_and(bytes, all8(0x0f)));
      const Ints high = shuffle8(values, bit_and(shift_right16<4>(bytes), all8(0x0f)));
      const Ints lane_scales = _mm512_permutexvar_epi32(
          _mm512_add_epi32(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                           all32(4 * p)),
          wide_scales);
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const Ints dots = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero(), low, x[c].q[2 * p]), high,
                                              x[c].q[2 * p + 1]);
        sums[c] = add32(sums[c], _mm512_mullo_epi32(dots, lane_scales));
      }
    }
#else
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] = zero();
    for_each_index<kVectors / 2>([&](auto p) __attribute__((always_inline)) {
      const Ints bytes = load(block + 8 + p.value * kVectorBytes);
      const Ints low = shuffle8(iq4_values(), bit_and(bytes, all8(0x0f)));
      const Ints high = shuffle8(iq4_values(), bit_and(shift_right16<4>(bytes), all8(0x0f)));
#if defined(__aarch64__)
      const Ints lane_scales = {repeat32<2 * p.value>(s16(scales.low)),
                                repeat32<2 * p.value + 1>(s16(scales.low))};
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const Ints dots =
            add_dots(dot_s8_s8(low, x[c].q[2 * p.value]), high, x[c].q[2 * p.value + 1]);
        sums[c] = add_products32(sums[c], dots, lane_scales);
      }
#else
      const Ints lane_scales = shuffle8(scales, scale_index<p.value>());
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        sums[c] =
            add_products_s16(sums[c], multiply_pairs_s8(low, x[c].q[2 * p.value]), lane_scales);
        sums[c] = add_products_s16(sums[c], multiply_pairs_s8(high, x[c].q[2 * p.value + 1]),
                                   lane_scales);
      }
#endif
    });
#endif
  }

 private:
#if !defined(__AVX512VNNI__) && !defined(__aarch64__)
  // Lane j: the bytes of scale kLanes * p + j, over and over.
  template <int p>
  KVASIR_INLINE static Ints scale_index() {
    const auto bytes_of = [](int b) __attribute__((always_inline)) {
      return _mm_set1_epi16(static_cast<short>((2 * b + 1) << 8 | 2 * b));
    };
    const __m256i first = _mm256_set_m128i(bytes_of(kLanes * p + 1), bytes_of(kLanes * p));
#if defined(__AVX512F__)
    return _mm512_inserti64x4(_mm512_castsi256_si512(first),
                              _mm256_set_m128i(bytes_of(kLanes * p + 3), bytes_of(kLanes * p + 2)),
                              1);
#else
    return first;
#endif
  }
#endif
};

}  // namespace
}  // namespace kvasir::kernels
