// Weights in the layout that a mat-mul over many activation rows wants: a panel is 256 values of
// kTileRows rows, unpacked once into unsigned bytes, with one row in each 32-bit element. Then one
// vpdpbusd multiplies four values of 16 rows with four values of one activation row, which are the
// same for all rows and come as a broadcast; no sum ever has to be gathered across elements.
//
// Only for processors with VNNI: without it a row-by-row dot product costs no more
// (simd_kquants.h), and its scales go in for free.
#pragma once

#include "kernels/simd_block32.h"
#include "kernels/simd_iq4xs.h"
#include "kernels/simd_kquants.h"
#include "kernels/simd_kquants_low.h"

#if defined(__AVX512VNNI__)

namespace kvasir::kernels {
namespace {

// Vectors of four values per row in 256 values.
inline constexpr int kPanelVectors = 64;

// 256 values of formats that have blocks of 256. Vector k holds values 4k..4k+3; the scale of
// group j belongs to values j * 256 / kGroups and following.
struct PanelK {
  alignas(64) uint8_t w[kPanelVectors][64];
  alignas(64) uint8_t scales[16][64];   // 32 bits per row
  alignas(64) uint8_t minimums[8][64];  // vector i: 16 bits for group 2i, 16 for group 2i + 1
  Floats d;
  Floats d_minimum;
};

// Four vectors of four 32-bit elements per lane, transposed within the lanes. If in[i] holds bytes
// of rows i, i + 4, i + 8 and i + 12, out[m] holds element m of every row, in row order.
KVASIR_INLINE void transpose_lanes(const Ints* in, Ints* out) {
  const Ints a = low32(in[0], in[1]);
  const Ints b = low32(in[2], in[3]);
  const Ints c = high32(in[0], in[1]);
  const Ints d = high32(in[2], in[3]);
  out[0] = low64(a, b);
  out[1] = high64(a, b);
  out[2] = low64(c, d);
  out[3] = high64(c, d);
}

// 16 bytes at `offset` of every row: out[m] holds bytes 4m..4m+3.
KVASIR_INLINE void load_transposed(const uint8_t* const* rows, size_t offset, Ints* out) {
  Ints lanes[4];
  KVASIR_UNROLL
  for (int i = 0; i < 4; ++i) lanes[i] = load_lanes(rows + i, 4, offset);
  transpose_lanes(lanes, out);
}

// Byte k of every 32-bit element, sign- or zero-extended.
template <int k>
KVASIR_INLINE Ints signed_byte(Ints v) {
  return _mm512_srai_epi32(_mm512_slli_epi32(v, 24 - 8 * k), 24);
}
template <int k>
KVASIR_INLINE Ints unsigned_byte(Ints v) {
  return bit_and(shift_right32<8 * k>(v), all32(0xff));
}
// Bytes 0 and 1 (`second`: 2 and 3) of every 32-bit element as 16-bit numbers.
KVASIR_INLINE Ints unsigned_pair(Ints v, bool second) {
  const __m128i index =
      second ? _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1)
             : _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  return shuffle8(v, all_lanes(index));
}
// Scales 4m..4m+3 out of the four bytes of an element.
template <bool is_signed>
KVASIR_INLINE void store_scales(PanelK& panel, int m, Ints bytes) {
  for_each_index<4>([&](auto k) __attribute__((always_inline)) {
    store(panel.scales[4 * m + k.value],
          is_signed ? signed_byte<k.value>(bytes) : unsigned_byte<k.value>(bytes));
  });
}
KVASIR_INLINE void store_minimums(PanelK& panel, int m, Ints bytes) {
  store(panel.minimums[2 * m], unsigned_pair(bytes, false));
  store(panel.minimums[2 * m + 1], unsigned_pair(bytes, true));
}
// The bytes of a tile's scales, 16 per row, four to an element.
KVASIR_INLINE void transpose_scales(const TileScales& scales, Ints* out) {
  Ints lanes[4];
  KVASIR_UNROLL
  for (int i = 0; i < 4; ++i) lanes[i] = load(scales.bytes[i]);
  transpose_lanes(lanes, out);
}

// How a format of 256 values fills a panel:
//   kGroups           scales per 256 values: 8 or 16
//   kExcessBits       if not 0: an unsigned weight is 2^kExcessBits larger than it means
//   unpack()          of the block at `offset` of every row
template <typename Weights>
struct PanelFormat;

// Q4_K, Q5_K: scales 0..7 are the first eight bytes, minimums the others.
KVASIR_INLINE void unpack_scales_and_minimums(const uint8_t* const* rows, size_t offset,
                                              PanelK& panel) {
  ScalesAndMinimums::Heads heads;
  ScalesAndMinimums::read_heads(rows, offset, heads);
  panel.d = heads.d;
  panel.d_minimum = heads.d_minimum;
  Ints bytes[4];
  transpose_scales(heads.scales, bytes);
  store_scales<false>(panel, 0, bytes[0]);
  store_scales<false>(panel, 1, bytes[1]);
  store_minimums(panel, 0, bytes[2]);
  store_minimums(panel, 1, bytes[3]);
}

template <>
struct PanelFormat<WeightsQ4K> {
  static constexpr int kGroups = 8;
  static constexpr int kExcessBits = 0;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    unpack_scales_and_minimums(rows, offset, panel);
    for (int chunk = 0; chunk < 8; ++chunk) {
      Ints bytes[4];
      load_transposed(rows, offset + 16 + 16 * static_cast<size_t>(chunk), bytes);
      uint8_t(*w)[64] = panel.w + 16 * (chunk / 2) + 4 * (chunk % 2);
      KVASIR_UNROLL
      for (int m = 0; m < 4; ++m) {
        store(w[m], bit_and(bytes[m], all8(0x0f)));
        store(w[m + 8], bit_and(shift_right16<4>(bytes[m]), all8(0x0f)));
      }
    }
  }
};

