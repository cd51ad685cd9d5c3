// Rule 2 of docs/arithmetic.md over rows and blocks: kTileRows weight rows at a time against up to
// four activation rows. The sums of a tile's rows lie in the elements of one vector, so the
// floating-point steps per block are lane-wise and in block order, exactly as the scalar ones, and
// every unpacked weight block serves all columns.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd_block32.h"
#include "kernels/simd_iq4xs.h"
#include "kernels/simd_kquants.h"
#include "kernels/simd_kquants_low.h"
#include "kernels/simd_panel_matmul.h"
#include "kernels/simd_stream_matmul.h"

namespace kvasir::kernels {
namespace {

// Beyond four columns the partial sums of four rows no longer fit in the registers.
inline constexpr int kTileColumns = 4;

// What a tile reads. Rows past the last one repeat it; their results are not stored.
struct TileInput {
  const uint8_t* rows[kTileRows];
  const uint8_t* x;
  size_t x_stride;
  size_t n;
  size_t next_tile;  // bytes from a row to the one in its place in the next tile
  FetchInto fetch_into;
};

// The rows of a tile are more streams than the processor's own prefetchers follow, and short ones.
// So while a tile is computed, the one two further on is fetched, in the order of its addresses.
// Fetching past the end of the weights does no harm. Measured on one Zen 4 core that reads 33 GB/s
// in a plain loop, Q4_K and Q6_K in rows of 3,072 values: this way 34 and 33 GB/s, one tile ahead
// 31 and 29, row by row 1,024 bytes ahead 33 and 27; all into the second-level cache, since the
// core waits for room in the first (13 and 16 GB/s). A Zen 5 core has that room, and with one to
// four rows reads 1.1 to 1.8 times as fast this way: fetches_into_first_level().
inline constexpr size_t kTilesAhead = 2;
// Blocks of this size come into the first-level cache one block ahead, too: 5 GB/s more for Q6_K;
// smaller blocks gain nothing.
inline constexpr size_t kFetchNearBytesMin = 192;

// 256 values per block; `Weights` as in simd_kquants.h. acc[c] gets column c.
template <typename Weights, int kColumns>
KVASIR_INLINE void compute_tile_k(const TileInput& in, Floats* acc) {
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) acc[c] = all_floats(0.0F);

  const uint8_t* ahead = in.rows[0] + kTilesAhead * in.next_tile;
  const size_t n_blocks = in.n / 256;
  for (size_t b = 0; b < n_blocks; ++b) {
    ActivationK x[kColumns];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const uint8_t* row = in.x + static_cast<size_t>(c) * in.x_stride;
      x[c] = Weights::prepare(reinterpret_cast<const BlockQ8K*>(row)[b]);
    }
    const size_t offset = b * Weights::kBytes;
    typename Weights::Heads heads;
    Weights::read_heads(in.rows, offset, heads);

    Ints parts[kColumns][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      Ints sums[kColumns][4];
      KVASIR_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = 4 * lane + i;
        Ints dots[kColumns];
        fetch<Weights::kBytes>(ahead, in.fetch_into);
        ahead += Weights::kBytes;
        if constexpr (Weights::kBytes >= kFetchNearBytesMin) {
          fetch_near<Weights::kBytes>(in.rows[row] + offset + Weights::kBytes);
        }
        Weights::template dot<kColumns>(in.rows[row] + offset, heads, row, x, dots);
        KVASIR_UNROLL
        for (int c = 0; c < kColumns; ++c) sums[c][i] = dots[c];
      }
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) parts[c][lane] = add_within_lanes(sums[c]);
    }

    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const Floats d_x = all_floats(x[c].d);
      acc[c] = acc[c] + (heads.d * d_x) * to_floats(add_lanes(parts[c]));
      if constexpr (Weights::kHasMinimum) {
        acc[c] = acc[c] - (heads.d_minimum * d_x) * to_floats(Weights::minimum_sums(heads, x[c]));
      }
    }
  }
}

