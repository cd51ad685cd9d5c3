// Every mat-mul of every instruction set equals the scalar one. Acceptance:
// KVASIR_TEST_ROWS=1000000.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "kernels/test_isa_equality.h"

namespace kvasir::kernels {
namespace {

class IsaMatMul : public IsaEquality {
 protected:
  void fill_weight_block(const WeightType& type, std::byte* block) {
    const size_t pattern = below(6);
    for (size_t k = 0; k < type.block_bytes; ++k) {
      uint8_t byte = 0;
      switch (pattern) {
        case 0:
          byte = 0x00;
          break;
        case 1:
          byte = 0xff;
          break;
        case 2:
          byte = k % 2 == 0 ? 0x80 : 0x7f;
          break;
        default:
          byte = static_cast<uint8_t>(random_());
      }
      block[k] = std::byte{byte};
    }
    const size_t kind = below(8);
    for (const int offset : type.scale_offsets) {
      if (offset >= 0) store_le(block + offset, half(kind));
    }
    if (type.type == TensorType::kMXFP4) {
      const size_t e = kind == 0 ? below(4) : kind == 2 ? 255 - below(4) : 100 + below(40);
      block[0] = static_cast<std::byte>(kind == 3 ? below(256) : e);
    }
  }

  // One row; sometimes with a scale that is not finite.
  void fill_weight_row(const WeightType& type, size_t n, std::byte* row) {
    if (type.block_length == 1) {
      const Floats values = floats(n, one_in(4));
      for (size_t i = 0; i < n; ++i) {
        const uint32_t bits = bit_cast<uint32_t>(values[i]);
        switch (type.type) {
          case TensorType::kF32:
            store_le(row + 4 * i, bits);
            break;
          case TensorType::kBF16:
            store_le(row + 2 * i, static_cast<uint16_t>(bits >> 16));
            break;
          default:
            store_le(row + 2 * i, kernels::f16_from_f32(values[i]));
        }
      }
      return;
    }
    const size_t n_blocks = n / type.block_length;
    for (size_t b = 0; b < n_blocks; ++b) fill_weight_block(type, row + b * type.block_bytes);
    if (type.scale_offsets[0] >= 0 && one_in(64)) {
      const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00};
      std::byte* block = row + below(n_blocks) * type.block_bytes;
      store_le(block + type.scale_offsets[0], bad[below(3)]);
    }
  }

  // An activation row as it may arrive from anywhere: q in -127..127, any finite d.
  template <typename Block>
  void fill_q(Block& block) {
    const size_t pattern = below(5);
    for (size_t i = 0; i < std::size(block.q); ++i) {
      switch (pattern) {
        case 0:
          block.q[i] = 0;
          break;
        case 1:
          block.q[i] = 127;
          break;
        case 2:
          block.q[i] = i % 2 == 0 ? 127 : -127;
          break;
        default:
          block.q[i] = static_cast<int8_t>(static_cast<int>(below(255)) - 127);
      }
    }
  }
  void fill_activation_row(ActivationFormat format, size_t n, std::byte* row) {
    if (format == ActivationFormat::kF32) {
      const Floats values = floats(n, one_in(4));
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>(row));
    } else if (format == ActivationFormat::kQ8_K) {
      for (size_t b = 0; b < n / 256; ++b) {
        BlockQ8K block{};
        fill_q(block);
        for (size_t i = 0; i < 256; ++i) {
          block.sums[i / 16] = static_cast<int16_t>(block.sums[i / 16] + block.q[i]);
        }
        block.d = number(below(12));
        std::memcpy(row + b * sizeof block, &block, sizeof block);
      }
    } else {
      for (size_t b = 0; b < n / 32; ++b) {
        BlockQ8_0 block{};
        fill_q(block);
        for (const int8_t q : block.q) block.sum += q;
        block.d = kernels::f32_from_f16(half(below(12)));
        std::memcpy(row + b * sizeof block, &block, sizeof block);
      }
    }
  }

  // Mostly 256 values and a little more; now and then less than that, or many blocks: beyond 64 of
  // 256 values kernels change their way.
  size_t row_length(const WeightType& type) {
    if (type.block_length == 256 && one_in(32)) return 256 * (1 + below(70));
    if (type.block_length == 256) return 256 * (one_in(4) ? 1 + below(4) : 1);
    if (type.block_length == 32) return 32 * (one_in(8) ? 1 + below(7) : 8 + below(4));
    return one_in(8) ? below(100) : 256 + below(40);
  }

  void compare(const WeightType& type);
};

void IsaMatMul::compare(const WeightType& type) {
  const ActivationFormat format = activation_format(type.type);
  for (size_t done = 0; done < rows_ && !HasFatalFailure();) {
    const size_t n = row_length(type);
    // Around the sizes at which kernels change their way: 5 columns, 32 rows, 64 columns.
    const size_t n_rows = 1 + below(one_in(4) ? 70 : 17);
    const size_t n_x = 1 + below(one_in(16) ? 140 : 9);
    const size_t row_bytes = n / type.block_length * type.block_bytes;
    const size_t row_stride = row_bytes + (one_in(2) ? 0 : below(7));
    Buffer w((n_rows - 1) * row_stride + row_bytes, below(16));
    for (size_t r = 0; r < n_rows; ++r) fill_weight_row(type, n, w.data() + r * row_stride);

    const size_t x_bytes = activation_row_bytes(format, n);
    const size_t x_stride = x_bytes + 4 * (one_in(2) ? 0 : below(5));
    Buffer x((n_x - 1) * x_stride + x_bytes, 4 * below(8));
    for (size_t c = 0; c < n_x; ++c) fill_activation_row(format, n, x.data() + c * x_stride);

    const size_t y_stride = n_rows + below(4);
    const std::string what = std::string(type.name) + " n " + std::to_string(n) + " rows " +
                             std::to_string(n_rows) + " x " + std::to_string(n_x);
    expect_equal(what, [&](const KernelTable& table) {
      Floats y((n_x - 1) * y_stride + n_rows, 12345.0f);  // gaps between rows stay as they are
      table.matmul(type.type)(w.data(), row_stride, n_rows, n, x.data(), x_stride, n_x, y.data(),
                              y_stride);
      return y;
    });
    if (n >= 256) done += n_rows;
  }
}

#define KVASIR_MATMUL_TEST(Type)                           \
  TEST_F(IsaMatMul, IsTheScalarOneFor##Type) {             \
    for (const WeightType& type : kWeightTypes) {          \
      if (type.type == TensorType::k##Type) compare(type); \
    }                                                      \
  }
KVASIR_MATMUL_TEST(F32)
KVASIR_MATMUL_TEST(F16)
KVASIR_MATMUL_TEST(BF16)
KVASIR_MATMUL_TEST(Q8_0)
KVASIR_MATMUL_TEST(Q4_0)
KVASIR_MATMUL_TEST(Q4_1)
KVASIR_MATMUL_TEST(Q5_0)
KVASIR_MATMUL_TEST(Q5_1)
KVASIR_MATMUL_TEST(IQ4_NL)
KVASIR_MATMUL_TEST(MXFP4)
KVASIR_MATMUL_TEST(Q2_K)
KVASIR_MATMUL_TEST(Q3_K)
KVASIR_MATMUL_TEST(Q4_K)
KVASIR_MATMUL_TEST(Q5_K)
KVASIR_MATMUL_TEST(Q6_K)
KVASIR_MATMUL_TEST(IQ4_XS)
#undef KVASIR_MATMUL_TEST

}  // namespace
}  // namespace kvasir::kernels
