#include "kernels/scalar.h"

namespace kvasir::kernels {

const KernelTable& scalar() {
  static const KernelTable table = [] {
    KernelTable t{};
    t.name = "scalar";
    for (size_t type = 0; type < t.matmul_by_type.size(); ++type) {
      t.matmul_by_type[type] = reference::matmul(static_cast<TensorType>(type));
    }
    t.quantize_q8_k = reference::quantize_q8_k;
    t.quantize_q8_0 = reference::quantize_q8_0;
    t.all_finite = reference::all_finite;
    t.f16_from_f32 = reference::f16_from_f32;
    t.f32_from_f16 = reference::f32_from_f16;
    t.dot = reference::dot;
    t.rms_norm = reference::rms_norm;
    t.l2_norm = reference::l2_norm;
    t.exp = reference::exp;
    t.sigmoid = reference::sigmoid;
    t.silu = reference::silu;
    t.silu_mul = reference::silu_mul;
    t.sigmoid_mul = reference::sigmoid_mul;
    t.softmax = reference::softmax;
    t.add = reference::add;
    t.axpy = reference::axpy;
    t.rope = reference::rope;
    t.attention_scores = reference::attention_scores;
    t.attention_values = reference::attention_values;
    t.conv_silu = reference::conv_silu;
    t.delta_step = reference::delta_step;
    return t;
  }();
  return table;
}

}  // namespace kvasir::kernels
