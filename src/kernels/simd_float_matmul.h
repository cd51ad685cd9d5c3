// Rule 2 of docs/arithmetic.md for F32, F16 and BF16 weights: rule16 over the exactly converted
// weights, four rows at a time.
#pragma once

#include "kernels/simd_f32.h"

namespace kvasir::kernels {
namespace {

// 4 x kColumns partial sums fill half of the registers.
inline constexpr int kFloatColumns = kLanes == 4 ? 4 : 1;

template <typename Row, int kColumns>
KVASIR_INLINE void float_tile(const uint8_t* const* rows, const float* const* x, size_t n,
                              Floats4* y) {
  F32x16 sums[kColumns][4];
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    KVASIR_UNROLL
    for (int r = 0; r < 4; ++r) sums[c][r] = splat(0.0F);
  }
  const auto add_run = [&](size_t i, auto load_w, auto load_x) __attribute__((always_inline)) {
    F32x16 x16[kColumns];
    KVASIR_UNROLL
    for (int c = 0; c < kColumns; ++c) x16[c] = load_x(x[c] + i);
    KVASIR_UNROLL
    for (int r = 0; r < 4; ++r) {
      const F32x16 w = load_w(rows[r] + i * Row::kBytes);
      KVASIR_UNROLL
      for (int c = 0; c < kColumns; ++c) sums[c][r] = sums[c][r] + w * x16[c];
    }
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    add_run(
        i, [](const uint8_t* p) __attribute__((always_inline)) { return Row::load(p); },
        [](const float* p) __attribute__((always_inline)) { return load16(p); });
  }
  if (i < n) {
    const size_t rest = n - i;
    add_run(
        i, [rest](const uint8_t* p) __attribute__((always_inline)) { return Row::first(p, rest); },
        [rest](const float* p) __attribute__((always_inline)) { return load16_first(p, rest); });
  }
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) y[c] = fold_four(sums[c]);
}

template <typename Row, int kColumns>
KVASIR_INLINE void float_columns(const uint8_t* const* rows, size_t n_rows, const std::byte* x,
                                 size_t x_stride, size_t n, float* y, size_t y_stride) {
  const float* columns[kColumns];
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = reinterpret_cast<const float*>(x + static_cast<size_t>(c) * x_stride);
  }
  Floats4 sums[kColumns];
  float_tile<Row, kColumns>(rows, columns, n, sums);
  KVASIR_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    float values[4];
    store4(values, sums[c]);
    for (size_t r = 0; r < n_rows; ++r) y[static_cast<size_t>(c) * y_stride + r] = values[r];
  }
}

// A MatMul. Rows past the last one repeat it; their results are not stored.
template <typename Row>
void float_matmul(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n, const std::byte* x,
                  size_t x_stride, size_t n_x, float* y, size_t y_stride) {
  const uint8_t* weights = reinterpret_cast<const uint8_t*>(w);
  for (size_t r = 0; r < n_rows; r += 4) {
    const size_t n_here = n_rows - r < 4 ? n_rows - r : 4;
    const uint8_t* rows[4];
    for (size_t i = 0; i < 4; ++i) {
      rows[i] = weights + (r + (i < n_here ? i : n_here - 1)) * row_bytes;
    }
    size_t c = 0;
    for (; c + kFloatColumns <= n_x; c += kFloatColumns) {
      float_columns<Row, kFloatColumns>(rows, n_here, x + c * x_stride, x_stride, n,
                                        y + c * y_stride + r, y_stride);
    }
    for (; c < n_x; ++c) {
      float_columns<Row, 1>(rows, n_here, x + c * x_stride, x_stride, n, y + c * y_stride + r,
                            y_stride);
    }
  }
}

}  // namespace
}  // namespace kvasir::kernels
