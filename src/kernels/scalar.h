// The scalar reference: the definition of every KernelTable function, one file per topic. Other
// instruction sets may use these for what they do not speed up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "kernels/bit_cast.h"
#include "kernels/canonical_math.h"
#include "kernels/kernels.h"

namespace kvasir::kernels::reference {

// rule16: the sum of term(0) ... term(n - 1). Term i goes to partial sum i mod 16, in ascending i;
// then the upper half of the partial sums is added to the lower until one is left.
template <typename Term>
float rule16(size_t n, Term term) {
  float partial[16] = {};
  const size_t n_whole = n / 16 * 16;
  for (size_t i = 0; i < n_whole; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) partial[lane] = partial[lane] + term(i + lane);
  }
  for (size_t i = n_whole; i < n; ++i) partial[i - n_whole] = partial[i - n_whole] + term(i);
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) partial[lane] = partial[lane] + partial[lane + half];
  }
  return partial[0];
}

// Value i of a row that may lie at any address.
inline float load_f32(const std::byte* row, size_t i) {
  return load_le<float>(row + 4 * i);
}
inline float load_f16(const std::byte* row, size_t i) {
  return kernels::f32_from_f16(load_le<uint16_t>(row + 2 * i));
}
inline float load_bf16(const std::byte* row, size_t i) {
  return bit_cast<float>(uint32_t{load_le<uint16_t>(row + 2 * i)} << 16);
}
inline float load_kv(const std::byte* row, KvType type, size_t i) {
  return type == KvType::kF16 ? load_f16(row, i) : load_f32(row, i);
}

// scalar_dot.cc: null for a type without kernels.
MatMul matmul(TensorType type);

// scalar_quantize.cc
bool quantize_q8_k(const float* x, size_t n, BlockQ8K* out);
bool quantize_q8_0(const float* x, size_t n, BlockQ8_0* out);
bool all_finite(const float* x, size_t n);
bool f16_from_f32(const float* x, size_t n, uint16_t* out);
void f32_from_f16(const uint16_t* x, size_t n, float* out);

// scalar_vector.cc
float dot(const float* a, const float* b, size_t n);
void rms_norm(const float* x, const float* weight, size_t n, float eps, float* y);
void l2_norm(const float* x, size_t n, float eps, float* y);
void exp(const float* x, size_t n, float* out);
void sigmoid(const float* x, size_t n, float* out);
void silu(const float* x, size_t n, float* out);
void silu_mul(const float* gate, const float* up, size_t n, float* out);
void sigmoid_mul(const float* x, const float* gate, size_t n, float* out);
void softmax(const float* x, size_t n, float* p);
void add(const float* x, const float* y, size_t n, float* out);
void axpy(float a, const float* x, size_t n, float* y);

// scalar_attention.cc
void rope(const float* cos, const float* sin, size_t half, float* x);
void attention_scores(const float* q, const std::byte* k, size_t k_stride, KvType type, size_t dim,
                      size_t n, float c, float* scores);
float attention_values(float* scores, float max, const std::byte* v, size_t v_stride, KvType type,
                       size_t dim, size_t n, float* u);

// scalar_delta.cc
void conv_silu(const float* const* taps, size_t n_taps, const float* weight, size_t channels,
               float* out);
void delta_step(float* state, const float* q, const float* k, const float* v, float decay,
                float beta, float c, size_t dim_k, size_t n_columns, float* o);

}  // namespace kvasir::kernels::reference
