// Weight rows as floats, exactly as each format defines them.
#include "kernels/scalar.h"
#include "kernels/scalar_blocks.h"

namespace kvasir::kernels {
namespace {

using namespace reference;

// y = d * q, plus m with minimums.
template <TensorType kType>
void values(const Weights32& w, float* out) {
  for (size_t i = 0; i < 32; ++i) {
    out[i] = w.d * static_cast<float>(w.q[i]);
    if constexpr (Format<kType>::kHasMinimums) out[i] = out[i] + w.m;
  }
}

// y = (d * scale) * q, minus dmin * min with minimums.
template <TensorType kType>
void values(const Weights256& w, float* out) {
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 16;
    out[i] = (w.d * static_cast<float>(w.scale[group])) * static_cast<float>(w.q[i]);
    if constexpr (Format<kType>::kHasMinimums) {
      out[i] = out[i] - w.dmin * static_cast<float>(w.min[group]);
    }
  }
}

template <TensorType kType>
void dequantize_blocks(const std::byte* w, size_t n, float* out) {
  typename Format<kType>::Weights weights;
  constexpr size_t kLength = sizeof weights.q;
  for (size_t b = 0; b < n / kLength; ++b) {
    Format<kType>::unpack(w + b * Format<kType>::kBytes, weights);
    values<kType>(weights, out + b * kLength);
  }
}

}  // namespace

bool dequantize_row(TensorType type, const std::byte* w, size_t n, float* out) {
  switch (type) {
    case TensorType::kF32:
      for (size_t i = 0; i < n; ++i) out[i] = load_f32(w, i);
      break;
    case TensorType::kF16:
      for (size_t i = 0; i < n; ++i) out[i] = load_f16(w, i);
      break;
    case TensorType::kBF16:
      for (size_t i = 0; i < n; ++i) out[i] = load_bf16(w, i);
      break;
    case TensorType::kQ8_0:
      dequantize_blocks<TensorType::kQ8_0>(w, n, out);
      break;
    case TensorType::kQ4_0:
      dequantize_blocks<TensorType::kQ4_0>(w, n, out);
      break;
    case TensorType::kQ4_1:
      dequantize_blocks<TensorType::kQ4_1>(w, n, out);
      break;
    case TensorType::kQ5_0:
      dequantize_blocks<TensorType::kQ5_0>(w, n, out);
      break;
    case TensorType::kQ5_1:
      dequantize_blocks<TensorType::kQ5_1>(w, n, out);
      break;
    case TensorType::kIQ4_NL:
      dequantize_blocks<TensorType::kIQ4_NL>(w, n, out);
      break;
    case TensorType::kMXFP4:
      dequantize_blocks<TensorType::kMXFP4>(w, n, out);
      break;
    case TensorType::kQ2_K:
      dequantize_blocks<TensorType::kQ2_K>(w, n, out);
      break;
    case TensorType::kQ3_K:
      dequantize_blocks<TensorType::kQ3_K>(w, n, out);
      break;
    case TensorType::kQ4_K:
      dequantize_blocks<TensorType::kQ4_K>(w, n, out);
      break;
    case TensorType::kQ5_K:
      dequantize_blocks<TensorType::kQ5_K>(w, n, out);
      break;
    case TensorType::kQ6_K:
      dequantize_blocks<TensorType::kQ6_K>(w, n, out);
      break;
    case TensorType::kIQ4_XS:
      dequantize_blocks<TensorType::kIQ4_XS>(w, n, out);
      break;
    default:
      KVASIR_CHECK(is_supported(type));
  }
  return all_finite(out, n);
}

}  // namespace kvasir::kernels
