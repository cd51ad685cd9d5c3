// simd_f32.h for AVX-512 and AVX2: one AVX-512 register or two of AVX2.
#pragma once

#include "kernels/simd_int.h"

namespace kvasir::kernels {
namespace {

// Four floats, whatever the width of a vector is.
using Floats4 = __m128;

KVASIR_INLINE Floats4 all4(float x) {
  return _mm_set1_ps(x);
}
KVASIR_INLINE void store4(float* p, Floats4 v) {
  _mm_storeu_ps(p, v);
}

#if defined(__AVX512F__)

struct F32x16 {
  __m512 v;
};
using Mask16 = __mmask16;

KVASIR_INLINE F32x16 splat(float x) {
  return {_mm512_set1_ps(x)};
}
KVASIR_INLINE F32x16 load16(const float* p) {
  return {_mm512_loadu_ps(p)};
}
KVASIR_INLINE void store16(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}

KVASIR_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
KVASIR_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
KVASIR_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
KVASIR_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
KVASIR_INLINE F32x16 negate(F32x16 a) {
  return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0F))};
}
KVASIR_INLINE F32x16 larger(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}

// (bits << 23) + add, as a float.
KVASIR_INLINE F32x16 exponent_from_low_bits(F32x16 a, int add) {
  const __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(a.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(add)))};
}
// a < b ? x : y
KVASIR_INLINE F32x16 select_if_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_mov_ps(y.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v)};
}

// The first n elements, n < 16; the others are zero and not read (not written).
KVASIR_INLINE Mask16 first_elements(size_t n) {
  return static_cast<Mask16>((1U << n) - 1U);
}
KVASIR_INLINE F32x16 load16_first(const float* p, size_t n) {
  return {_mm512_maskz_loadu_ps(first_elements(n), p)};
}
KVASIR_INLINE void store16_first(float* p, size_t n, F32x16 a) {
  _mm512_mask_storeu_ps(p, first_elements(n), a.v);
}

KVASIR_INLINE F32x16 load16_f16(const void* p) {
  return {_mm512_cvtph_ps(load256(p))};
}
KVASIR_INLINE void store16_f16(void* p, F32x16 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
KVASIR_INLINE F32x16 load16_bf16(const void* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16))};
}
// The first two folds of rule16: 16 -> 8 -> 4.
KVASIR_INLINE Floats4 fold_to_4(F32x16 a) {
  const __m256 folded = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps(folded, 1));
}

// Nearest integers, ties to even.
struct I32x16 {
  __m512i v;
};
KVASIR_INLINE I32x16 round_to_even(F32x16 a) {
  return {_mm512_cvtps_epi32(a.v)};
}
KVASIR_INLINE I32x16 at_most_127(I32x16 a) {
  return {_mm512_min_epi32(a.v, _mm512_set1_epi32(127))};
}
// For values in -128..127.
KVASIR_INLINE void store16_bytes(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

// The bits of |a|: as integers they are ordered like the magnitudes, infinity and NaN above all.
KVASIR_INLINE I32x16 magnitude_bits(F32x16 a) {
  return {_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff))};
}
KVASIR_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
KVASIR_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
KVASIR_INLINE __m256i low8(I32x16 a) {
  return _mm512_castsi512_si256(a.v);
}
KVASIR_INLINE __m256i high8(I32x16 a) {
  return _mm512_extracti64x4_epi64(a.v, 1);
}
// Bit i: element i is x.
KVASIR_INLINE uint32_t which_are(I32x16 a, int x) {
  return _mm512_cmpeq_epi32_mask(a.v, _mm512_set1_epi32(x));
}

#else

struct F32x16 {
  __m256 low, high;
};

KVASIR_INLINE F32x16 splat(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
KVASIR_INLINE F32x16 load16(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
KVASIR_INLINE void store16(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}

KVASIR_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
KVASIR_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
KVASIR_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
KVASIR_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
KVASIR_INLINE F32x16 negate(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}
KVASIR_INLINE F32x16 larger(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

// (bits << 23) + add, as a float.
KVASIR_INLINE F32x16 exponent_from_low_bits(F32x16 a, int add) {
  const auto half = [add](__m256 v) __attribute__((always_inline)) {
    const __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(v), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(add)));
  };
  return {half(a.low), half(a.high)};
}
// a < b ? x : y
KVASIR_INLINE F32x16 select_if_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}

