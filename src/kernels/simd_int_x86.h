// simd_int.h for AVX-512 and AVX2.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the deliberately undefined operands in its own AVX-512 header for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "kernels/simd_common.h"

namespace kvasir::kernels {
namespace {

// One lane, and two of them, whatever the width of a vector is.
using Lane = __m128i;
using TwoLanes = __m256i;

KVASIR_INLINE Lane load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
KVASIR_INLINE TwoLanes load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
// In memory order.
KVASIR_INLINE Lane lane8(int b0, int b1, int b2, int b3, int b4, int b5, int b6, int b7, int b8,
                         int b9, int b10, int b11, int b12, int b13, int b14, int b15) {
  const auto byte = [](int b) __attribute__((always_inline)) {
    return static_cast<char>(b);
  };
  return _mm_setr_epi8(byte(b0), byte(b1), byte(b2), byte(b3), byte(b4), byte(b5), byte(b6),
                       byte(b7), byte(b8), byte(b9), byte(b10), byte(b11), byte(b12), byte(b13),
                       byte(b14), byte(b15));
}
KVASIR_INLINE Lane lane16(short a, short b, short c, short d, short e, short f, short g, short h) {
  return _mm_setr_epi16(a, b, c, d, e, f, g, h);
}
KVASIR_INLINE Lane lane32(int a, int b, int c, int d) {
  return _mm_setr_epi32(a, b, c, d);
}
KVASIR_INLINE Lane lane64(long long a, long long b) {
  return _mm_set_epi64x(b, a);
}
KVASIR_INLINE Lane low_lane(TwoLanes v) {
  return _mm256_castsi256_si128(v);
}
KVASIR_INLINE Lane high_lane(TwoLanes v) {
  return _mm256_extracti128_si256(v, 1);
}
// Sums of neighbouring 16-bit elements, those of a first.
KVASIR_INLINE Lane add_neighbours16(Lane a, Lane b) {
  return _mm_hadd_epi16(a, b);
}
// The 16-bit elements 0, 2, 4, ... in the low lane, the others in the high one.
KVASIR_INLINE TwoLanes even_odd16(TwoLanes v) {
  const Lane order = lane8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order)), 0xd8);
}

#if defined(__AVX512F__)

using Ints = __m512i;
using Floats = __m512;
inline constexpr int kLanes = 4;

