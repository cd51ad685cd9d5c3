// Weight formats with blocks of 32 values, against Q8_0. A vector holds kBlocks blocks: two with
// AVX-512, one with AVX2. simd_matmul.h walks over rows and blocks.
//
// A format here is a struct of static functions and constants:
//   kBytes         of a block
//   kIsSigned      whether unpacked weights are signed bytes, or unsigned ones of at most 128
//   kExcess        what an unsigned weight is larger than it means
//   kHasMinimum    whether there is a minimum, to be multiplied with the sum of x
//   unpack(a, b)   the weights of blocks a and b (b only with AVX-512), in order
//   read_scales()  of one block of every row of a tile
#pragma once

#include "kernels/activation.h"
#include "kernels/simd_iq4xs.h"

namespace kvasir::kernels {
namespace {

inline constexpr int kBlocks = kVectorBytes / 32;

struct Activation32 {
  Ints q;
  float d[kBlocks];
  int32_t sum[kBlocks];
};

// Blocks x[0] and, with AVX-512, x[1]; only x[0] if n is 1.
KVASIR_INLINE Activation32 prepare32(const BlockQ8_0* x, size_t n) {
  Activation32 a;
  a.d[0] = x[0].d;
  a.sum[0] = x[0].sum;
#if defined(__AVX512F__)
  a.q = _mm512_castsi256_si512(load256(x[0].q));
  if (n > 1) {
    a.q = _mm512_inserti64x4(a.q, load256(x[1].q), 1);
    a.d[1] = x[1].d;
    a.sum[1] = x[1].sum;
  }
#else
  static_cast<void>(n);
  a.q = load(x[0].q);
#endif
  return a;
}

// 16 bytes per block: the low nibbles are values 0..15, the high ones 16..31.
KVASIR_INLINE Ints unpack_nibbles(const uint8_t* a, const uint8_t* b) {
#if defined(__AVX512F__)
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(a)), load128(b), 1);
  const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
                                                 _mm512_castsi256_si512(both));
  return bit_and(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), all8(0x0f));
#elif defined(__aarch64__)
  static_cast<void>(b);
  return nibbles(load128(a));
#else
  static_cast<void>(b);
  const __m128i bytes = load128(a);
  return bit_and(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), all8(0x0f));
#endif
}

// `weights` plus 16 where the 32 bits at a (b) are set.
KVASIR_INLINE Ints add_fifth_bits(Ints weights, const uint8_t* a, const uint8_t* b) {
#if defined(__AVX512F__)
  const __mmask64 bits = static_cast<uint64_t>(load_u32(b)) << 32 | load_u32(a);
  return _mm512_mask_add_epi8(weights, bits, weights, all8(16));
#elif defined(__aarch64__)
  static_cast<void>(b);
  return bit_or(weights, bit_and(masks_of_bits(load_u32(a)), all8(16)));
#else
  static_cast<void>(b);
  // Byte i of the result looks at bit i % 8 of byte i / 8.
  const Ints spread =
      shuffle8(all32(static_cast<int>(load_u32(a))),
               _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const Ints own_bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const Ints is_set = _mm256_cmpeq_epi8(bit_and(spread, own_bit), own_bit);
  return bit_or(weights, bit_and(is_set, all8(16)));
#endif
}

struct ScaleF16 {
  static constexpr bool kHasMinimum = false;
  KVASIR_INLINE static void read_scales(const uint8_t* const* rows, size_t offset, Floats& d,
                                        Floats&) {
    d = load_f16_of_rows(rows, offset);
  }
};

struct ScaleAndMinimumF16 {
  static constexpr bool kHasMinimum = true;
  KVASIR_INLINE static void read_scales(const uint8_t* const* rows, size_t offset, Floats& d,
                                        Floats& minimum) {
    const Ints both = load_u32_of_rows(rows, offset);
    d = floats_of_low_f16(both);
    minimum = floats_of_low_f16(shift_right32<16>(both));
  }
};

// d f16 @0, nibbles @2.
struct WeightsQ4_0 : ScaleF16 {
  static constexpr size_t kBytes = 18;
  static constexpr bool kIsSigned = false;
  static constexpr int kExcess = 8;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return unpack_nibbles(a + 2, b + 2);
  }
};

// d f16 @0, minimum f16 @2, nibbles @4.
struct WeightsQ4_1 : ScaleAndMinimumF16 {
  static constexpr size_t kBytes = 20;
  static constexpr bool kIsSigned = false;
  static constexpr int kExcess = 0;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return unpack_nibbles(a + 4, b + 4);
  }
};

// d f16 @0, fifth bits @2, nibbles @6.
struct WeightsQ5_0 : ScaleF16 {
  static constexpr size_t kBytes = 22;
  static constexpr bool kIsSigned = false;
  static constexpr int kExcess = 16;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return add_fifth_bits(unpack_nibbles(a + 6, b + 6), a + 2, b + 2);
  }
};

// d f16 @0, minimum f16 @2, fifth bits @4, nibbles @8.
struct WeightsQ5_1 : ScaleAndMinimumF16 {
  static constexpr size_t kBytes = 24;
  static constexpr bool kIsSigned = false;
  static constexpr int kExcess = 0;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return add_fifth_bits(unpack_nibbles(a + 8, b + 8), a + 4, b + 4);
  }
};

// d f16 @0, signed bytes @2.
struct WeightsQ8_0 : ScaleF16 {
  static constexpr size_t kBytes = 34;
  static constexpr bool kIsSigned = true;
  static constexpr int kExcess = 0;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
#if defined(__AVX512F__)
    return _mm512_inserti64x4(_mm512_castsi256_si512(load256(a + 2)), load256(b + 2), 1);
#else
    static_cast<void>(b);
    return load(a + 2);
#endif
  }
};

// d f16 @0, nibbles @2 that index a table.
struct WeightsIQ4NL : ScaleF16 {
  static constexpr size_t kBytes = 18;
  static constexpr bool kIsSigned = true;
  static constexpr int kExcess = 0;
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return shuffle8(iq4_values(), unpack_nibbles(a + 2, b + 2));
  }
};

// Exponent @0, nibbles @1 that index twice the E2M1 values; here 12 more, to be unsigned.
struct WeightsMXFP4 {
  static constexpr size_t kBytes = 17;
  static constexpr bool kIsSigned = false;
  static constexpr int kExcess = 12;
  static constexpr bool kHasMinimum = false;

  KVASIR_INLINE static Ints values() {
    return all_lanes(lane8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  }
  KVASIR_INLINE static Ints unpack(const uint8_t* a, const uint8_t* b) {
    return shuffle8(values(), unpack_nibbles(a + 1, b + 1));
  }

  // 2^(e - 128): e - 1 in the exponent field, and for e = 0 and 1 a subnormal with one bit.
  KVASIR_INLINE static void read_scales(const uint8_t* const* rows, size_t offset, Floats& d,
                                        Floats&) {
    const Ints e = bit_and(load_u32_of_rows(rows, offset), all32(0xff));
    const Ints normal = shift_left32<23>(sub32(e, all32(1)));
    const Ints subnormal = shift_left32(all32(1 << 21), e);
    d = bits_as_floats(select_if_less32(e, all32(2), subnormal, normal));
  }
};

}  // namespace
}  // namespace kvasir::kernels
