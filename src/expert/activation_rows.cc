#include "expert/activation_rows.h"

#include <algorithm>

#include "expert/scratch.h"

namespace kvasir::expert {

using kernels::ActivationFormat;

void ActivationRows::resize(size_t n_rows, size_t n, FormatSet formats) {
  n_ = n;
  auto grow = [&](std::vector<std::byte>& bytes, ActivationFormat format) {
    if (formats.contains(format)) grow_scratch(bytes, n_rows * stride(format));
  };
  grow(q8_0_, ActivationFormat::kQ8_0);
  grow(q8_k_, ActivationFormat::kQ8_K);
}

bool ActivationRows::quantise(const kernels::KernelTable& kernels, size_t row, const float* x,
                              FormatSet formats) {
  const bool as_q8_0 = formats.contains(ActivationFormat::kQ8_0);
  const bool as_q8_k = formats.contains(ActivationFormat::kQ8_K);
  std::byte* q8_0 = q8_0_.data() + row * stride(ActivationFormat::kQ8_0);
  std::byte* q8_k = q8_k_.data() + row * stride(ActivationFormat::kQ8_K);
  bool finite = true;
  if (as_q8_0) finite = kernels.quantize_q8_0(x, n_, reinterpret_cast<kernels::BlockQ8_0*>(q8_0));
  if (as_q8_k && finite)
    finite = kernels.quantize_q8_k(x, n_, reinterpret_cast<kernels::BlockQ8K*>(q8_k));
  if (!as_q8_0 && !as_q8_k) finite = kernels.all_finite(x, n_);
  if (!finite) {
    if (as_q8_0) std::fill_n(q8_0, stride(ActivationFormat::kQ8_0), std::byte{0});
    if (as_q8_k) std::fill_n(q8_k, stride(ActivationFormat::kQ8_K), std::byte{0});
  }
  return finite;
}

}  // namespace kvasir::expert
