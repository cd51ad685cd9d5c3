#include "gguf/types.h"

#include <gtest/gtest.h>

#include <set>

namespace kvasir::gguf {
namespace {

TEST(Types, AreFoundByIdAndByNameInAnyCase) {
  for (const TypeInfo& info : all_types()) {
    EXPECT_EQ(find_type(static_cast<uint32_t>(info.type)), &info);
    EXPECT_EQ(find_type(info.name), &info);
    EXPECT_EQ(&type_info(info.type), &info);
  }
  ASSERT_NE(find_type("q4_k"), nullptr);
  EXPECT_EQ(find_type("q4_k")->type, TensorType::kQ4_K);
  EXPECT_EQ(find_type("mxFP4")->type, TensorType::kMXFP4);
}

TEST(Types, HaveNoNameTwice) {
  std::set<std::string_view> names;
  for (const TypeInfo& info : all_types()) EXPECT_TRUE(names.insert(info.name).second) << info.name;
}

TEST(Types, RemovedAndPrivateIdsAreUnknown) {
  for (uint32_t id :
       {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 42u, 63u, 64u, 99u, 202u, 1u << 31, ~0u})
    EXPECT_EQ(find_type(id), nullptr) << id;
  for (std::string_view name : {"", "Q4", "Q4_K_M", "Q4_K "}) EXPECT_EQ(find_type(name), nullptr);
}

// Bits per weight from the published table: bytes * 8 / values.
TEST(Types, BlockSizesGiveThePublishedBitsPerWeight) {
  auto bits = [](std::string_view name) {
    const TypeInfo* info = find_type(name);
    return info->block_bytes * 8.0 / info->block_length;
  };
  EXPECT_EQ(bits("F32"), 32);
  EXPECT_EQ(bits("BF16"), 16);
  EXPECT_EQ(bits("Q4_0"), 4.5);
  EXPECT_EQ(bits("Q5_1"), 6);
  EXPECT_EQ(bits("Q8_0"), 8.5);
  EXPECT_EQ(bits("Q2_K"), 2.625);
  EXPECT_EQ(bits("Q3_K"), 3.4375);
  EXPECT_EQ(bits("Q4_K"), 4.5);
  EXPECT_EQ(bits("Q5_K"), 5.5);
  EXPECT_EQ(bits("Q6_K"), 6.5625);
  EXPECT_EQ(bits("IQ4_XS"), 4.25);
  EXPECT_EQ(bits("MXFP4"), 4.25);
  EXPECT_EQ(bits("NVFP4"), 4.5);
}

TEST(Types, RowBytesCountsWholeBlocks) {
  EXPECT_EQ(row_bytes(TensorType::kF32, 7), 28u);
  EXPECT_EQ(row_bytes(TensorType::kQ4_K, 2048), 1152u);
  EXPECT_EQ(row_bytes(TensorType::kQ6_K, 512), 420u);
}

}  // namespace
}  // namespace kvasir::gguf