template <>
struct PanelFormat<WeightsQ5K> {
  static constexpr int kGroups = 8;
  static constexpr int kExcessBits = 0;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    unpack_scales_and_minimums(rows, offset, panel);
    Ints fifth[8];  // bit b belongs to run b
    load_transposed(rows, offset + 16, fifth);
    load_transposed(rows, offset + 32, fifth + 4);
    for_each_index<4>([&](auto p) __attribute__((always_inline)) {
      KVASIR_UNROLL
      for (int half = 0; half < 2; ++half) {
        Ints bytes[4];
        load_transposed(rows, offset + 48 + 32 * size_t{p.value} + 16 * static_cast<size_t>(half),
                        bytes);
        uint8_t(*w)[64] = panel.w + 16 * p.value + 4 * half;
        KVASIR_UNROLL
        for (int m = 0; m < 4; ++m) {
          const Ints bits = fifth[4 * half + m];
          const Ints low = p.value < 2 ? shift_left16<4 - 2 * (p.value % 2)>(bits)
                                       : shift_right16<2 * (p.value % 2)>(bits);
          const Ints high = p.value < 2 ? shift_left16<3 - 2 * (p.value % 2)>(bits)
                                        : shift_right16<1 + 2 * (p.value % 2)>(bits);
          store(w[m], bit_or(bit_and(bytes[m], all8(0x0f)), bit_and(low, all8(0x10))));
          store(w[m + 8],
                bit_or(bit_and(shift_right16<4>(bytes[m]), all8(0x0f)), bit_and(high, all8(0x10))));
        }
      }
    });
  }
};

template <>
struct PanelFormat<WeightsQ6K> {
  static constexpr int kGroups = 16;
  static constexpr int kExcessBits = 5;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    panel.d = load_f16_of_rows(rows, offset + 208);
    Ints scales[4];
    load_transposed(rows, offset + 192, scales);
    KVASIR_UNROLL
    for (int m = 0; m < 4; ++m) store_scales<true>(panel, m, scales[m]);
    const Ints low_mask = all8(0x0f);
    const Ints high_mask = all8(0x30);
    // A quarter: 16 bytes of each of two runs of low nibbles, and the bit pairs of all four runs.
    for (int quarter = 0; quarter < 4; ++quarter) {
      const size_t half = static_cast<size_t>(quarter / 2);
      const size_t at = 16 * static_cast<size_t>(quarter % 2);
      Ints first[4];
      Ints second[4];
      Ints high[4];
      load_transposed(rows, offset + 64 * half + at, first);
      load_transposed(rows, offset + 64 * half + 32 + at, second);
      load_transposed(rows, offset + 128 + 32 * half + at, high);
      uint8_t(*w)[64] = panel.w + 32 * (quarter / 2) + 4 * (quarter % 2);
      KVASIR_UNROLL
      for (int m = 0; m < 4; ++m) {
        store(w[m],
              bit_or(bit_and(first[m], low_mask), bit_and(shift_left16<4>(high[m]), high_mask)));
        store(w[m + 8],
              bit_or(bit_and(second[m], low_mask), bit_and(shift_left16<2>(high[m]), high_mask)));
        store(w[m + 16],
              bit_or(bit_and(shift_right16<4>(first[m]), low_mask), bit_and(high[m], high_mask)));
        store(w[m + 24], bit_or(bit_and(shift_right16<4>(second[m]), low_mask),
                                bit_and(shift_right16<2>(high[m]), high_mask)));
      }
    }
  }
};

