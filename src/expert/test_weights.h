// For *_test.cc only: random weights of any type, and the obvious way to multiply by them.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "expert/mat_mul.h"
#include "kernels/kernels.h"

namespace kvasir::expert {

using Random = std::mt19937_64;

inline float uniform(Random& random, float min, float max) {
  return min + (max - min) * (static_cast<float>(random() >> 40) * 0x1p-24F);
}

inline std::vector<float> random_floats(Random& random, size_t n, float max = 1.0F) {
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random, -max, max);
  return values;
}

// Random weights: floats below 0.25, or random bytes with small scales put in, since blocks of
// purely random bytes have scales that are huge or not finite.
class TestMatrix {
 public:
  TestMatrix(Random& random, kernels::TensorType type, uint32_t n_in, uint32_t n_out) {
    const size_t row_bytes = gguf::row_bytes(type, n_in);
    bytes_.resize(row_bytes * n_out);
    view_ = {type, n_in, n_out, row_bytes, bytes_.data()};
    if (type == kernels::TensorType::kF32) {
      const auto values = random_floats(random, bytes_.size() / 4, 0.25F);
      std::memcpy(bytes_.data(), values.data(), bytes_.size());
      return;
    }
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    const auto& info = gguf::type_info(type);
    for (size_t block = 0; block < bytes_.size(); block += info.block_bytes)
      set_scales(random, type, bytes_.data() + block);
  }
  TestMatrix(const TestMatrix&) = delete;
  TestMatrix& operator=(const TestMatrix&) = delete;

  const MatrixView& view() const { return view_; }
  std::byte* data() { return bytes_.data(); }

 private:
  // Writes f16 scales of about 2^-7 (or F16 values below 0.25).
  static void set_scales(Random& random, kernels::TensorType type, std::byte* block) {
    auto set = [&](size_t offset) {
      const auto half = static_cast<uint16_t>(0x1C00 + random() % 0x1000);
      std::memcpy(block + offset, &half, sizeof half);
    };
    switch (type) {
      case kernels::TensorType::kF16:
      case kernels::TensorType::kQ8_0:
      case kernels::TensorType::kQ4_0:
        set(0);
        break;
      case kernels::TensorType::kQ4_K:
        set(0);
        set(2);
        break;
      case kernels::TensorType::kQ6_K:
        set(208);
        break;
      default:
        KVASIR_CHECK(false);
    }
  }

  std::vector<std::byte> bytes_;
  MatrixView view_;
};

// One row through one matrix with the scalar kernels: quantised as its type wants, then row by row.
inline std::vector<float> multiply(const MatrixView& matrix, std::span<const float> x) {
  const auto& scalar = kernels::scalar();
  const auto format = kernels::activation_format(matrix.type);
  std::vector<std::byte> row(kernels::activation_row_bytes(format, x.size()));
  switch (format) {
    case kernels::ActivationFormat::kF32:
      std::memcpy(row.data(), x.data(), x.size_bytes());
      break;
    case kernels::ActivationFormat::kQ8_0:
      KVASIR_CHECK(scalar.quantize_q8_0(x.data(), x.size(),
                                        reinterpret_cast<kernels::BlockQ8_0*>(row.data())));
      break;
    case kernels::ActivationFormat::kQ8_K:
      KVASIR_CHECK(scalar.quantize_q8_k(x.data(), x.size(),
                                        reinterpret_cast<kernels::BlockQ8K*>(row.data())));
      break;
  }
  std::vector<float> y(matrix.n_out);
  for (size_t out = 0; out < y.size(); ++out)
    scalar.matmul(matrix.type)(matrix.data + out * matrix.row_bytes, matrix.row_bytes, 1,
                               matrix.n_in, row.data(), row.size(), 1, &y[out], 1);
  return y;
}

// All instruction sets this machine has.
inline std::vector<const kernels::KernelTable*> all_tables() {
  std::vector<const kernels::KernelTable*> tables;
  for (const kernels::KernelTable* table : kernels::available_tables())
    if (table != nullptr) tables.push_back(table);
  return tables;
}

}  // namespace kvasir::expert