// 32 values per block; `Weights` as in simd_block32.h.
template <typename Weights, int kColumns>
KVASIR_INLINE void compute_tile_32(const TileInput& in, Floats* acc) {
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) acc[c] = all_floats(0.0F);

  const uint8_t* ahead = in.rows[0] + kTilesAhead * in.next_tile;
  const size_t n_blocks = in.n / 32;
  for (size_t b = 0; b < n_blocks; b += kBlocks) {
    const size_t n_here = n_blocks - b < kBlocks ? n_blocks - b : kBlocks;
    Activation32 x[kColumns];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const uint8_t* row = in.x + static_cast<size_t>(c) * in.x_stride;
      x[c] = prepare32(reinterpret_cast<const BlockQ8_0*>(row) + b, n_here);
    }
    const size_t offset = b * Weights::kBytes;
    // Where there is no second block any bytes do: its x is zero and its sum is dropped.
    const size_t offset_b = offset + (n_here - 1) * Weights::kBytes;

    Ints parts[kColumns][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      Ints sums[kColumns][4];
      KVASIR_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint8_t* row = in.rows[4 * lane + i];
        fetch<kBlocks * Weights::kBytes>(ahead, in.fetch_into);
        ahead += kBlocks * Weights::kBytes;
        const Ints w = Weights::unpack(row + offset, row + offset_b);
        KVASIR_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          sums[c][i] = Weights::kIsSigned ? dot_s8_s8(w, x[c].q) : dot_u8_s8(w, x[c].q);
        }
      }
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) parts[c][lane] = add_within_lanes(sums[c]);
    }

    Ints block_sums[kColumns][kBlocks];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) add_lanes_of_blocks(parts[c], block_sums[c]);
    KVASIR_UNROLL
    for (int i = 0; i < kBlocks; ++i) {
      if (static_cast<size_t>(i) == n_here) break;
      Floats d;
      Floats minimum;
      Weights::read_scales(in.rows, offset + static_cast<size_t>(i) * Weights::kBytes, d, minimum);
      constexpr int kExcess = Weights::kIsSigned ? kSignedExcess : Weights::kExcess;
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const Floats d_x = all_floats(x[c].d[i]);
        const Ints sum = sub32(block_sums[c][i], all32(kExcess * x[c].sum[i]));
        acc[c] = acc[c] + (d * d_x) * to_floats(sum);
        if constexpr (Weights::kHasMinimum) {
          acc[c] = acc[c] + (minimum * d_x) * all_floats(static_cast<float>(x[c].sum[i]));
        }
      }
    }
  }
}

template <typename Weights, int kColumns>
__attribute__((noinline)) void matmul_tile(const TileInput& in, size_t n_rows, float* y,
                                           size_t y_stride) {
  Floats acc[kColumns];
  if constexpr (Weights::kBytes >= 64) {
    compute_tile_k<Weights, kColumns>(in, acc);
  } else {
    compute_tile_32<Weights, kColumns>(in, acc);
  }
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    store_tile(acc[c], n_rows, y + static_cast<size_t>(c) * y_stride);
  }
}

// A MatMul for one format.
template <typename Weights>
void matmul(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n, const std::byte* x,
            size_t x_stride, size_t n_x, float* y, size_t y_stride) {
#if defined(__AVX512VNNI__)
  if (n_x >= kPanelColumnsMin) {
    panel_matmul<Weights>(w, row_bytes, n_rows, n, x, x_stride, n_x, y, y_stride);
    return;
  }
  if (can_stream<Weights>(row_bytes, n, n_x)) {
    stream_matmul<Weights>(w, n_rows, n, x, x_stride, n_x, y, y_stride);
    return;
  }
#endif
  const FetchInto into = where_to_fetch();
  const uint8_t* weights = reinterpret_cast<const uint8_t*>(w);
  for (size_t r = 0; r < n_rows; r += kTileRows) {
    const size_t n_here = n_rows - r < kTileRows ? n_rows - r : kTileRows;
    TileInput in;
    for (size_t i = 0; i < kTileRows; ++i) {
      in.rows[i] = weights + (r + (i < n_here ? i : n_here - 1)) * row_bytes;
    }
    in.next_tile = kTileRows * row_bytes;
    in.x_stride = x_stride;
    in.n = n;
    in.fetch_into = into;
    for (size_t c = 0; c < n_x;) {
      in.x = reinterpret_cast<const uint8_t*>(x) + c * x_stride;
      float* out = y + c * y_stride + r;
      switch (n_x - c) {
        case 1:
          matmul_tile<Weights, 1>(in, n_here, out, y_stride);
          c += 1;
          break;
        case 2:
          matmul_tile<Weights, 2>(in, n_here, out, y_stride);
          c += 2;
          break;
        case 3:
          matmul_tile<Weights, 3>(in, n_here, out, y_stride);
          c += 3;
          break;
        default:
          matmul_tile<Weights, kTileColumns>(in, n_here, out, y_stride);
          c += kTileColumns;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels
