// Rule 1 of docs/arithmetic.md: rows of floats to activation formats and to f16, and the checks for
// non-finite values.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd_f32.h"

namespace kvasir::kernels {
namespace {

inline constexpr int kInfinityBits = 0x7f800000;
// Blocks below 2^-100 count as zero.
inline constexpr int kSmallestBlockBits = (127 - 100) << 23;

KVASIR_INLINE int largest_magnitude_bits(const float* x, size_t n) {
  I32x16 largest16 = magnitude_bits(splat(0.0F));
  for_each_16(
      n, [&](size_t i, auto load, auto) __attribute__((always_inline)) {
        largest16 = larger(largest16, magnitude_bits(load(x + i)));
      });
  return largest(largest16);
}

bool all_finite_row(const float* x, size_t n) {
  return largest_magnitude_bits(x, n) < kInfinityBits;
}

// The sums of 16 bytes each of 256.
KVASIR_INLINE void sum_groups_of_16(const int8_t* q, int16_t* sums) {
  const auto four_vectors = [](const int8_t* p) __attribute__((always_inline)) {
    Ints parts[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) parts[i] = dot_u8_s8(all8(1), load(p + i * kVectorBytes));
    return add_within_lanes(parts);  // element i of lane j is group kLanes * i + j
  };
#if defined(__AVX512F__)
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i in_order = _mm512_permutexvar_epi32(order, four_vectors(q));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm512_cvtepi32_epi16(in_order));
#elif defined(__aarch64__)
  const Ints a = four_vectors(q);
  const Ints b = four_vectors(q + 128);
  // The lower halves of 32-bit elements, then the lanes in turn.
  vst2q_s16(sums,
            int16x8x2_t{vuzp1q_s16(s16(a.low), s16(b.low)), vuzp1q_s16(s16(a.high), s16(b.high))});
#else
  const __m256i words = _mm256_packs_epi32(four_vectors(q), four_vectors(q + 128));
  const __m128i even = _mm256_castsi256_si128(words);
  const __m128i odd = _mm256_extracti128_si256(words, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), _mm_unpacklo_epi16(even, odd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + 8), _mm_unpackhi_epi16(even, odd));
#endif
}

// The first of x[0..255] whose magnitude has these bits.
KVASIR_INLINE float first_of_magnitude(const float* x, int bits) {
  for (size_t i = 0;; i += 16) {
    const uint32_t found = which_are(magnitude_bits(load16(x + i)), bits);
    if (found != 0) return x[i + static_cast<size_t>(__builtin_ctz(found))];
  }
}

bool quantize_q8_k_row(const float* x, size_t n, BlockQ8K* out) {
  for (size_t b = 0; b < n / 256; ++b, x += 256) {
    BlockQ8K& block = out[b];
    const int bits = largest_magnitude_bits(x, 256);
    if (bits >= kInfinityBits) return false;
    if (bits < kSmallestBlockBits) {
      __builtin_memset(&block, 0, sizeof block);
      continue;
    }
    const float iscale = -127.0F / first_of_magnitude(x, bits);
    for (size_t i = 0; i < 256; i += 16) {
      store16_bytes(block.q + i, at_most_127(round_to_even(splat(iscale) * load16(x + i))));
    }
    block.d = 1.0F / iscale;
    sum_groups_of_16(block.q, block.sums);
  }
  return true;
}

bool quantize_q8_0_row(const float* x, size_t n, BlockQ8_0* out) {
  for (size_t b = 0; b < n / 32; ++b, x += 32) {
    BlockQ8_0& block = out[b];
    const F32x16 first = load16(x);
    const F32x16 second = load16(x + 16);
    const int bits = largest(larger(magnitude_bits(first), magnitude_bits(second)));
    if (bits >= kInfinityBits) return false;
    if (bits < kSmallestBlockBits) {
      __builtin_memset(&block, 0, sizeof block);
      continue;
    }
    const float d = float_of_bits(bits) / 127.0F;
    if (!round_to_f16(d, block.d)) return false;
    const F32x16 inverse = splat(1.0F / d);
    const I32x16 q_first = round_to_even(first * inverse);
    const I32x16 q_second = round_to_even(second * inverse);
    store16_bytes(block.q, q_first);
    store16_bytes(block.q + 16, q_second);
    block.sum = sum_of(q_first + q_second);
  }
  return true;
}

bool f16_from_f32_row(const float* x, size_t n, uint16_t* out) {
  NonFiniteF16 non_finite;
  const auto convert = [&](F32x16 v, uint16_t * p) __attribute__((always_inline)) {
    store16_f16(p, v);
    non_finite.look_at_16(p);
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) convert(load16(x + i), out + i);
  if (i < n) {
    uint16_t values[16];
    convert(load16_first(x + i, n - i), values);
    __builtin_memcpy(out + i, values, 2 * (n - i));
  }
  return !non_finite.found();
}

void f32_from_f16_row(const uint16_t* x, size_t n, float* out) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store16(out + i, load16_f16(x + i));
  if (i < n) {
    store16_first(out + i, n - i, RowF16::first(reinterpret_cast<const uint8_t*>(x + i), n - i));
  }
}

}  // namespace
}  // namespace kvasir::kernels
