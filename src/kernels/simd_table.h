// The KernelTable of the instruction set that the including file is compiled for.
#pragma once

#include "kernels/simd_float_matmul.h"
#include "kernels/simd_matmul.h"
#include "kernels/simd_mixers.h"
#include "kernels/simd_quantize.h"
#include "kernels/simd_vector.h"

namespace kvasir::kernels {
namespace {

// One entry per TensorType.
struct MatMuls {
  MatMul by_type[64];
};

constexpr MatMuls make_matmuls() {
  MatMuls m{};
  const auto set = [&m](TensorType type, MatMul f) { m.by_type[static_cast<size_t>(type)] = f; };
  set(TensorType::kF32, float_matmul<RowF32>);
  set(TensorType::kF16, float_matmul<RowF16>);
  set(TensorType::kBF16, float_matmul<RowBF16>);
  set(TensorType::kQ8_0, matmul<WeightsQ8_0>);
  set(TensorType::kQ4_0, matmul<WeightsQ4_0>);
  set(TensorType::kQ4_1, matmul<WeightsQ4_1>);
  set(TensorType::kQ5_0, matmul<WeightsQ5_0>);
  set(TensorType::kQ5_1, matmul<WeightsQ5_1>);
  set(TensorType::kIQ4_NL, matmul<WeightsIQ4NL>);
  set(TensorType::kMXFP4, matmul<WeightsMXFP4>);
  set(TensorType::kQ2_K, matmul<WeightsQ2K>);
  set(TensorType::kQ3_K, matmul<WeightsQ3K>);
  set(TensorType::kQ4_K, matmul<WeightsQ4K>);
  set(TensorType::kQ5_K, matmul<WeightsQ5K>);
  set(TensorType::kQ6_K, matmul<WeightsQ6K>);
  set(TensorType::kIQ4_XS, matmul<WeightsIQ4XS>);
  return m;
}

constexpr KernelTable make_table(std::string_view name) {
  KernelTable t{};
  t.name = name;
  constexpr MatMuls kMatMuls = make_matmuls();
  for (size_t type = 0; type < 64; ++type) t.matmul_by_type[type] = kMatMuls.by_type[type];
  t.quantize_q8_k = quantize_q8_k_row;
  t.quantize_q8_0 = quantize_q8_0_row;
  t.all_finite = all_finite_row;
  t.f16_from_f32 = f16_from_f32_row;
  t.f32_from_f16 = f32_from_f16_row;
  t.dot = dot_rows;
  t.rms_norm = rms_norm_row;
  t.l2_norm = l2_norm_row;
  t.exp = exp_row;
  t.sigmoid = sigmoid_row;
  t.silu = silu_row;
  t.silu_mul = silu_mul_row;
  t.sigmoid_mul = sigmoid_mul_row;
  t.softmax = softmax_row;
  t.add = add_rows;
  t.axpy = axpy_row;
  t.rope = rope_head;
  t.attention_scores = attention_scores_block;
  t.attention_values = attention_values_block;
  t.conv_silu = conv_silu_channels;
  t.delta_step = delta_step_columns;
  return t;
}

}  // namespace
}  // namespace kvasir::kernels
