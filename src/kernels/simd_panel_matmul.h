// Rule 2 of docs/arithmetic.md for many activation rows: two panels of weights (simd_panel.h) are
// unpacked and used for all of them before the next 256 values. The floating-point steps of a row
// are those of simd_matmul.h, element by element and in block order.
#pragma once

#include <type_traits>

#include "kernels/simd_panel.h"

#if defined(__AVX512VNNI__)

namespace kvasir::kernels {
namespace {

// Two panels against up to six activation rows: their dot products and sums fill 24 registers, and
// each broadcast serves two dot products.
inline constexpr int kPanels = 2;
inline constexpr int kPanelColumns = 6;
inline constexpr size_t kPanelRows = kPanels * kTileRows;
// Sums of a call that wait in the first-level cache for the next block.
inline constexpr size_t kPanelColumnsMax = 64;
// Fewer columns do not pay for unpacking.
inline constexpr size_t kPanelColumnsMin = 5;

KVASIR_INLINE Ints broadcast32(const void* p) {
  int32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return all32(v);
}

// While panels are computed, the rows after theirs come from memory, in the order of their
// addresses and a few lines at a time: all at once would be more misses than the processor keeps
// track of. Fetching past the end of the weights does no harm.
class RowFetcher {
 public:
  // In `steps` steps of equal size.
  KVASIR_INLINE RowFetcher(const uint8_t* begin, size_t bytes, size_t steps)
      : at_(begin),
        end_(begin + bytes),
        step_bytes_((bytes + steps - 1) / steps),
        into_(where_to_fetch()) {}

  KVASIR_INLINE void step() {
    const size_t left = static_cast<size_t>(end_ - at_);
    const uint8_t* const end = at_ + (left < step_bytes_ ? left : step_bytes_);
    for (; at_ < end; at_ += 64) fetch<1>(at_, into_);
    if (at_ > end_) at_ = end_;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  size_t step_bytes_;
  FetchInto into_;
};

// dots[p][c] = starts[c] + vectors k .. k + n of panel p, times the values of column c from x_k on.
template <int n, int kColumns, typename Panel, typename Block>
KVASIR_INLINE void dot_panels(const Panel* panels, int k, const Block* const* columns, int x_k,
                              const Ints* starts, Ints (*dots)[kColumns]) {
  KVASIR_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) dots[p][c] = starts[c];
  }
  KVASIR_UNROLL
  for (int i = 0; i < n; ++i) {
    Ints w[kPanels];
    KVASIR_UNROLL
    for (int p = 0; p < kPanels; ++p) w[p] = load(panels[p].w[k + i]);
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const Ints values = broadcast32(columns[c]->q + 4 * (x_k + i));
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        dots[p][c] = _mm512_dpbusd_epi32(dots[p][c], w[p], values);
      }
    }
  }
}

// Weights with blocks of 256 values.
template <typename Weights>
struct PanelsK {
  using Format = PanelFormat<Weights>;
  using Block = BlockQ8K;
  static constexpr size_t kBlocks = 1;  // of a panel
  static constexpr size_t kBlockLength = 256;
  static constexpr size_t kSteps = Format::kGroups;  // of the fetcher, per piece of columns

  KVASIR_INLINE void unpack(const uint8_t* const* rows, size_t offset, size_t) {
    for (int p = 0; p < kPanels; ++p) {
      Format::unpack(rows + p * kTileRows, offset, panels[p]);
    }
  }

