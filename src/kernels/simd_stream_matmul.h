// Rule 2 of docs/arithmetic.md for one or two activation rows, where reading the weights is what
// takes the time: blocks are read one after the other in the order of their addresses, as memory
// likes best. In simd_matmul.h the elements of a vector are 16 rows; here they are a group: 16
// blocks that follow each other, whatever rows they belong to. What each block adds to its row, its
// terms, is kept for 16 rows and then added in the order of the blocks.
#pragma once

#include "kernels/simd_iq4xs.h"
#include "kernels/simd_kquants.h"
#include "kernels/simd_panel.h"

#if defined(__AVX512VNNI__)

namespace kvasir::kernels {
namespace {

// Columns up to which this is faster than tiles; 0 for formats that compute longer than they read.
// Measured on Zen 5, rows of 3,072 values from memory, GB/s here and with tiles:
//            1 row          2 rows
//   Q4_K     40.7   31.0    34.6   35.1
//   Q5_K     37.3   31.2    35.3   34.9
//   Q6_K     37.3   31.9    42.5   35.4
//   IQ4_XS   42.7   39.4    31.8   35.4
template <typename Weights>
inline constexpr size_t kStreamColumnsMax = 0;
template <>
inline constexpr size_t kStreamColumnsMax<WeightsQ4K> = 1;
template <>
inline constexpr size_t kStreamColumnsMax<WeightsQ5K> = 1;
template <>
inline constexpr size_t kStreamColumnsMax<WeightsQ6K> = 2;
template <>
inline constexpr size_t kStreamColumnsMax<WeightsIQ4XS> = 1;

inline constexpr size_t kGroup = 16;

// Blocks of a row. What is kept about them takes 38 KiB then; more would push the weights out of
// the first-level cache.
inline constexpr size_t kStreamBlocksMax = 64;
// A group may begin with any block of a row and goes on with the next row: what is looked up by
// block is there once more for the blocks at the beginning.
inline constexpr size_t kStreamPadding = kGroup - 1;

// With 8 or 16 KiB reading is 1 to 3 % slower, with 4 or 64 more than a tenth. Fetching past the
// end of the weights does no harm.
inline constexpr size_t kStreamBytesAhead = 12 * 1024;

// The blocks of a group, in the places of a tile's rows. TileScales has rows i, i + 4, i + 8 and
// i + 12 in vector i; with blocks 4i to 4i + 3 there, their sums of x lie one after the other.
inline constexpr size_t place_in_group(size_t i) {
  return i % 4 * 4 + i / 4;  // its own inverse
}
template <size_t kBytes, bool kIsWhole>
struct GroupBlocks {
  const uint8_t* first;
  size_t n;  // blocks there are; the last one stands for those that are missing
  size_t begin = 0;

  KVASIR_INLINE const uint8_t* operator[](size_t place) const {
    const size_t block = place_in_group(begin + place);
    return first + (kIsWhole || block < n ? block : n - 1) * kBytes;
  }
  KVASIR_INLINE GroupBlocks operator+(int places) const {
    return {first, n, begin + static_cast<size_t>(places)};
  }
};
KVASIR_INLINE Ints in_block_order(Ints places) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), places);
}
KVASIR_INLINE Floats in_block_order(Floats places) {
  return _mm512_castsi512_ps(in_block_order(_mm512_castps_si512(places)));
}

// One activation row, and what its product with 16 weight rows consists of.
struct StreamColumn {
  float d[kStreamBlocksMax + kStreamPadding];
  alignas(16) uint8_t sums[kStreamBlocksMax + kStreamPadding][16];  // with minimums: ActivationK's

  // Block after block, row after row: (d * d_x) * float(isum) and (dmin * d_x) * float(msum).
  alignas(64) float dots[kTileRows * kStreamBlocksMax];
  alignas(64) float minimums[kTileRows * kStreamBlocksMax];
};

template <typename Weights, int kColumns>
class Stream {
 public:
  // n_blocks of each row, 1 to kStreamBlocksMax.
  KVASIR_INLINE Stream(const uint8_t* x, size_t x_stride, size_t n_blocks)
      : n_blocks_(n_blocks), into_(where_to_fetch()) {
    for (size_t c = 0; c < kColumns; ++c) {
      const BlockQ8K* blocks = reinterpret_cast<const BlockQ8K*>(x + c * x_stride);
      for (size_t i = 0; i < n_blocks; ++i) x_[i][c] = Weights::prepare(blocks[i]);
      StreamColumn& column = columns_[c];
      size_t b = 0;
      for (size_t i = 0; i < n_blocks + kStreamPadding; ++i) {
        const ActivationK& block = x_[b][c];
        column.d[i] = block.d;
        if constexpr (Weights::kHasMinimum) {
          _mm_store_si128(reinterpret_cast<__m128i*>(column.sums[i]),
                          _mm512_castsi512_si128(block.sums));
        }
        if (++b == n_blocks) b = 0;
      }
    }
  }

  // y[c * y_stride + r] for n_rows <= kTileRows rows that lie one after the other.
  KVASIR_INLINE void multiply(const uint8_t* weights, size_t n_rows, float* y, size_t y_stride) {
    const size_t n = n_rows * n_blocks_;
    size_t b = 0;  // of its row, where k counts from the first row on
    size_t k = 0;
    for (; k + kGroup <= n; k += kGroup) {
      compute_terms<true>(weights + k * Weights::kBytes, kGroup, k, b);
      b = (b + kGroup) % n_blocks_;
    }
    if (k < n) compute_terms<false>(weights + k * Weights::kBytes, n - k, k, b);
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      store_tile(add_terms(columns_[c]), n_rows, y + static_cast<size_t>(c) * y_stride);
    }
  }

 private:
  // Terms k .. k + kGroup - 1, those of the n blocks at `weights`, the first of which is block b of
  // its row.
  template <bool kIsWhole>
  KVASIR_INLINE void compute_terms(const uint8_t* weights, size_t n, size_t k, size_t b) {
    const GroupBlocks<Weights::kBytes, kIsWhole> blocks{weights, n};
    typename Weights::Heads heads;
    Weights::read_heads(blocks, 0, heads);

    Ints parts[kColumns][kLanes];
    size_t x_block = b;
    for (int lane = 0; lane < kLanes; ++lane) {
      fetch<4 * Weights::kBytes>(weights + kStreamBytesAhead, into_);
      Ints sums[kColumns][4];
      KVASIR_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int place = lane + 4 * i;
        const uint8_t* block = kIsWhole ? weights : blocks[static_cast<size_t>(place)];
        Ints dots[kColumns];
        Weights::template dot<kColumns>(block, heads, place, x_[x_block], dots);
        KVASIR_UNROLL
        for (int c = 0; c < kColumns; ++c) sums[c][i] = dots[c];
        weights += Weights::kBytes;
        if (++x_block == n_blocks_) x_block = 0;
      }
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) parts[c][lane] = add_within_lanes(sums[c]);
    }

    const Floats d = in_block_order(heads.d);
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      StreamColumn& column = columns_[c];
      const Floats d_x = _mm512_loadu_ps(column.d + b);
      _mm512_storeu_ps(column.dots + k, (d * d_x) * to_floats(add_lanes(parts[c])));
      if constexpr (Weights::kHasMinimum) {
        Ints x_sums[4];
        KVASIR_UNROLL
        for (int i = 0; i < 4; ++i) x_sums[i] = load(column.sums[b + 4 * static_cast<size_t>(i)]);
        const Floats d_minimum = in_block_order(heads.d_minimum);
        const Ints sums = in_block_order(Weights::minimum_sums(heads, x_sums));
        _mm512_storeu_ps(column.minimums + k, (d_minimum * d_x) * to_floats(sums));
      }
    }
  }

  // The sum of each row's terms.
  KVASIR_INLINE Floats add_terms(const StreamColumn& column) const {
    Floats acc = all_floats(0.0F);
    for (size_t b = 0; b < n_blocks_; b += 4) {
      Floats dots[4];
      Floats minimums[4];
      load_terms(column.dots, b, dots);
      if constexpr (Weights::kHasMinimum) load_terms(column.minimums, b, minimums);
      KVASIR_UNROLL
      for (size_t i = 0; i < 4; ++i) {
        if (b + i == n_blocks_) break;
        acc = acc + dots[i];
        if constexpr (Weights::kHasMinimum) acc = acc - minimums[i];
      }
    }
    return acc;
  }

  // Terms b .. b + 3 of every row. Where the row has fewer, what follows them.
  KVASIR_INLINE void load_terms(const float* terms, size_t b, Floats* out) const {
    const uint8_t* const first = reinterpret_cast<const uint8_t*>(terms + b);
    const size_t row_bytes = n_blocks_ * sizeof(float);
    Ints lanes[4];
    KVASIR_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* row = first + i * row_bytes;
      const uint8_t* const rows[4] = {row, row + 4 * row_bytes, row + 8 * row_bytes,
                                      row + 12 * row_bytes};
      lanes[i] = load_lanes(rows, 1, 0);
    }
    Ints transposed[4];
    transpose_lanes(lanes, transposed);
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) out[i] = bits_as_floats(transposed[i]);
  }

  size_t n_blocks_;
  FetchInto into_;
  ActivationK x_[kStreamBlocksMax][kColumns];
  StreamColumn columns_[kColumns];
};

template <typename Weights, int kColumns>
__attribute__((noinline)) void stream_columns(const uint8_t* w, size_t n_rows, size_t n_blocks,
                                              const uint8_t* x, size_t x_stride, float* y,
                                              size_t y_stride) {
  Stream<Weights, kColumns> stream(x, x_stride, n_blocks);
  for (size_t r = 0; r < n_rows; r += kTileRows) {
    const size_t n_here = n_rows - r < kTileRows ? n_rows - r : kTileRows;
    stream.multiply(w + r * n_blocks * Weights::kBytes, n_here, y + r, y_stride);
  }
}

// Whether stream_matmul() is for this; rows must lie one after the other.
template <typename Weights>
bool can_stream(size_t row_bytes, size_t n, size_t n_x) {
  const size_t n_blocks = n / 256;
  return n_x >= 1 && n_x <= kStreamColumnsMax<Weights> && n_blocks >= 1 &&
         n_blocks <= kStreamBlocksMax && row_bytes == n_blocks * Weights::kBytes;
}

// As MatMul.
template <typename Weights>
void stream_matmul(const std::byte* w, size_t n_rows, size_t n, const std::byte* x, size_t x_stride,
                   size_t n_x, float* y, size_t y_stride) {
  const uint8_t* weights = reinterpret_cast<const uint8_t*>(w);
  const uint8_t* rows = reinterpret_cast<const uint8_t*>(x);
  const size_t n_blocks = n / 256;
  if constexpr (kStreamColumnsMax<Weights> >= 2) {
    if (n_x == 2) {
      stream_columns<Weights, 2>(weights, n_rows, n_blocks, rows, x_stride, y, y_stride);
      return;
    }
  }
  if constexpr (kStreamColumnsMax<Weights> >= 1) {
    stream_columns<Weights, 1>(weights, n_rows, n_blocks, rows, x_stride, y, y_stride);
  }
}

}  // namespace
}  // namespace kvasir::kernels

#endif