// Runs 0..3 of half h are bit pairs 0..3 of its 32 bytes; bit 4h + w of the mask belongs to run w.
template <>
struct PanelFormat<WeightsQ3K> {
  static constexpr int kGroups = 16;
  static constexpr int kExcessBits = 2;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    WeightsQ3K::Heads heads;
    WeightsQ3K::read_heads(rows, offset, heads);
    panel.d = heads.d;
    Ints scales[4];
    transpose_scales(heads.scales, scales);
    KVASIR_UNROLL
    for (int m = 0; m < 4; ++m) store_scales<true>(panel, m, scales[m]);
    for (int quarter = 0; quarter < 4; ++quarter) {
      const size_t at = 16 * static_cast<size_t>(quarter % 2);
      Ints pairs[4];
      Ints high[4];
      load_transposed(rows, offset + 32 + 32 * static_cast<size_t>(quarter / 2) + at, pairs);
      load_transposed(rows, offset + at, high);
      uint8_t(*w)[64] = panel.w + 32 * (quarter / 2) + 4 * (quarter % 2);
      KVASIR_UNROLL
      for (int m = 0; m < 4; ++m) {
        const Ints bits = quarter < 2 ? high[m] : shift_right16<4>(high[m]);
        const Ints pair_mask = all8(0x03);
        const Ints high_mask = all8(0x04);
        store(w[m],
              bit_or(bit_and(pairs[m], pair_mask), bit_and(shift_left16<2>(bits), high_mask)));
        store(w[m + 8], bit_or(bit_and(shift_right16<2>(pairs[m]), pair_mask),
                               bit_and(shift_left16<1>(bits), high_mask)));
        store(w[m + 16],
              bit_or(bit_and(shift_right16<4>(pairs[m]), pair_mask), bit_and(bits, high_mask)));
        store(w[m + 24], bit_or(bit_and(shift_right16<6>(pairs[m]), pair_mask),
                                bit_and(shift_right16<1>(bits), high_mask)));
      }
    }
  }
};

template <>
struct PanelFormat<WeightsQ2K> {
  static constexpr int kGroups = 16;
  static constexpr int kExcessBits = 0;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    const Ints both = load_u32_of_rows(rows, offset + 80);
    panel.d = floats_of_low_f16(both);
    panel.d_minimum = floats_of_low_f16(shift_right32<16>(both));
    Ints bytes[4];
    load_transposed(rows, offset, bytes);
    KVASIR_UNROLL
    for (int m = 0; m < 4; ++m) {
      store_scales<false>(panel, m, bit_and(bytes[m], all8(0x0f)));
      store_minimums(panel, m, bit_and(shift_right16<4>(bytes[m]), all8(0x0f)));
    }
    for (int quarter = 0; quarter < 4; ++quarter) {
      Ints pairs[4];
      load_transposed(rows, offset + 16 + 16 * static_cast<size_t>(quarter), pairs);
      uint8_t(*w)[64] = panel.w + 32 * (quarter / 2) + 4 * (quarter % 2);
      KVASIR_UNROLL
      for (int m = 0; m < 4; ++m) {
        store(w[m], bit_and(pairs[m], all8(0x03)));
        store(w[m + 8], bit_and(shift_right16<2>(pairs[m]), all8(0x03)));
        store(w[m + 16], bit_and(shift_right16<4>(pairs[m]), all8(0x03)));
        store(w[m + 24], bit_and(shift_right16<6>(pairs[m]), all8(0x03)));
      }
    }
  }
};

// The table's values plus 128, for nibbles.
KVASIR_INLINE Ints unsigned_iq4(Ints nibbles) {
  return shuffle8(bit_xor(iq4_values(), all8(0x80)), nibbles);
}

