// The canonical arithmetic (docs/arithmetic.md, version 1) as one table of functions per
// instruction set. All tables give the same bits for the same input; `scalar()` is the definition.
//
// Conventions: n counts values, strides and row_bytes count bytes. Rows of weights lie as in the
// file; rows of floats are aligned to 4 bytes only. Inputs are finite unless a function says that
// it checks. Nothing here allocates, locks or throws; every function is thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "kernels/activation.h"

namespace kvasir::kernels {

// Raised by every change that can change a bit of any logit.
inline constexpr int kArithmeticVersion = 1;

enum class KvType : uint8_t { kF16, kF32 };

// y[c * y_stride + r] = weight row r . activation row c   for r < n_rows, c < n_x (rule 2).
// w: n_rows rows of n values, row_bytes apart. x: n_x rows in the weight type's activation format,
// x_stride bytes apart. y_stride in floats. A non-finite weight scale shows up as a non-finite y.
using MatMul = void (*)(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n,
                        const std::byte* x, size_t x_stride, size_t n_x, float* y, size_t y_stride);

struct KernelTable {
  std::string_view name;  // "scalar", "avx2", "avx512", "avx512-vnni", "neon", "neon-dotprod"

  // By TensorType; null where is_supported() is false.
  std::array<MatMul, 64> matmul_by_type;
  MatMul matmul(TensorType type) const { return matmul_by_type[static_cast<size_t>(type)]; }

  // Rule 1. n is a multiple of 256 (32). False, with out undefined, if a value is not finite (or,
  // for Q8_0, if a scale does not fit f16).
  bool (*quantize_q8_k)(const float* x, size_t n, BlockQ8K* out);
  bool (*quantize_q8_0)(const float* x, size_t n, BlockQ8_0* out);

  bool (*all_finite)(const float* x, size_t n);
  // IEEE half precision, nearest even. f16_from_f32: false if a result is not finite.
  bool (*f16_from_f32)(const float* x, size_t n, uint16_t* out);
  void (*f32_from_f16)(const uint16_t* x, size_t n, float* out);

  // rule16: the canonical sum over a[i] * b[i].
  float (*dot)(const float* a, const float* b, size_t n);
  // Rule 4. y may be x.
  void (*rms_norm)(const float* x, const float* weight, size_t n, float eps, float* y);
  void (*l2_norm)(const float* x, size_t n, float eps, float* y);

  // Rule 3, element by element. out may be an input.
  void (*exp)(const float* x, size_t n, float* out);
  void (*sigmoid)(const float* x, size_t n, float* out);
  void (*silu)(const float* x, size_t n, float* out);
  // out = silu(gate) * up  (rule 9; also the gated norm of the delta-net).
  void (*silu_mul)(const float* gate, const float* up, size_t n, float* out);
  // out = x * sigmoid(gate)  (the attention's output gate).
  void (*sigmoid_mul)(const float* x, const float* gate, size_t n, float* out);
  // p = exp(x - max(x)) / sum, the sum by rule16 (rule 8). p may be x.
  void (*softmax)(const float* x, size_t n, float* p);

  void (*add)(const float* x, const float* y, size_t n, float* out);  // out = x + y
  void (*axpy)(float a, const float* x, size_t n, float* y);          // y = y + a * x

  // Rule 5 for one head: pairs (x[i], x[i + half]), i < half.
  void (*rope)(const float* cos, const float* sin, size_t half, float* x);

  // Rule 6, one head, one block of n <= 256 positions; k and v rows of `dim` values, stride bytes
  // apart, in `type`.
  // scores[t] = rule16(q . k_t) * c
  void (*attention_scores)(const float* q, const std::byte* k, size_t k_stride, KvType type,
                           size_t dim, size_t n, float c, float* scores);
  // scores[t] becomes e_t = exp(scores[t] - max); u[j] = sum of e_t * v_tj in ascending t from +0;
  // returns l = rule16 sum of e_t.
  float (*attention_values)(float* scores, float max, const std::byte* v, size_t v_stride,
                            KvType type, size_t dim, size_t n, float* u);

  // Rule 7, the convolution: out[c] = silu(((t0 + t1) + t2) + ...), t_m = taps[m][c] *
  // weight[c * n_taps + m]; taps oldest first. n_taps in 1..8.
  void (*conv_silu)(const float* const* taps, size_t n_taps, const float* weight, size_t channels,
                    float* out);
  // Rule 7, the recurrence of one value head over value columns: state[j * dim_k + i] holds
  // S[i][j]; n_columns columns j of it, with their v and o.
  //   S = S * decay;  r_j = rule16(S_ij * k_i);  delta = beta * (v_j - r_j);
  //   S_ij = S_ij + k_i * delta;  o_j = rule16(S_ij * q_i) * c
  void (*delta_step)(float* state, const float* q, const float* k, const float* v, float decay,
                     float beta, float c, size_t dim_k, size_t n_columns, float* o);
};

const KernelTable& scalar();
// Null if this binary or this processor does not have it.
const KernelTable* avx2();
const KernelTable* avx512();  // uses VNNI where the processor has it
const KernelTable* neon();    // uses the dot-product extension where the processor has it

// Every table this machine can run, scalar first.
std::array<const KernelTable*, 3> available_tables();  // unused entries null

// By name ("scalar", "avx2", "avx512", "neon"); kNotFound for another name, kUnsupported if this
// machine cannot run it.
Result<const KernelTable*> find_table(std::string_view name);
// The one KVASIR_ISA names, else the best this machine can run.
Result<const KernelTable*> select_table();

// Weight rows to floats, exactly as the format defines them; scalar only (embedding rows, tests).
// False if a value is not finite.
bool dequantize_row(TensorType type, const std::byte* w, size_t n, float* out);

}  // namespace kvasir::kernels
