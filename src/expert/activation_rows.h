// Rows of floats in the formats that the weights they meet want (rule 1 of docs/arithmetic.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace kvasir::expert {

// A set of activation formats.
class FormatSet {
 public:
  FormatSet() = default;
  // The formats of the given weight types.
  explicit FormatSet(std::initializer_list<kernels::TensorType> weight_types) {
    for (kernels::TensorType type : weight_types) add(kernels::activation_format(type));
  }

  void add(kernels::ActivationFormat format) { bits_ |= bit(format); }
  void add(FormatSet other) { bits_ |= other.bits_; }
  bool contains(kernels::ActivationFormat format) const { return (bits_ & bit(format)) != 0; }

 private:
  static unsigned bit(kernels::ActivationFormat format) {
    return 1U << static_cast<unsigned>(format);
  }
  unsigned bits_ = 0;
};

// The quantised forms of rows of n floats; the floats themselves belong to somebody else. Different
// rows may be quantised by different threads.
class ActivationRows {
 public:
  // Makes room for n_rows rows in each of `formats`; n is a multiple of their block lengths. Keeps
  // memory that is already there; rows that were never quantised read as zeros.
  void resize(size_t n_rows, size_t n, FormatSet formats);

  // Fills row `row` in each of `formats` from x: [n]. False if a value is not finite, or too large
  // for the format; the quantised row is then all zero, so that mat-muls over it stay defined.
  bool quantise(const kernels::KernelTable& kernels, size_t row, const float* x, FormatSet formats);

  size_t stride(kernels::ActivationFormat format) const {
    return kernels::activation_row_bytes(format, n_);
  }
  // Not for kF32.
  const std::byte* row(kernels::ActivationFormat format, size_t row) const {
    return bytes(format).data() + row * stride(format);
  }
  size_t allocated_bytes() const { return q8_0_.capacity() + q8_k_.capacity(); }

 private:
  const std::vector<std::byte>& bytes(kernels::ActivationFormat format) const {
    return format == kernels::ActivationFormat::kQ8_0 ? q8_0_ : q8_k_;
  }

  size_t n_ = 0;
  std::vector<std::byte> q8_0_, q8_k_;
};

}  // namespace kvasir::expert