  // acc: [kColumns][kPanelRows], 64-byte aligned. x: kColumns blocks, x_stride bytes apart.
  template <int kColumns>
  KVASIR_INLINE void add(const uint8_t* x, size_t x_stride, size_t, float* acc,
                         RowFetcher& fetcher) const {
    constexpr int kVectorsPerGroup = kPanelVectors / Format::kGroups;
    const Block* columns[kColumns];
    Ints sums[kPanels][kColumns];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      columns[c] = reinterpret_cast<const Block*>(x + static_cast<size_t>(c) * x_stride);
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) sums[p][c] = zero();
    }
    // What the excess of the weights adds to the dot product of a group, negated.
    alignas(64) int32_t excess[kColumns][16];
    if constexpr (Format::kExcessBits != 0) {
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        store(excess[c],
              sub32(zero(), shift_left32<Format::kExcessBits>(sums_of_groups(*columns[c]))));
      }
    }
    for (int group = 0; group < Format::kGroups; ++group) {
      fetcher.step();
      Ints starts[kColumns];
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        starts[c] = Format::kExcessBits != 0 ? broadcast32(&excess[c][group]) : zero();
      }
      Ints dots[kPanels][kColumns];
      const int k = group * kVectorsPerGroup;
      dot_panels<kVectorsPerGroup, kColumns>(panels, k, columns, k, starts, dots);
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        const Ints scales = load(panels[p].scales[group]);
        KVASIR_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          sums[p][c] = add32(sums[p][c], _mm512_mullo_epi32(dots[p][c], scales));
        }
      }
    }
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const Block& x_c = *columns[c];
      alignas(16) int16_t sums32[8];
      if constexpr (Weights::kHasMinimum && Format::kGroups == 8) {
        const __m128i pairs = _mm_hadd_epi16(load128(x_c.sums), load128(x_c.sums + 8));
        _mm_store_si128(reinterpret_cast<__m128i*>(sums32), pairs);
      }
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        add_block(panels[p], x_c, Format::kGroups == 8 ? sums32 : x_c.sums, sums[p][c],
                  acc + static_cast<size_t>(c) * kPanelRows + static_cast<size_t>(p) * kTileRows);
      }
    }
  }

 private:
  // Of activations, as 32-bit elements.
  KVASIR_INLINE static Ints sums_of_groups(const Block& x) {
    if constexpr (Format::kGroups == 16) return _mm512_cvtepi16_epi32(load256(x.sums));
    const __m128i sums = _mm_hadd_epi16(load128(x.sums), load128(x.sums + 8));
    return _mm512_castsi256_si512(_mm256_cvtepi16_epi32(sums));
  }

  // `sums`: those of the groups' activations.
  KVASIR_INLINE static void add_block(const PanelK& panel, const Block& x, const int16_t* sums,
                                      Ints sum, float* acc) {
    const Floats d_x = all_floats(x.d);
    Floats total = _mm512_load_ps(acc) + (panel.d * d_x) * to_floats(sum);
    if constexpr (Weights::kHasMinimum) {
      Ints products = zero();
      KVASIR_UNROLL
      for (int i = 0; i < Format::kGroups / 2; ++i) {
        products =
            _mm512_dpwssd_epi32(products, load(panel.minimums[i]), broadcast32(sums + 2 * i));
      }
      total = total - (panel.d_minimum * d_x) * to_floats(products);
    }
    _mm512_store_ps(acc, total);
  }

  PanelK panels[kPanels];
};

// Weights with blocks of 32 values.
template <typename Weights>
struct Panels32 {
  using Format = PanelFormat32<Weights>;
  using Block = BlockQ8_0;
  static constexpr size_t kBlocks = 8;
  static constexpr size_t kBlockLength = 32;
  static constexpr size_t kSteps = kBlocks;
  static constexpr int kExcess = Weights::kIsSigned ? 128 : Weights::kExcess;

  KVASIR_INLINE void unpack(const uint8_t* const* rows, size_t offset, size_t n_blocks) {
    for (int p = 0; p < kPanels; ++p) {
      const uint8_t* const* tile = rows + p * kTileRows;
      for (size_t b = 0; b < n_blocks; ++b) {
        const size_t at = offset + b * Weights::kBytes;
        Ints w[8];
        Format::unpack(tile, at, w);
        KVASIR_UNROLL
        for (int i = 0; i < 8; ++i) store(panels[p].w[8 * b + static_cast<size_t>(i)], w[i]);
        Weights::read_scales(tile, at, panels[p].d[b], panels[p].minimum[b]);
      }
    }
  }

  template <int kColumns>
  KVASIR_INLINE void add(const uint8_t* x, size_t x_stride, size_t n_blocks, float* acc,
                         RowFetcher& fetcher) const {
    Floats totals[kPanels][kColumns];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) totals[p][c] = _mm512_load_ps(at(acc, p, c));
    }
    for (size_t b = 0; b < n_blocks; ++b) {
      fetcher.step();
      const Block* columns[kColumns];
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        columns[c] = reinterpret_cast<const Block*>(x + static_cast<size_t>(c) * x_stride) + b;
      }
      Ints starts[kColumns];
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        starts[c] = kExcess != 0 ? all32(-kExcess * columns[c]->sum) : zero();
      }
      Ints dots[kPanels][kColumns];
      dot_panels<8, kColumns>(panels, 8 * static_cast<int>(b), columns, 0, starts, dots);
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const Floats d_x = all_floats(columns[c]->d);
        KVASIR_UNROLL
        for (int p = 0; p < kPanels; ++p) {
          totals[p][c] = totals[p][c] + (panels[p].d[b] * d_x) * to_floats(dots[p][c]);
          if constexpr (Weights::kHasMinimum) {
            totals[p][c] = totals[p][c] + (panels[p].minimum[b] * d_x) *
                                              all_floats(static_cast<float>(columns[c]->sum));
          }
        }
      }
    }
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      KVASIR_UNROLL
      for (int p = 0; p < kPanels; ++p) _mm512_store_ps(at(acc, p, c), totals[p][c]);
    }
  }

 private:
  KVASIR_INLINE static float* at(float* acc, int p, int c) {
    return acc + static_cast<size_t>(c) * kPanelRows + static_cast<size_t>(p) * kTileRows;
  }

  Panel32 panels[kPanels];
};

