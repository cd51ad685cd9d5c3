// Rules 3, 4 and 8 over rows of floats.
#include <cmath>

#include "kernels/scalar.h"

namespace kvasir::kernels::reference {

float dot(const float* a, const float* b, size_t n) {
  return rule16(n, [&](size_t i) { return a[i] * b[i]; });
}

void rms_norm(const float* x, const float* weight, size_t n, float eps, float* y) {
  const float r = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * r) * weight[i];
}

void l2_norm(const float* x, size_t n, float eps, float* y) {
  const float norm = std::sqrt(dot(x, x, n));
  const float divisor = norm > eps ? norm : eps;
  for (size_t i = 0; i < n; ++i) y[i] = x[i] / divisor;
}

void exp(const float* x, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = canonical_exp(x[i]);
}

void sigmoid(const float* x, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = canonical_sigmoid(x[i]);
}

void silu(const float* x, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = canonical_silu(x[i]);
}

void silu_mul(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = canonical_silu(gate[i]) * up[i];
}

void sigmoid_mul(const float* x, const float* gate, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * canonical_sigmoid(gate[i]);
}

void softmax(const float* x, size_t n, float* p) {
  if (n == 0) return;
  float max = x[0];
  for (size_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  for (size_t i = 0; i < n; ++i) p[i] = canonical_exp(x[i] - max);
  const float sum = rule16(n, [&](size_t i) { return p[i]; });
  for (size_t i = 0; i < n; ++i) p[i] = p[i] / sum;
}

void add(const float* x, const float* y, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void axpy(float a, const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] = y[i] + a * x[i];
}

}  // namespace kvasir::kernels::reference
