// Rule 2: a weight row times an activation row. Integers inside a block (exact in any order), one
// or two rounded f32 steps per block, blocks in ascending order.
#include <algorithm>
#include <iterator>

#include "kernels/scalar.h"
#include "kernels/scalar_blocks.h"

namespace kvasir::kernels::reference {
namespace {

// acc + (d_w * d_x) * isum, then, with minimums, + (m_w * d_x) * (sum of q_x)
template <bool kHasMinimums>
float add_block(float acc, const Weights32& w, const BlockQ8_0& x) {
  int32_t isum = 0;
  for (size_t i = 0; i < 32; ++i) isum += w.q[i] * x.q[i];
  acc = acc + (w.d * x.d) * static_cast<float>(isum);
  if constexpr (kHasMinimums) acc = acc + (w.m * x.d) * static_cast<float>(x.sum);
  return acc;
}

// acc + (d_w * d_x) * isum, then, with minimums, - (dmin * d_x) * msum.
// |isum| <= 16 * 128 * (16 * 128 * 127) < 2^31 whatever the bytes.
template <bool kHasMinimums>
float add_block(float acc, const Weights256& w, const BlockQ8K& x) {
  int32_t isum = 0;
  for (size_t group = 0; group < 16; ++group) {
    int32_t group_sum = 0;
    for (size_t i = 16 * group; i < 16 * group + 16; ++i) group_sum += w.q[i] * x.q[i];
    isum += w.scale[group] * group_sum;
  }
  acc = acc + (w.d * x.d) * static_cast<float>(isum);
  if constexpr (kHasMinimums) {
    int32_t msum = 0;
    for (size_t group = 0; group < 16; ++group) msum += w.min[group] * x.sums[group];
    acc = acc - (w.dmin * x.d) * static_cast<float>(msum);
  }
  return acc;
}

template <typename Weights>
struct Activation;
template <>
struct Activation<Weights32> {
  using Block = BlockQ8_0;
};
template <>
struct Activation<Weights256> {
  using Block = BlockQ8K;
};

// Unpacks each block once for up to kTile activation rows; every (row, column) pair still sees its
// blocks in ascending order.
template <TensorType kType>
void matmul_blocks(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n,
                   const std::byte* x, size_t x_stride, size_t n_x, float* y, size_t y_stride) {
  constexpr size_t kTile = 8;
  using Weights = typename Format<kType>::Weights;
  using Block = typename Activation<Weights>::Block;
  const size_t n_blocks = n / std::size(Block{}.q);
  for (size_t r = 0; r < n_rows; ++r) {
    const std::byte* row = w + r * row_bytes;
    for (size_t tile = 0; tile < n_x; tile += kTile) {
      const size_t n_tile = std::min(kTile, n_x - tile);
      float acc[kTile] = {};
      for (size_t b = 0; b < n_blocks; ++b) {
        Weights weights;
        Format<kType>::unpack(row + b * Format<kType>::kBytes, weights);
        for (size_t c = 0; c < n_tile; ++c) {
          const auto* x_row = reinterpret_cast<const Block*>(x + (tile + c) * x_stride);
          acc[c] = add_block<Format<kType>::kHasMinimums>(acc[c], weights, x_row[b]);
        }
      }
      for (size_t c = 0; c < n_tile; ++c) y[(tile + c) * y_stride + r] = acc[c];
    }
  }
}

// Float weights: rule16 over the exactly converted weights.
template <float (*load)(const std::byte*, size_t)>
void matmul_floats(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n,
                   const std::byte* x, size_t x_stride, size_t n_x, float* y, size_t y_stride) {
  for (size_t r = 0; r < n_rows; ++r) {
    const std::byte* row = w + r * row_bytes;
    for (size_t c = 0; c < n_x; ++c) {
      const auto* x_row = reinterpret_cast<const float*>(x + c * x_stride);
      y[c * y_stride + r] = rule16(n, [&](size_t i) { return load(row, i) * x_row[i]; });
    }
  }
}

}  // namespace

MatMul matmul(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return matmul_floats<load_f32>;
    case TensorType::kF16:
      return matmul_floats<load_f16>;
    case TensorType::kBF16:
      return matmul_floats<load_bf16>;
    case TensorType::kQ8_0:
      return matmul_blocks<TensorType::kQ8_0>;
    case TensorType::kQ4_0:
      return matmul_blocks<TensorType::kQ4_0>;
    case TensorType::kQ4_1:
      return matmul_blocks<TensorType::kQ4_1>;
    case TensorType::kQ5_0:
      return matmul_blocks<TensorType::kQ5_0>;
    case TensorType::kQ5_1:
      return matmul_blocks<TensorType::kQ5_1>;
    case TensorType::kIQ4_NL:
      return matmul_blocks<TensorType::kIQ4_NL>;
    case TensorType::kMXFP4:
      return matmul_blocks<TensorType::kMXFP4>;
    case TensorType::kQ2_K:
      return matmul_blocks<TensorType::kQ2_K>;
    case TensorType::kQ3_K:
      return matmul_blocks<TensorType::kQ3_K>;
    case TensorType::kQ4_K:
      return matmul_blocks<TensorType::kQ4_K>;
    case TensorType::kQ5_K:
      return matmul_blocks<TensorType::kQ5_K>;
    case TensorType::kQ6_K:
      return matmul_blocks<TensorType::kQ6_K>;
    case TensorType::kIQ4_XS:
      return matmul_blocks<TensorType::kIQ4_XS>;
    default:
      return nullptr;
  }
}

}  // namespace kvasir::kernels::reference