KVASIR_INLINE Ints zero() {
  return _mm512_setzero_si512();
}
KVASIR_INLINE Ints load(const void* p) {
  return _mm512_loadu_si512(p);
}
KVASIR_INLINE void store(void* p, Ints v) {
  _mm512_storeu_si512(p, v);
}
KVASIR_INLINE Ints all8(int x) {
  return _mm512_set1_epi8(static_cast<char>(x));
}
KVASIR_INLINE Ints all16(int x) {
  return _mm512_set1_epi16(static_cast<short>(x));
}
KVASIR_INLINE Ints all32(int x) {
  return _mm512_set1_epi32(x);
}
KVASIR_INLINE Ints all_lanes(Lane x) {
  return _mm512_broadcast_i32x4(x);
}
KVASIR_INLINE Ints bit_and(Ints a, Ints b) {
  return _mm512_and_si512(a, b);
}
KVASIR_INLINE Ints bit_or(Ints a, Ints b) {
  return _mm512_or_si512(a, b);
}
KVASIR_INLINE Ints bit_xor(Ints a, Ints b) {
  return _mm512_xor_si512(a, b);
}
KVASIR_INLINE Ints add8(Ints a, Ints b) {
  return _mm512_add_epi8(a, b);
}
KVASIR_INLINE Ints add16(Ints a, Ints b) {
  return _mm512_add_epi16(a, b);
}
KVASIR_INLINE Ints add32(Ints a, Ints b) {
  return _mm512_add_epi32(a, b);
}
KVASIR_INLINE Ints sub32(Ints a, Ints b) {
  return _mm512_sub_epi32(a, b);
}
KVASIR_INLINE Ints mul16(Ints a, Ints b) {
  return _mm512_mullo_epi16(a, b);
}
KVASIR_INLINE Ints multiply_pairs_u8_s8(Ints a, Ints b) {
  return _mm512_maddubs_epi16(a, b);
}
KVASIR_INLINE Ints multiply_pairs_s16(Ints a, Ints b) {
  return _mm512_madd_epi16(a, b);
}
KVASIR_INLINE Ints shuffle8(Ints v, Ints index) {
  return _mm512_shuffle_epi8(v, index);
}
KVASIR_INLINE Ints shift_right32(Ints v, Ints n) {
  return _mm512_srlv_epi32(v, n);
}
KVASIR_INLINE Ints shift_right64(Ints v, Ints n) {
  return _mm512_srlv_epi64(v, n);
}
KVASIR_INLINE Ints shift_left32(Ints v, Ints n) {
  return _mm512_sllv_epi32(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_right16(Ints v) {
  return n == 0 ? v : _mm512_srli_epi16(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_left16(Ints v) {
  return n == 0 ? v : _mm512_slli_epi16(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_left32(Ints v) {
  return _mm512_slli_epi32(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_right32(Ints v) {
  return _mm512_srli_epi32(v, n);
}
KVASIR_INLINE Ints low32(Ints a, Ints b) {
  return _mm512_unpacklo_epi32(a, b);
}
KVASIR_INLINE Ints high32(Ints a, Ints b) {
  return _mm512_unpackhi_epi32(a, b);
}
KVASIR_INLINE Ints low64(Ints a, Ints b) {
  return _mm512_unpacklo_epi64(a, b);
}
KVASIR_INLINE Ints high64(Ints a, Ints b) {
  return _mm512_unpackhi_epi64(a, b);
}

KVASIR_INLINE Floats to_floats(Ints v) {
  return _mm512_cvtepi32_ps(v);
}
KVASIR_INLINE Floats all_floats(float x) {
  return _mm512_set1_ps(x);
}
KVASIR_INLINE Floats bits_as_floats(Ints v) {
  return _mm512_castsi512_ps(v);
}
// The f16 in the low halves of 32-bit elements.
KVASIR_INLINE Floats floats_of_low_f16(Ints v) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

// a < b ? x : y for each 32-bit element.
KVASIR_INLINE Ints select_if_less32(Ints a, Ints b, Ints x, Ints y) {
  return _mm512_mask_mov_epi32(y, _mm512_cmplt_epi32_mask(a, b), x);
}

// Lane i of the result comes from p[i * stride].
template <typename Rows>
KVASIR_INLINE Ints load_lanes(Rows p, size_t stride, size_t offset) {
  const auto lane = [=](size_t i) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[i * stride] + offset));
  };
  Ints v = _mm512_castsi128_si512(lane(0));
  v = _mm512_inserti32x4(v, lane(1), 1);
  v = _mm512_inserti32x4(v, lane(2), 2);
  return _mm512_inserti32x4(v, lane(3), 3);
}

// Lane i of the result is the sum of the lanes of parts[i].
KVASIR_INLINE Ints add_lanes(const Ints* parts) {
  const Ints a = add32(_mm512_shuffle_i32x4(parts[0], parts[1], 0x44),
                       _mm512_shuffle_i32x4(parts[0], parts[1], 0xee));
  const Ints b = add32(_mm512_shuffle_i32x4(parts[2], parts[3], 0x44),
                       _mm512_shuffle_i32x4(parts[2], parts[3], 0xee));
  return add32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}
// The same for vectors of blocks of two lanes each: sums[k] has the sums of the lanes of block k.
KVASIR_INLINE void add_lanes_of_blocks(const Ints* parts, Ints* sums) {
  const Ints a = add32(_mm512_shuffle_i32x4(parts[0], parts[1], 0x88),
                       _mm512_shuffle_i32x4(parts[0], parts[1], 0xdd));
  const Ints b = add32(_mm512_shuffle_i32x4(parts[2], parts[3], 0x88),
                       _mm512_shuffle_i32x4(parts[2], parts[3], 0xdd));
  sums[0] = _mm512_shuffle_i32x4(a, b, 0x88);
  sums[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
}

#else

using Ints = __m256i;
using Floats = __m256;
inline constexpr int kLanes = 2;

KVASIR_INLINE Ints zero() {
  return _mm256_setzero_si256();
}
KVASIR_INLINE Ints load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
KVASIR_INLINE void store(void* p, Ints v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
KVASIR_INLINE Ints all8(int x) {
  return _mm256_set1_epi8(static_cast<char>(x));
}
KVASIR_INLINE Ints all16(int x) {
  return _mm256_set1_epi16(static_cast<short>(x));
}
KVASIR_INLINE Ints all32(int x) {
  return _mm256_set1_epi32(x);
}
KVASIR_INLINE Ints all_lanes(Lane x) {
  return _mm256_broadcastsi128_si256(x);
}
KVASIR_INLINE Ints bit_and(Ints a, Ints b) {
  return _mm256_and_si256(a, b);
}
KVASIR_INLINE Ints bit_or(Ints a, Ints b) {
  return _mm256_or_si256(a, b);
}
KVASIR_INLINE Ints add8(Ints a, Ints b) {
  return _mm256_add_epi8(a, b);
}
KVASIR_INLINE Ints add16(Ints a, Ints b) {
  return _mm256_add_epi16(a, b);
}
KVASIR_INLINE Ints add32(Ints a, Ints b) {
  return _mm256_add_epi32(a, b);
}
KVASIR_INLINE Ints sub32(Ints a, Ints b) {
  return _mm256_sub_epi32(a, b);
}
KVASIR_INLINE Ints mul16(Ints a, Ints b) {
  return _mm256_mullo_epi16(a, b);
}
KVASIR_INLINE Ints multiply_pairs_u8_s8(Ints a, Ints b) {
  return _mm256_maddubs_epi16(a, b);
}
KVASIR_INLINE Ints multiply_pairs_s16(Ints a, Ints b) {
  return _mm256_madd_epi16(a, b);
}
KVASIR_INLINE Ints shuffle8(Ints v, Ints index) {
  return _mm256_shuffle_epi8(v, index);
}
KVASIR_INLINE Ints shift_right32(Ints v, Ints n) {
  return _mm256_srlv_epi32(v, n);
}
KVASIR_INLINE Ints shift_right64(Ints v, Ints n) {
  return _mm256_srlv_epi64(v, n);
}
KVASIR_INLINE Ints shift_left32(Ints v, Ints n) {
  return _mm256_sllv_epi32(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_right16(Ints v) {
  return n == 0 ? v : _mm256_srli_epi16(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_left16(Ints v) {
  return n == 0 ? v : _mm256_slli_epi16(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_left32(Ints v) {
  return _mm256_slli_epi32(v, n);
}
template <int n>
KVASIR_INLINE Ints shift_right32(Ints v) {
  return _mm256_srli_epi32(v, n);
}
KVASIR_INLINE Ints low32(Ints a, Ints b) {
  return _mm256_unpacklo_epi32(a, b);
}
KVASIR_INLINE Ints high32(Ints a, Ints b) {
  return _mm256_unpackhi_epi32(a, b);
}
KVASIR_INLINE Ints low64(Ints a, Ints b) {
  return _mm256_unpacklo_epi64(a, b);
}
KVASIR_INLINE Ints high64(Ints a, Ints b) {
  return _mm256_unpackhi_epi64(a, b);
}

KVASIR_INLINE Floats to_floats(Ints v) {
  return _mm256_cvtepi32_ps(v);
}
KVASIR_INLINE Floats all_floats(float x) {
  return _mm256_set1_ps(x);
}
KVASIR_INLINE Floats bits_as_floats(Ints v) {
  return _mm256_castsi256_ps(v);
}
// The f16 in the low halves of 32-bit elements.
KVASIR_INLINE Floats floats_of_low_f16(Ints v) {
  const Ints halves = bit_and(v, all32(0xffff));
  return _mm256_cvtph_ps(
      _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
}

// a < b ? x : y for each 32-bit element.
KVASIR_INLINE Ints select_if_less32(Ints a, Ints b, Ints x, Ints y) {
  return _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi32(b, a));
}
KVASIR_INLINE Ints low_lanes(Ints a, Ints b) {
  return _mm256_permute2x128_si256(a, b, 0x20);
}
KVASIR_INLINE Ints high_lanes(Ints a, Ints b) {
  return _mm256_permute2x128_si256(a, b, 0x31);
}

// Lane i of the result comes from p[i * stride].
template <typename Rows>
KVASIR_INLINE Ints load_lanes(Rows p, size_t stride, size_t offset) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p[0] + offset))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[stride] + offset)), 1);
}

// Lane i of the result is the sum of the lanes of parts[i].
KVASIR_INLINE Ints add_lanes(const Ints* parts) {
  return add32(low_lanes(parts[0], parts[1]), high_lanes(parts[0], parts[1]));
}
KVASIR_INLINE void add_lanes_of_blocks(const Ints* parts, Ints* sums) {
  sums[0] = add_lanes(parts);
}

#endif

// Element i of each lane is the sum of that lane of parts[i].
KVASIR_INLINE Ints add_within_lanes(const Ints* parts) {
  const Ints a = add32(low32(parts[0], parts[1]), high32(parts[0], parts[1]));
  const Ints b = add32(low32(parts[2], parts[3]), high32(parts[2], parts[3]));
  return add32(low64(a, b), high64(a, b));
}

// acc + a[2i] * b[2i] + a[2i + 1] * b[2i + 1] in 32 bits.
KVASIR_INLINE Ints add_products_s16(Ints acc, Ints a, Ints b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(acc, a, b);
#else
  return add32(acc, multiply_pairs_s16(a, b));
#endif
}

// Signed bytes times signed bytes, summed to 32 bits, in the cheapest way this processor has. With
// VNNI one factor is made unsigned by adding 128, so that 128 * (sum of x) is too much:
// kSignedExcess. Without, |w| times x with the sign of w: a pair is at most 2 * 128 * 127, which
// fits in 16 bits because x is never -128.
#if defined(__AVX512VNNI__)
inline constexpr int kSignedExcess = 128;
#else
inline constexpr int kSignedExcess = 0;
#endif

// Pairs |w| * (x * sign(w)) in 16 bits.
#if !defined(__AVX512VNNI__)
KVASIR_INLINE Ints multiply_pairs_s8(Ints w, Ints x) {
#if defined(__AVX512F__)
  const Ints signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), zero(), x);
  return multiply_pairs_u8_s8(_mm512_abs_epi8(w), signed_x);
#else
  return multiply_pairs_u8_s8(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
#endif
}
#endif

// Sums of four products each; w at most 128 if unsigned.
KVASIR_INLINE Ints dot_u8_s8(Ints w, Ints x) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(zero(), w, x);
#else
  return multiply_pairs_s16(multiply_pairs_u8_s8(w, x), all16(1));
#endif
}

KVASIR_INLINE Ints dot_s8_s8(Ints w, Ints x) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(zero(), bit_xor(w, all8(0x80)), x);
#else
  return multiply_pairs_s16(multiply_pairs_s8(w, x), all16(1));
#endif
}

// The f16 at p[r] + offset of each row of a tile.
template <typename Rows>
KVASIR_INLINE Floats load_f16_of_rows(Rows p, size_t offset) {
  const auto at = [=](int r) __attribute__((always_inline)) {
    return load_s16(p[r] + offset);
  };
  const __m128i first = _mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
#if defined(__AVX512F__)
  const __m128i second =
      _mm_setr_epi16(at(8), at(9), at(10), at(11), at(12), at(13), at(14), at(15));
  return _mm512_cvtph_ps(_mm256_set_m128i(second, first));
#else
  return _mm256_cvtph_ps(first);
#endif
}

// The 32 bits at p[r] + offset of each row of a tile.
template <typename Rows>
KVASIR_INLINE Ints load_u32_of_rows(Rows p, size_t offset) {
  const auto at = [=](int r) __attribute__((always_inline)) {
    return static_cast<int>(load_u32(p[r] + offset));
  };
  const __m256i first = _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
#if defined(__AVX512F__)
  const __m256i second =
      _mm256_setr_epi32(at(8), at(9), at(10), at(11), at(12), at(13), at(14), at(15));
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
#else
  return first;
#endif
}

// The first n_rows elements to y, for a tile's results.
KVASIR_INLINE void store_tile(Floats v, size_t n_rows, float* y) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1U << n_rows) - 1U), v);
#else
  if (n_rows == 8) {
    _mm256_storeu_ps(y, v);
    return;
  }
  float values[8];
  _mm256_storeu_ps(values, v);
  for (size_t r = 0; r < n_rows; ++r) y[r] = values[r];
#endif
}

}  // namespace
}  // namespace kvasir::kernels
