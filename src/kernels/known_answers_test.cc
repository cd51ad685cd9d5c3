// The bits of arithmetic version 1, of every table this machine has, over the rows of
// tests/data/blocks: x (1,024 values) and eight rows of each weight type. docs/arithmetic.md has
// the same numbers. If one changes, a logit changes: raise kArithmeticVersion.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.h"
#include "kernels/canonical_math.h"
#include "kernels/test_blocks.h"
#include "kernels/test_hash.h"

namespace kvasir::kernels {
namespace {

constexpr size_t kRows = 8;
constexpr size_t kLength = 1024;

class KnownAnswers : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(x_.size(), kLength);
    for (const KernelTable* table : available_tables()) {
      if (table != nullptr) tables_.push_back(table);
    }
  }

  const std::vector<float> x_ = read_block_file<float>("x.f32");
  std::vector<const KernelTable*> tables_;
};

// The eight dot products with x, as f32.
TEST_F(KnownAnswers, DotProducts) {
  const std::pair<TensorType, uint64_t> known[] = {
      {TensorType::kF16, 0x728d2c987416cd9f},    {TensorType::kBF16, 0xc7d26c3056eacc31},
      {TensorType::kQ8_0, 0x288fc49f5eee99da},   {TensorType::kQ4_0, 0xc28f96b4e3acb018},
      {TensorType::kQ4_1, 0x9e70386e4e2d0e96},   {TensorType::kQ5_0, 0x8ca69fa2b4b4ac64},
      {TensorType::kQ5_1, 0x649a4cdd36b6f521},   {TensorType::kIQ4_NL, 0x3c8feeb0697c3005},
      {TensorType::kMXFP4, 0xc8dee16e82a3b202},  {TensorType::kQ2_K, 0x75e6c81a5c9bf839},
      {TensorType::kQ3_K, 0x799315642cc97ffb},   {TensorType::kQ4_K, 0x75b9e852e294f0c2},
      {TensorType::kQ5_K, 0xd863e1c51fcfe8f8},   {TensorType::kQ6_K, 0xaf4455256023e9d1},
      {TensorType::kIQ4_XS, 0x12eb88f68f24a714},
  };
  for (const KernelTable* table : tables_) {
    std::vector<BlockQ8K> q8_k(kLength / 256);
    std::vector<BlockQ8_0> q8_0(kLength / 32);
    ASSERT_TRUE(table->quantize_q8_k(x_.data(), kLength, q8_k.data()));
    ASSERT_TRUE(table->quantize_q8_0(x_.data(), kLength, q8_0.data()));
    for (const auto& [type, hash_known] : known) {
      const WeightType& weights = weight_type(type);
      const auto bytes = read_block_file<std::byte>(std::string(weights.name) + ".bin");
      const void* row = x_.data();
      if (weights.block_length == 256) row = q8_k.data();
      if (weights.block_length == 32) row = q8_0.data();
      float y[kRows];
      table->matmul(type)(bytes.data(), bytes.size() / kRows, kRows, kLength,
                          static_cast<const std::byte*>(row), 0, 1, y, kRows);
      Hash hash;
      for (const float value : y) hash.add(value);
      EXPECT_EQ(hash.value(), hash_known) << table->name << " " << weights.name;
    }
  }
}

// d, sums and q of x's four Q8_K blocks; d, sum and q of its 32 Q8_0 blocks.
TEST_F(KnownAnswers, QuantizedRows) {
  for (const KernelTable* table : tables_) {
    SCOPED_TRACE(table->name);
    std::vector<BlockQ8K> q8_k(kLength / 256);
    std::vector<BlockQ8_0> q8_0(kLength / 32);
    ASSERT_TRUE(table->quantize_q8_k(x_.data(), kLength, q8_k.data()));
    ASSERT_TRUE(table->quantize_q8_0(x_.data(), kLength, q8_0.data()));
    Hash hash_k;
    for (const BlockQ8K& block : q8_k) {
      hash_k.add(block.d);
      for (const int16_t sum : block.sums) hash_k.add(sum);
      for (const int8_t q : block.q) hash_k.add(q);
    }
    EXPECT_EQ(hash_k.value(), 0x7c1196c4dcf1a1f3u);
    Hash hash_0;
    for (const BlockQ8_0& block : q8_0) {
      hash_0.add(block.d);
      hash_0.add(block.sum);
      for (const int8_t q : block.q) hash_0.add(q);
    }
    EXPECT_EQ(hash_0.value(), 0xb7606395d68a8472u);
  }
}