template <>
struct PanelFormat<WeightsIQ4XS> {
  static constexpr int kGroups = 8;
  static constexpr int kExcessBits = 7;

  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, PanelK& panel) {
    WeightsIQ4XS::Heads heads;
    WeightsIQ4XS::read_heads(rows, offset, heads);
    panel.d = heads.d;
    Ints scales[4];  // two of 16 bits each
    transpose_scales(heads.scales, scales);
    KVASIR_UNROLL
    for (int m = 0; m < 4; ++m) {
      store(panel.scales[2 * m], _mm512_srai_epi32(shift_left32<16>(scales[m]), 16));
      store(panel.scales[2 * m + 1], _mm512_srai_epi32(scales[m], 16));
    }
    for (int run = 0; run < 8; ++run) {
      Ints bytes[4];
      load_transposed(rows, offset + 8 + 16 * static_cast<size_t>(run), bytes);
      KVASIR_UNROLL
      for (int m = 0; m < 4; ++m) {
        store(panel.w[8 * run + m], unsigned_iq4(bit_and(bytes[m], all8(0x0f))));
        store(panel.w[8 * run + 4 + m],
              unsigned_iq4(bit_and(shift_right16<4>(bytes[m]), all8(0x0f))));
      }
    }
  }
};

// --- Formats that have blocks of 32 values: up to eight of them are a panel.

struct Panel32 {
  alignas(64) uint8_t w[kPanelVectors][64];  // eight vectors per block
  Floats d[8];
  Floats minimum[8];
};

// 16 bytes at `offset` of every row, whose low nibbles are values 0..15, the high ones 16..31.
KVASIR_INLINE void load_nibbles(const uint8_t* const* rows, size_t offset, Ints* w) {
  Ints bytes[4];
  load_transposed(rows, offset, bytes);
  KVASIR_UNROLL
  for (int m = 0; m < 4; ++m) {
    w[m] = bit_and(bytes[m], all8(0x0f));
    w[m + 4] = bit_and(shift_right16<4>(bytes[m]), all8(0x0f));
  }
}
// Adds 16 where the bits of the 32 at `offset` are set.
KVASIR_INLINE void add_fifth_bits(const uint8_t* const* rows, size_t offset, Ints* w) {
  const Ints bits = load_u32_of_rows(rows, offset);
  for_each_index<8>([&](auto i) __attribute__((always_inline)) {
    // The product brings bit k to bit 8k; what else it makes is masked away.
    const Ints four = bit_and(shift_right32<4 * i.value>(bits), all32(0x0f));
    const Ints spread = bit_and(_mm512_mullo_epi32(four, all32(0x00204081)), all8(0x01));
    w[i.value] = bit_or(w[i.value], shift_left16<4>(spread));
  });
}

// How a format of 32 values fills a panel: unpack() makes the eight vectors of one block.
// Signed weights have 128 added.
template <typename Weights>
struct PanelFormat32;

template <>
struct PanelFormat32<WeightsQ4_0> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 2, w);
  }
};
template <>
struct PanelFormat32<WeightsQ4_1> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 4, w);
  }
};
template <>
struct PanelFormat32<WeightsQ5_0> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 6, w);
    add_fifth_bits(rows, offset + 2, w);
  }
};
template <>
struct PanelFormat32<WeightsQ5_1> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 8, w);
    add_fifth_bits(rows, offset + 4, w);
  }
};
template <>
struct PanelFormat32<WeightsQ8_0> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_transposed(rows, offset + 2, w);
    load_transposed(rows, offset + 18, w + 4);
    KVASIR_UNROLL
    for (int i = 0; i < 8; ++i) w[i] = bit_xor(w[i], all8(0x80));
  }
};
template <>
struct PanelFormat32<WeightsIQ4NL> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 2, w);
    KVASIR_UNROLL
    for (int i = 0; i < 8; ++i) w[i] = unsigned_iq4(w[i]);
  }
};
template <>
struct PanelFormat32<WeightsMXFP4> {
  KVASIR_INLINE static void unpack(const uint8_t* const* rows, size_t offset, Ints* w) {
    load_nibbles(rows, offset + 1, w);
    KVASIR_UNROLL
    for (int i = 0; i < 8; ++i) w[i] = shuffle8(WeightsMXFP4::values(), w[i]);
  }
};

}  // namespace
}  // namespace kvasir::kernels

#endif
