// Rule 7: the delta-net's convolution and recurrence.
#include "kernels/scalar.h"

namespace kvasir::kernels::reference {

void conv_silu(const float* const* taps, size_t n_taps, const float* weight, size_t channels,
               float* out) {
  for (size_t c = 0; c < channels; ++c) {
    const float* w = weight + c * n_taps;
    float sum = taps[0][c] * w[0];
    for (size_t m = 1; m < n_taps; ++m) sum = sum + taps[m][c] * w[m];
    out[c] = canonical_silu(sum);
  }
}

void delta_step(float* state, const float* q, const float* k, const float* v, float decay,
                float beta, float c, size_t dim_k, size_t n_columns, float* o) {
  for (size_t j = 0; j < n_columns; ++j) {
    float* s = state + j * dim_k;
    for (size_t i = 0; i < dim_k; ++i) s[i] = s[i] * decay;
    const float r = dot(s, k, dim_k);
    const float delta = beta * (v[j] - r);
    for (size_t i = 0; i < dim_k; ++i) s[i] = s[i] + k[i] * delta;
    o[j] = dot(s, q, dim_k) * c;
  }
}

}  // namespace kvasir::kernels::reference
