// Rules 1, 3, 4, 5 and 8 of docs/arithmetic.md over rows of floats, sixteen at a time: the same
// operations in the same order as the scalar reference.
#pragma once

#include "kernels/exp_constants.h"
#include "kernels/kernels.h"
#include "kernels/simd_f32.h"

namespace kvasir::kernels {
namespace {

// --- Rule 3, on registers.

// See exp_constants.h.
KVASIR_INLINE F32x16 exp16(F32x16 x) {
  const F32x16 t = x * splat(kLog2E) + splat(kExpRound);
  const F32x16 n = t - splat(kExpRound);
  const F32x16 r = (x - n * splat(kLn2Hi)) - n * splat(kLn2Lo);
  F32x16 p = splat(kExp6);
  p = p * r + splat(kExp5);
  p = p * r + splat(kExp4);
  p = p * r + splat(kExp3);
  p = p * r + splat(kExp2);
  p = p * r + splat(1.0F);
  p = p * r + splat(1.0F);
  const F32x16 y = p * exponent_from_low_bits(t, static_cast<int>(kExpOneBits));
  const F32x16 capped = select_if_less(splat(kExpMax), x, splat(__builtin_inff()), y);
  return select_if_less(x, splat(kExpMin), splat(0.0F), capped);
}
KVASIR_INLINE F32x16 sigmoid16(F32x16 x) {
  return splat(1.0F) / (splat(1.0F) + exp16(negate(x)));
}
KVASIR_INLINE F32x16 silu16(F32x16 x) {
  return x / (splat(1.0F) + exp16(negate(x)));
}

// --- Rule 3 and 9, rows.

void exp_row(const float* x, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(out + i, exp16(load(x + i))); });
}
void sigmoid_row(const float* x, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(out + i, sigmoid16(load(x + i))); });
}
void silu_row(const float* x, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(out + i, silu16(load(x + i))); });
}
void silu_mul_row(const float* gate, const float* up, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        store(out + i, silu16(load(gate + i)) * load(up + i));
      });
}
void sigmoid_mul_row(const float* x, const float* gate, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        store(out + i, load(x + i) * sigmoid16(load(gate + i)));
      });
}
void add_rows(const float* x, const float* y, size_t n, float* out) {
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(out + i, load(x + i) + load(y + i)); });
}
void axpy_row(float a, const float* x, size_t n, float* y) {
  for_each_16(
      n, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        store(y + i, load(y + i) + splat(a) * load(x + i));
      });
}

// --- Sums. Elements past the end count as zero, which changes no partial sum: those start at +0
// and so are never -0.

float dot_rows(const float* a, const float* b, size_t n) {
  F32x16 sum = splat(0.0F);
  for_each_16(
      n, [&](size_t i, auto load, auto)
             __attribute__((always_inline)) { sum = sum + load(a + i) * load(b + i); });
  return fold(sum);
}

float sum_row(const float* a, size_t n) {
  F32x16 sum = splat(0.0F);
  for_each_16(
      n, [&](size_t i, auto load, auto)
             __attribute__((always_inline)) { sum = sum + load(a + i); });
  return fold(sum);
}

void rms_norm_row(const float* x, const float* weight, size_t n, float eps, float* y) {
  const float r = 1.0F / square_root(dot_rows(x, x, n) / static_cast<float>(n) + eps);
  for_each_16(
      n, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        store(y + i, (load(x + i) * splat(r)) * load(weight + i));
      });
}

void l2_norm_row(const float* x, size_t n, float eps, float* y) {
  const float norm = square_root(dot_rows(x, x, n));
  const float divisor = norm > eps ? norm : eps;
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(y + i, load(x + i) / splat(divisor)); });
}

float largest_of_row(const float* x, size_t n) {
  float max = x[0];
  size_t i = 0;
  if (n >= 16) {
    F32x16 largest16 = load16(x);
    for (i = 16; i + 16 <= n; i += 16) largest16 = larger(largest16, load16(x + i));
    float values[16];
    store16(values, largest16);
    for (const float value : values) max = value > max ? value : max;
  }
  for (; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

void softmax_row(const float* x, size_t n, float* p) {
  if (n == 0) return;
  const float max = largest_of_row(x, n);
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(p + i, exp16(load(x + i) - splat(max))); });
  const float sum = sum_row(p, n);
  for_each_16(
      n, [=](size_t i, auto load, auto store)
             __attribute__((always_inline)) { store(p + i, load(p + i) / splat(sum)); });
}

// --- Rule 5.

void rope_head(const float* cos, const float* sin, size_t half, float* x) {
  for_each_16(
      half, [=](size_t i, auto load, auto store) __attribute__((always_inline)) {
        const F32x16 a = load(x + i);
        const F32x16 b = load(x + half + i);
        const F32x16 c = load(cos + i);
        const F32x16 s = load(sin + i);
        store(x + i, a * c - b * s);
        store(x + half + i, a * s + b * c);
      });
}

}  // namespace
}  // namespace kvasir::kernels