// All columns, in pieces of nearly equal size, since small ones leave dot products waiting for each
// other.
template <typename Panels>
__attribute__((noinline)) void add_panels(const Panels& panels, const uint8_t* x, size_t x_stride,
                                          size_t n_x, size_t n_blocks, float* acc,
                                          const uint8_t* next, size_t next_bytes) {
  static_assert(kPanelColumnsMin == 5 && kPanelColumns == 6);
  const size_t n_pieces = (n_x + kPanelColumns - 1) / kPanelColumns;
  RowFetcher fetcher(next, next_bytes, n_pieces * Panels::kSteps);
  size_t c = 0;
  for (size_t piece = 0; piece < n_pieces; ++piece) {
    const size_t n_left = n_pieces - piece;
    const size_t n_here = (n_x - c + n_left - 1) / n_left;
    const uint8_t* columns = x + c * x_stride;
    float* out = acc + c * kPanelRows;
    switch (n_here) {
      case 6:
        panels.template add<6>(columns, x_stride, n_blocks, out, fetcher);
        break;
      case 5:
        panels.template add<5>(columns, x_stride, n_blocks, out, fetcher);
        break;
      case 4:
        panels.template add<4>(columns, x_stride, n_blocks, out, fetcher);
        break;
      case 3:
        panels.template add<3>(columns, x_stride, n_blocks, out, fetcher);
        break;
      default:  // the last of many
        for (size_t i = 0; i < n_here; ++i) {
          panels.template add<1>(columns + i * x_stride, x_stride, n_blocks, out + i * kPanelRows,
                                 fetcher);
        }
    }
    c += n_here;
  }
}

// As MatMul; worth it from kPanelColumnsMin columns on.
template <typename Weights>
void panel_matmul(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n, const std::byte* x,
                  size_t x_stride, size_t n_x, float* y, size_t y_stride) {
  using Panels = std::conditional_t<(Weights::kBytes >= 64), PanelsK<Weights>, Panels32<Weights>>;
  const uint8_t* weights = reinterpret_cast<const uint8_t*>(w);
  const size_t n_blocks = n / Panels::kBlockLength;
  Panels panels;
  alignas(64) float acc[kPanelColumnsMax * kPanelRows];
  for (size_t c = 0; c < n_x; c += kPanelColumnsMax) {
    const size_t n_columns = n_x - c < kPanelColumnsMax ? n_x - c : kPanelColumnsMax;
    const uint8_t* columns = reinterpret_cast<const uint8_t*>(x) + c * x_stride;
    for (size_t r = 0; r < n_rows; r += kPanelRows) {
      const uint8_t* rows[kPanelRows];
      for (size_t i = 0; i < kPanelRows; ++i) {
        // Rows past the last one repeat it; their results are not stored.
        rows[i] = weights + (r + i < n_rows ? r + i : n_rows - 1) * row_bytes;
      }
      const uint8_t* const next = weights + (r + kPanelRows) * row_bytes;
      for (size_t i = 0; i < n_columns * kPanelRows; i += kTileRows) {
        _mm512_store_ps(acc + i, all_floats(0.0F));
      }
      for (size_t b = 0; b < n_blocks; b += Panels::kBlocks) {
        const size_t n_here = n_blocks - b < Panels::kBlocks ? n_blocks - b : Panels::kBlocks;
        panels.unpack(rows, b * Weights::kBytes, n_here);
        // The same share of the next rows as this is of these.
        const size_t share = kPanelRows * n_here * Weights::kBytes;
        add_panels(panels, columns + b * sizeof(typename Panels::Block), x_stride, n_columns,
                   n_here, acc, next + kPanelRows * b * Weights::kBytes, share);
      }
      for (size_t i = 0; i < n_columns; ++i) {
        for (size_t p = 0; p < kPanels && r + p * kTileRows < n_rows; ++p) {
          const size_t row = r + p * kTileRows;
          const size_t n_here = n_rows - row < kTileRows ? n_rows - row : kTileRows;
          store_tile(_mm512_load_ps(acc + i * kPanelRows + p * kTileRows), n_here,
                     y + (c + i) * y_stride + row);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels

#endif
