#include "kernels/activation.h"

namespace kvasir::kernels {

bool is_supported(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kQ8_0:
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
    case TensorType::kMXFP4:
      return true;
    default:
      return false;
  }
}

ActivationFormat activation_format(TensorType weight_type) {
  KVASIR_CHECK(is_supported(weight_type));
  switch (weight_type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      return ActivationFormat::kF32;
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
    case TensorType::kIQ4_XS:
      return ActivationFormat::kQ8_K;
    default:
      return ActivationFormat::kQ8_0;
  }
}

size_t activation_block_length(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::kF32:
      return 1;
    case ActivationFormat::kQ8_0:
      return 32;
    case ActivationFormat::kQ8_K:
      return 256;
  }
  KVASIR_CHECK(false);
}

size_t activation_row_bytes(ActivationFormat format, size_t n) {
  switch (format) {
    case ActivationFormat::kF32:
      return n * sizeof(float);
    case ActivationFormat::kQ8_0:
      return n / 32 * sizeof(BlockQ8_0);
    case ActivationFormat::kQ8_K:
      return n / 256 * sizeof(BlockQ8K);
  }
  KVASIR_CHECK(false);
}

}  // namespace kvasir::kernels
