// Byte and integer vectors of the instruction set that the including file is compiled for, under
// one set of names, so that a weight format is written once.
//
// A vector is kLanes lanes of 16 bytes: 4 with AVX-512, 2 with AVX2. Everything here lives in an
// anonymous namespace: each of these files gets its own copy, and code for a newer processor can
// never be linked into an older path. For the same reason nothing here calls std:: functions.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the deliberately undefined operands in its own AVX-512 header for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define KVASIR_INLINE inline __attribute__((always_inline))
// Before a loop with a constant count whose arrays must become registers. Not with sanitizers: what
// they add to each access, unrolled, takes the compiler many minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVASIR_UNROLL
#elif defined(__clang__)
#define KVASIR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KVASIR_UNROLL _Pragma("GCC unroll 16")
#endif

namespace kvasir::kernels {
namespace {

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
KVASIR_INLINE Ints all_lanes(__m128i x) {
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

// Lane i of the result comes from p[i * stride].
KVASIR_INLINE Ints load_lanes(const uint8_t* const* p, size_t stride, size_t offset) {
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
KVASIR_INLINE Ints all_lanes(__m128i x) {
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

// Lane i of the result comes from p[i * stride].
KVASIR_INLINE Ints load_lanes(const uint8_t* const* p, size_t stride, size_t offset) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p[0] + offset))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[stride] + offset)), 1);
}

// Lane i of the result is the sum of the lanes of parts[i].
KVASIR_INLINE Ints add_lanes(const Ints* parts) {
  return add32(_mm256_permute2x128_si256(parts[0], parts[1], 0x20),
               _mm256_permute2x128_si256(parts[0], parts[1], 0x31));
}
KVASIR_INLINE void add_lanes_of_blocks(const Ints* parts, Ints* sums) {
  sums[0] = add_lanes(parts);
}

#endif

// Weight rows that one tile computes together, one per 32-bit element of a vector.
inline constexpr int kTileRows = 4 * kLanes;
inline constexpr int kVectorBytes = 16 * kLanes;

// Element i of each lane is the sum of that lane of parts[i].
KVASIR_INLINE Ints add_within_lanes(const Ints* parts) {
  const Ints a = add32(low32(parts[0], parts[1]), high32(parts[0], parts[1]));
  const Ints b = add32(low32(parts[2], parts[3]), high32(parts[2], parts[3]));
  return add32(low64(a, b), high64(a, b));
}

// Element i of each lane is element 0 (3) of that lane of parts[i].
KVASIR_INLINE Ints first_of_lanes(const Ints* parts) {
  return low64(low32(parts[0], parts[1]), low32(parts[2], parts[3]));
}
KVASIR_INLINE Ints last_of_lanes(const Ints* parts) {
  return high64(high32(parts[0], parts[1]), high32(parts[2], parts[3]));
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

KVASIR_INLINE __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
KVASIR_INLINE __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

KVASIR_INLINE uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KVASIR_INLINE short load_s16(const uint8_t* p) {
  short v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// The f16 at p[r] + offset of each row of a tile.
KVASIR_INLINE Floats load_f16_of_rows(const uint8_t* const* p, size_t offset) {
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
KVASIR_INLINE Ints load_u32_of_rows(const uint8_t* const* p, size_t offset) {
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

// Asks for the cache lines at p, p + 64, ... below p + bytes: into the second-level cache, or into
// the first one, too.
template <size_t bytes>
KVASIR_INLINE void fetch(const uint8_t* p) {
  KVASIR_UNROLL
  for (size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T1);
  }
}
template <size_t bytes>
KVASIR_INLINE void fetch_near(const uint8_t* p) {
  KVASIR_UNROLL
  for (size_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
}

// The first n_rows elements to y, for a tile's results.
KVASIR_INLINE void store_tile(Floats v, size_t n_rows, float* y) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1U << n_rows) - 1U), v);
#else
  if (n_rows == kTileRows) {
    _mm256_storeu_ps(y, v);
    return;
  }
  float values[kTileRows];
  _mm256_storeu_ps(values, v);
  for (size_t r = 0; r < n_rows; ++r) y[r] = values[r];
#endif
}

}  // namespace
}  // namespace kvasir::kernels
