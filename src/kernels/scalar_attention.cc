// Rules 5 and 6: rope and one head's attention over one block of positions.
#include "kernels/scalar.h"

namespace kvasir::kernels::reference {

void rope(const float* cos, const float* sin, size_t half, float* x) {
  for (size_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = a * sin[i] + b * cos[i];
  }
}

void attention_scores(const float* q, const std::byte* k, size_t k_stride, KvType type, size_t dim,
                      size_t n, float c, float* scores) {
  for (size_t t = 0; t < n; ++t) {
    const std::byte* row = k + t * k_stride;
    scores[t] = rule16(dim, [&](size_t i) { return q[i] * load_kv(row, type, i); }) * c;
  }
}

float attention_values(float* scores, float max, const std::byte* v, size_t v_stride, KvType type,
                       size_t dim, size_t n, float* u) {
  for (size_t t = 0; t < n; ++t) scores[t] = canonical_exp(scores[t] - max);
  for (size_t j = 0; j < dim; ++j) u[j] = 0.0f;
  for (size_t t = 0; t < n; ++t) {
    const std::byte* row = v + t * v_stride;
    for (size_t j = 0; j < dim; ++j) u[j] = u[j] + scores[t] * load_kv(row, type, j);
  }
  return rule16(n, [&](size_t t) { return scores[t]; });
}

}  // namespace kvasir::kernels::reference