// The first n elements, n < 16; the others are zero and not read (not written).
struct Mask16 {
  __m256i low, high;
};
KVASIR_INLINE Mask16 first_elements(size_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
  return {_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
          _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}
KVASIR_INLINE F32x16 load16_first(const float* p, size_t n) {
  const Mask16 mask = first_elements(n);
  return {_mm256_maskload_ps(p, mask.low), _mm256_maskload_ps(p + 8, mask.high)};
}
KVASIR_INLINE void store16_first(float* p, size_t n, F32x16 a) {
  const Mask16 mask = first_elements(n);
  _mm256_maskstore_ps(p, mask.low, a.low);
  _mm256_maskstore_ps(p + 8, mask.high, a.high);
}

KVASIR_INLINE F32x16 load16_f16(const void* p) {
  const uint8_t* bytes = static_cast<const uint8_t*>(p);
  return {_mm256_cvtph_ps(load128(bytes)), _mm256_cvtph_ps(load128(bytes + 16))};
}
KVASIR_INLINE void store16_f16(void* p, F32x16 a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm256_set_m128i(_mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT),
                                       _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT)));
}
KVASIR_INLINE F32x16 load16_bf16(const void* p) {
  const uint8_t* bytes = static_cast<const uint8_t*>(p);
  const auto half = [](__m128i v) __attribute__((always_inline)) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  };
  return {half(load128(bytes)), half(load128(bytes + 16))};
}
// The first two folds of rule16: 16 -> 8 -> 4.
KVASIR_INLINE Floats4 fold_to_4(F32x16 a) {
  const __m256 folded = _mm256_add_ps(a.low, a.high);
  return _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps(folded, 1));
}

// Nearest integers, ties to even.
struct I32x16 {
  __m256i low, high;
};
KVASIR_INLINE I32x16 round_to_even(F32x16 a) {
  return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)};
}
KVASIR_INLINE I32x16 at_most_127(I32x16 a) {
  const __m256i limit = _mm256_set1_epi32(127);
  return {_mm256_min_epi32(a.low, limit), _mm256_min_epi32(a.high, limit)};
}
// For values in -128..127.
KVASIR_INLINE void store16_bytes(int8_t* p, I32x16 a) {
  const auto to_words = [](__m256i v) __attribute__((always_inline)) {
    return _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(to_words(a.low), to_words(a.high)));
}

// The bits of |a|: as integers they are ordered like the magnitudes, infinity and NaN above all.
KVASIR_INLINE I32x16 magnitude_bits(F32x16 a) {
  const __m256i mask = _mm256_set1_epi32(0x7fffffff);
  return {_mm256_and_si256(_mm256_castps_si256(a.low), mask),
          _mm256_and_si256(_mm256_castps_si256(a.high), mask)};
}
KVASIR_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
KVASIR_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
KVASIR_INLINE __m256i low8(I32x16 a) {
  return a.low;
}
KVASIR_INLINE __m256i high8(I32x16 a) {
  return a.high;
}
// Bit i: element i is x.
KVASIR_INLINE uint32_t which_are(I32x16 a, int x) {
  const __m256i wanted = _mm256_set1_epi32(x);
  const auto half = [wanted](__m256i v) __attribute__((always_inline)) {
    return static_cast<uint32_t>(
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, wanted))));
  };
  return half(a.high) << 8 | half(a.low);
}

#endif

KVASIR_INLINE int largest(I32x16 a) {
  const __m256i by8 = _mm256_max_epi32(low8(a), high8(a));
  __m128i v = _mm_max_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_max_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return _mm_cvtsi128_si32(v);
}

KVASIR_INLINE int sum_of(I32x16 a) {
  const __m256i by8 = _mm256_add_epi32(low8(a), high8(a));
  __m128i v = _mm_add_epi32(_mm256_castsi256_si128(by8), _mm256_extracti128_si256(by8, 1));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
  v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xb1));
  return _mm_cvtsi128_si32(v);
}

KVASIR_INLINE float square_root(float x) {
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

// The folds of rule16, down to one float.
KVASIR_INLINE float fold(F32x16 a) {
  __m128 v = fold_to_4(a);
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_shuffle_ps(v, v, 1)));
}
// The same for four sums at once: element i is fold(a[i]).
KVASIR_INLINE Floats4 fold_four(const F32x16* a) {
  const __m128 a0 = fold_to_4(a[0]);
  const __m128 a1 = fold_to_4(a[1]);
  const __m128 a2 = fold_to_4(a[2]);
  const __m128 a3 = fold_to_4(a[3]);
  const __m128 first = _mm_add_ps(_mm_unpacklo_ps(a0, a1), _mm_unpackhi_ps(a0, a1));
  const __m128 second = _mm_add_ps(_mm_unpacklo_ps(a2, a3), _mm_unpackhi_ps(a2, a3));
  return _mm_add_ps(_mm_movelh_ps(first, second), _mm_movehl_ps(second, first));
}

KVASIR_INLINE float float_of_bits(int bits) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
}
// x to the nearest f16, ties to even, and back. False if that is infinite.
KVASIR_INLINE bool round_to_f16(float x, float& rounded) {
  const __m128i half = _mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT);
  if ((_mm_cvtsi128_si32(half) & 0x7fff) == 0x7c00) return false;
  rounded = _mm_cvtss_f32(_mm_cvtph_ps(half));
  return true;
}

// Looks for f16 that are not finite.
class NonFiniteF16 {
 public:
  KVASIR_INLINE void look_at_16(const void* p) {
    const __m256i mask = _mm256_set1_epi16(0x7c00);
    found_ = _mm256_or_si256(found_, _mm256_cmpeq_epi16(_mm256_and_si256(load256(p), mask), mask));
  }
  KVASIR_INLINE bool found() const { return _mm256_testz_si256(found_, found_) == 0; }

 private:
  __m256i found_ = _mm256_setzero_si256();
};

}  // namespace
}  // namespace kvasir::kernels
