// Rules 6 and 7 of docs/arithmetic.md: one head's attention over one block of positions, and the
// delta-net's convolution and recurrence.
#pragma once

#include "kernels/simd_vector.h"

namespace kvasir::kernels {
namespace {

// --- Attention.

template <typename Row>
KVASIR_INLINE void scores_of_rows(const float* q, const uint8_t* k, size_t k_stride, size_t dim,
                                  size_t n, float c, float* scores) {
  const size_t n_whole = dim / 16 * 16;
  size_t t = 0;
  // Four positions at a time hide the latency of the additions.
  for (; t + 4 <= n; t += 4) {
    const uint8_t* rows = k + t * k_stride;
    F32x16 sums[4] = {splat(0.0F), splat(0.0F), splat(0.0F), splat(0.0F)};
    for (size_t i = 0; i < n_whole; i += 16) {
      const F32x16 q16 = load16(q + i);
      KVASIR_UNROLL
      for (size_t r = 0; r < 4; ++r) {
        sums[r] = sums[r] + q16 * Row::load(rows + r * k_stride + i * Row::kBytes);
      }
    }
    if (n_whole < dim) {
      const size_t rest = dim - n_whole;
      const F32x16 q16 = load16_first(q + n_whole, rest);
      KVASIR_UNROLL
      for (size_t r = 0; r < 4; ++r) {
        sums[r] = sums[r] + q16 * Row::first(rows + r * k_stride + n_whole * Row::kBytes, rest);
      }
    }
    store4(scores + t, fold_four(sums) * all4(c));
  }
  for (; t < n; ++t) {
    const uint8_t* row = k + t * k_stride;
    F32x16 sum = splat(0.0F);
    for (size_t i = 0; i < n_whole; i += 16) {
      sum = sum + load16(q + i) * Row::load(row + i * Row::kBytes);
    }
    if (n_whole < dim) {
      const size_t rest = dim - n_whole;
      sum = sum + load16_first(q + n_whole, rest) * Row::first(row + n_whole * Row::kBytes, rest);
    }
    scores[t] = fold(sum) * c;
  }
}

void attention_scores_block(const float* q, const std::byte* k, size_t k_stride, KvType type,
                            size_t dim, size_t n, float c, float* scores) {
  const uint8_t* rows = reinterpret_cast<const uint8_t*>(k);
  if (type == KvType::kF16) {
    scores_of_rows<RowF16>(q, rows, k_stride, dim, n, c, scores);
  } else {
    scores_of_rows<RowF32>(q, rows, k_stride, dim, n, c, scores);
  }
}

// u[0 .. 16 * kRuns) = sum over t of e[t] * v_t
template <typename Row, int kRuns>
KVASIR_INLINE void add_weighted_rows(const float* e, const uint8_t* v, size_t v_stride, size_t n,
                                     float* u) {
  F32x16 sums[kRuns];
  KVASIR_UNROLL
  for (int i = 0; i < kRuns; ++i) sums[i] = splat(0.0F);
  for (size_t t = 0; t < n; ++t) {
    const uint8_t* row = v + t * v_stride;
    KVASIR_UNROLL
    for (int i = 0; i < kRuns; ++i) {
      sums[i] = sums[i] + splat(e[t]) * Row::load(row + static_cast<size_t>(i) * 16 * Row::kBytes);
    }
  }
  KVASIR_UNROLL
  for (int i = 0; i < kRuns; ++i) store16(u + 16 * i, sums[i]);
}

template <typename Row>
KVASIR_INLINE void values_of_rows(const float* e, const uint8_t* v, size_t v_stride, size_t dim,
                                  size_t n, float* u) {
  constexpr int kRuns = 2 * kLanes;  // half of the registers
  size_t j = 0;
  for (; j + 16 * kRuns <= dim; j += 16 * kRuns) {
    add_weighted_rows<Row, kRuns>(e, v + j * Row::kBytes, v_stride, n, u + j);
  }
  for (; j + 16 <= dim; j += 16) {
    add_weighted_rows<Row, 1>(e, v + j * Row::kBytes, v_stride, n, u + j);
  }
  if (j < dim) {
    F32x16 sum = splat(0.0F);
    for (size_t t = 0; t < n; ++t) {
      sum = sum + splat(e[t]) * Row::first(v + t * v_stride + j * Row::kBytes, dim - j);
    }
    store16_first(u + j, dim - j, sum);
  }
}

float attention_values_block(float* scores, float max, const std::byte* v, size_t v_stride,
                             KvType type, size_t dim, size_t n, float* u) {
  for_each_16(
      n, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        store(scores + i, exp16(load(scores + i) - splat(max)));
      });
  const uint8_t* rows = reinterpret_cast<const uint8_t*>(v);
  if (type == KvType::kF16) {
    values_of_rows<RowF16>(scores, rows, v_stride, dim, n, u);
  } else {
    values_of_rows<RowF32>(scores, rows, v_stride, dim, n, u);
  }
  return sum_row(scores, n);
}

// --- Delta-net.

// Weights of 16 channels from w on, one tap per vector. Four taps are what models have.
KVASIR_INLINE void load_tap_weights(const float* w, size_t n_taps, F32x16* weights) {
  if (n_taps == 4) {
    load16_columns_of_4(w, weights);
    return;
  }
  for (size_t m = 0; m < n_taps; ++m) {
    float column[16];
    for (size_t c = 0; c < 16; ++c) column[c] = w[c * n_taps + m];
    weights[m] = load16(column);
  }
}

void conv_silu_channels(const float* const* taps, size_t n_taps, const float* weight,
                        size_t channels, float* out) {
  F32x16 weights[8];
  size_t c = 0;
  for (; c + 16 <= channels; c += 16) {
    load_tap_weights(weight + c * n_taps, n_taps, weights);
    F32x16 total = load16(taps[0] + c) * weights[0];
    for (size_t m = 1; m < n_taps; ++m) total = total + load16(taps[m] + c) * weights[m];
    store16(out + c, silu16(total));
  }
  const size_t rest = channels - c;
  if (rest == 0) return;
  float totals[16] = {};
  for (size_t i = 0; i < rest; ++i) {
    const float* w = weight + (c + i) * n_taps;
    totals[i] = taps[0][c + i] * w[0];
    for (size_t m = 1; m < n_taps; ++m) totals[i] = totals[i] + taps[m][c + i] * w[m];
  }
  store16_first(out + c, rest, silu16(load16(totals)));
}

// kColumns columns of S together, to hide the latency of the two sums over i.
template <int kColumns>
KVASIR_INLINE void delta_columns(float* state, const float* q, const float* k, const float* v,
                                 float decay, float beta, float c, size_t dim_k, float* o) {
  static_assert(kColumns == 1 || kColumns == 4);
  const auto folded = [](const F32x16* sums, float* result) __attribute__((always_inline)) {
    if constexpr (kColumns == 4) {
      store4(result, fold_four(sums));
    } else {
      result[0] = fold(sums[0]);
    }
  };
  F32x16 sums[kColumns];
  KVASIR_UNROLL
  for (int j = 0; j < kColumns; ++j) sums[j] = splat(0.0F);
  for_each_16(
      dim_k, [&](size_t i, auto load, auto store) __attribute__((always_inline)) {
        const F32x16 k16 = load(k + i);
        KVASIR_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          float* s = state + static_cast<size_t>(j) * dim_k + i;
          const F32x16 decayed = load(s) * splat(decay);
          store(s, decayed);
          sums[j] = sums[j] + decayed * k16;
        }
      });
  float r[kColumns];
  folded(sums, r);