// With a = x[0..499] and b the same backwards: the dot product, RMSNorm(a, b), L2 norm of a,
// softmax of a, silu(a) * b, a * sigmoid(b).
TEST_F(KnownAnswers, RowsOfFloats) {
  constexpr size_t kN = 500;
  const std::vector<float> a(x_.begin(), x_.begin() + kN);
  const std::vector<float> b(a.rbegin(), a.rend());
  for (const KernelTable* table : tables_) {
    SCOPED_TRACE(table->name);
    Hash hash;
    std::vector<float> y(kN);
    const auto add_row = [&] {
      for (const float value : y) hash.add(value);
    };
    hash.add(table->dot(a.data(), b.data(), kN));
    table->rms_norm(a.data(), b.data(), kN, 1e-6f, y.data());
    add_row();
    table->l2_norm(a.data(), kN, 1e-6f, y.data());
    add_row();
    table->softmax(a.data(), kN, y.data());
    add_row();
    table->silu_mul(a.data(), b.data(), kN, y.data());
    add_row();
    table->sigmoid_mul(a.data(), b.data(), kN, y.data());
    add_row();
    EXPECT_EQ(hash.value(), 0x82acf0d90438f339u);
  }
}

// Heads of 32 values out of x. Attention: q = x[0..31], keys x[32 (t + 1) ...], values x[32 (t + 2)
// ...], t = 0 ... 9, in both KV types; scores, then l and u. Delta-net: state x[0..1023], q, k, v
// the heads at 64, 96, 128, decay 0.75, beta 0.5, c 0.25; o, then the state.
TEST_F(KnownAnswers, AttentionAndDeltaNet) {
  constexpr size_t kDim = 32;
  constexpr size_t kPositions = 10;
  std::vector<uint16_t> halves(kLength);
  for (size_t i = 0; i < kLength; ++i) halves[i] = f16_from_f32(x_[i]);
  for (const KernelTable* table : tables_) {
    SCOPED_TRACE(table->name);
    Hash hash;
    for (const KvType type : {KvType::kF16, KvType::kF32}) {
      const size_t stride = kDim * (type == KvType::kF16 ? 2 : 4);
      const auto* rows = type == KvType::kF16 ? reinterpret_cast<const std::byte*>(halves.data())
                                              : reinterpret_cast<const std::byte*>(x_.data());
      float scores[kPositions];
      table->attention_scores(x_.data(), rows + stride, stride, type, kDim, kPositions, 0.125f,
                              scores);
      for (const float value : scores) hash.add(value);
      float max = scores[0];
      for (const float value : scores) max = std::max(max, value);
      float u[kDim];
      hash.add(table->attention_values(scores, max, rows + 2 * stride, stride, type, kDim,
                                       kPositions, u));
      for (const float value : u) hash.add(value);
    }
    EXPECT_EQ(hash.value(), 0xf4d3a25f76c2e737u);

    Hash delta_hash;
    std::vector<float> state = x_;
    float o[kDim];
    table->delta_step(state.data(), &x_[64], &x_[96], &x_[128], 0.75f, 0.5f, 0.25f, kDim, kDim, o);
    for (const float value : o) delta_hash.add(value);
    for (const float value : state) delta_hash.add(value);
    EXPECT_EQ(delta_hash.value(), 0x4c2a4bd8482ba86du);
  }
}

}  // namespace
}  // namespace kvasir::kernels
