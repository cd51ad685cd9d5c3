#include "kernels/activation.h"

#include <gtest/gtest.h>

#include "kernels/test_blocks.h"

namespace kvasir::kernels {
namespace {

// The partner format follows from the block length alone.
TEST(ActivationFormat, FollowsFromTheBlockLengthOfTheWeights) {
  for (const WeightType& type : kWeightTypes) {
    SCOPED_TRACE(type.name);
    EXPECT_TRUE(is_supported(type.type));
    EXPECT_EQ(activation_block_length(activation_format(type.type)), type.block_length);
    EXPECT_EQ(gguf::type_info(type.type).block_bytes, type.block_bytes);
  }
}

TEST(ActivationFormat, MeasuresRowsInMemory) {
  EXPECT_EQ(activation_row_bytes(ActivationFormat::kF32, 100), 400u);
  EXPECT_EQ(activation_row_bytes(ActivationFormat::kQ8_0, 96), 3 * 40u);
  EXPECT_EQ(activation_row_bytes(ActivationFormat::kQ8_K, 3072), 12 * 292u);
}

TEST(IsSupported, IsTrueForExactlySixteenTypes) {
  size_t n = 0;
  for (const gguf::TypeInfo& info : gguf::all_types()) {
    const bool supported = is_supported(info.type);
    n += supported ? 1 : 0;
    EXPECT_EQ(scalar().matmul(info.type) != nullptr, supported) << info.name;
  }
  EXPECT_EQ(n, std::size(kWeightTypes));
  EXPECT_EQ(n, 16u);
}

}  // namespace
}  // namespace kvasir::kernels