  float delta[kColumns];
  KVASIR_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    delta[j] = beta * (v[j] - r[j]);
    sums[j] = splat(0.0F);
  }
  for_each_16(
      dim_k, [&](size_t i, auto load, auto store) __attribute__((always_inline)) {
        const F32x16 k16 = load(k + i);
        const F32x16 q16 = load(q + i);
        KVASIR_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          float* s = state + static_cast<size_t>(j) * dim_k + i;
          const F32x16 updated = load(s) + k16 * splat(delta[j]);
          store(s, updated);
          // The next columns: a state is larger than the first-level cache.
          fetch_near<1>(reinterpret_cast<const uint8_t*>(s + kColumns * dim_k));
          sums[j] = sums[j] + updated * q16;
        }
      });
  folded(sums, r);
  KVASIR_UNROLL
  for (int j = 0; j < kColumns; ++j) o[j] = r[j] * c;
}

void delta_step_columns(float* state, const float* q, const float* k, const float* v, float decay,
                        float beta, float c, size_t dim_k, size_t n_columns, float* o) {
  size_t j = 0;
  for (; j + 4 <= n_columns; j += 4) {
    delta_columns<4>(state + j * dim_k, q, k, v + j, decay, beta, c, dim_k, o + j);
  }
  for (; j < n_columns; ++j) {
    delta_columns<1>(state + j * dim_k, q, k, v + j, decay, beta, c, dim_k, o + j);
  }
}

}  // namespace
}  // namespace kvasir::kernels
