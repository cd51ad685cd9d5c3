// Sixteen floats, the unit of rule16. Every operation is the plain IEEE one on each element;
// nothing here contracts or reorders.
#pragma once

#if defined(__aarch64__)
#include "kernels/simd_f32_neon.h"
#else
#include "kernels/simd_f32_x86.h"
#endif

namespace kvasir::kernels {
namespace {

// Rows of 16 floats in one of the stored forms. first(p, n): as load16_first.
struct RowF32 {
  static constexpr size_t kBytes = 4;
  KVASIR_INLINE static F32x16 load(const uint8_t* p) {
    return load16(reinterpret_cast<const float*>(p));
  }
  KVASIR_INLINE static F32x16 first(const uint8_t* p, size_t n) {
    return load16_first(reinterpret_cast<const float*>(p), n);
  }
};
struct RowF16 {
  static constexpr size_t kBytes = 2;
  KVASIR_INLINE static F32x16 load(const uint8_t* p) { return load16_f16(p); }
  KVASIR_INLINE static F32x16 first(const uint8_t* p, size_t n) {
    uint8_t values[32] = {};
    __builtin_memcpy(values, p, 2 * n);
    return load16_f16(values);
  }
};
struct RowBF16 {
  static constexpr size_t kBytes = 2;
  KVASIR_INLINE static F32x16 load(const uint8_t* p) { return load16_bf16(p); }
  KVASIR_INLINE static F32x16 first(const uint8_t* p, size_t n) {
    uint8_t values[32] = {};
    __builtin_memcpy(values, p, 2 * n);
    return load16_bf16(values);
  }
};

// columns[m] = p[m], p[m + 4], p[m + 8], ...: the columns of 16 rows of four.
KVASIR_INLINE void load16_columns_of_4(const float* p, F32x16* columns) {
  Floats parts[16 / kTileRows][4];
  KVASIR_UNROLL
  for (int part = 0; part < 16 / kTileRows; ++part) {
    const uint8_t* rows[kTileRows];
    KVASIR_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      rows[r] = reinterpret_cast<const uint8_t*>(p + 4 * (part * kTileRows + r));
    }
    Ints v[4];
    KVASIR_UNROLL
    for (int i = 0; i < 4; ++i) v[i] = load_lanes(rows + i, 4, 0);
    parts[part][0] = bits_as_floats(low64(low32(v[0], v[1]), low32(v[2], v[3])));
    parts[part][1] = bits_as_floats(high64(low32(v[0], v[1]), low32(v[2], v[3])));
    parts[part][2] = bits_as_floats(low64(high32(v[0], v[1]), high32(v[2], v[3])));
    parts[part][3] = bits_as_floats(high64(high32(v[0], v[1]), high32(v[2], v[3])));
  }
  KVASIR_UNROLL
  for (int m = 0; m < 4; ++m) {
#if defined(__AVX512F__)
    columns[m] = {parts[0][m]};
#else
    columns[m] = {parts[0][m], parts[1][m]};
#endif
  }
}

// Calls step(i, load, store) for each run of 16 elements from i on, the last one perhaps shorter:
// load(p) and store(p, v) then touch only what there is.
template <typename Step>
KVASIR_INLINE void for_each_16(size_t n, Step step) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    step(
        i, [](const float* p) __attribute__((always_inline)) { return load16(p); },
        [](float* p, F32x16 v) __attribute__((always_inline)) { store16(p, v); });
  }
  if (i < n) {
    const size_t rest = n - i;
    step(
        i, [rest](const float* p) __attribute__((always_inline)) { return load16_first(p, rest); },
        [rest](float* p, F32x16 v) __attribute__((always_inline)) { store16_first(p, rest, v); });
  }
}

}  // namespace
}  // namespace kvasir::kernels
