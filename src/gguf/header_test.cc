#include "gguf/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "gguf/header_promises.h"
#include "gguf/test_file.h"

namespace kvasir::gguf {
namespace {

constexpr uint32_t kF32 = static_cast<uint32_t>(TensorType::kF32);
constexpr uint32_t kQ4_K = static_cast<uint32_t>(TensorType::kQ4_K);

Header parse(const TestFile& file) {
  auto header = parse_header(file.bytes());
  if (!header) {
    ADD_FAILURE() << header.error().message;
    return {};
  }
  check_header_promises(*header, file.bytes());
  return std::move(*header);
}

TEST(Header, TensorsAreFoundAtTheirPlaceInTheFile) {
  TestFile file = TestFile::with(2, 1)
                      .key_u32("general.alignment", 64)
                      .tensor("a", {256, 2, 3}, kQ4_K, 0)
                      .tensor("b", {3}, kF32, 896)
                      .data(896 + 12, 64);
  Header header = parse(file);
  EXPECT_EQ(header.version, 3u);
  EXPECT_EQ(header.alignment, 64u);
  ASSERT_EQ(header.tensors.size(), 2u);
  const TensorInfo& a = header.tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, TensorType::kQ4_K);
  EXPECT_EQ(a.n_dims, 3u);
  EXPECT_THAT(a.dims, testing::ElementsAre(256, 2, 3, 1));
  EXPECT_EQ(a.bytes, 6u * 144);
  EXPECT_EQ(a.offset, header.data_offset);
  EXPECT_EQ(header.tensors[1].offset, header.data_offset + 896);
  EXPECT_EQ(header.tensors[1].offset + header.tensors[1].bytes, file.size());
  EXPECT_EQ(header.unused_bytes, 0u);
}

TEST(Header, Version2IsTheSameLayout) {
  TestFile file = TestFile::with(1, 1, 2).key_u32("a", 7).tensor("t", {4}, kF32, 0).data(16);
  Header header = parse(file);
  EXPECT_EQ(header.version, 2u);
  EXPECT_EQ(header.metadata.get_uint("a").value(), 7u);
  EXPECT_EQ(header.tensors.size(), 1u);
}

TEST(Header, NoTensorsAndNoKeysIsAFile) {
  Header header = parse(TestFile::with(0, 0));
  EXPECT_EQ(header.data_offset, 24u);
  EXPECT_EQ(parse(TestFile::with(0, 0).data(0)).data_offset, 32u);
}

TEST(Header, AlignmentsFrom8To65536AreGood) {
  for (uint32_t alignment = 8; alignment <= 65'536; alignment *= 2) {
    Header header = parse(TestFile::with(1, 1)
                              .key_u32("general.alignment", alignment)
                              .tensor("t", {4}, kF32, 0)
                              .data(16, alignment));
    EXPECT_EQ(header.alignment, alignment);
    EXPECT_EQ(header.data_offset % alignment, 0u);
  }
}

TEST(Header, UnknownKeysAreSkippedByTheirLength) {
  TestFile file = TestFile::with(0, 5)
                      .key("vendor.a", ValueType::kF64)
                      .u64(0x7ff8'0000'0000'0001)
                      .key_array("vendor.b", ValueType::kI16, 3)
                      .zeros(6)
                      .key_string("vendor.c", std::string("\xff\x00", 2))
                      .key_array("vendor.d", ValueType::kString, 2)
                      .string("\x80")
                      .string("")
                      .key_u32("known", 5);
  EXPECT_EQ(parse(file).metadata.get_uint("known").value(), 5u);
}

TEST(Header, NamesMayBeAsLongAsTheLimits) {
  std::string key(kKeyBytesMax, 'k');
  std::string name(kTensorNameBytesMax, 'n');
  TestFile file = TestFile::with(1, 1).key_u32(key, 1).tensor(name, {4}, kF32, 0).data(16);
  Header header = parse(file);
  EXPECT_TRUE(header.metadata.contains(key));
  EXPECT_EQ(header.tensors[0].name, name);
}

TEST(Header, TensorsMayLieInAnyOrder) {
  TestFile file =
      TestFile::with(2, 0).tensor("a", {8}, kF32, 32).tensor("b", {8}, kF32, 0).data(64);
  Header header = parse(file);
  EXPECT_EQ(header.tensors[0].offset, header.data_offset + 32);
  EXPECT_EQ(header.tensors[1].offset, header.data_offset);
}

TEST(Header, GapsAndTrailingBytesAreCounted) {
  TestFile file =
      TestFile::with(2, 0).tensor("a", {1}, kF32, 32).tensor("b", {1}, kF32, 128).data(200);
  // 0..32 before a; 64..128 between the padded a and b; 160..200 behind the padded b.
  EXPECT_EQ(parse(file).unused_bytes, 32u + 64 + 40);
}

// An attacker may choose 65,536 names; neither reading nor looking for duplicates may be quadratic.
TEST(Header, AsManyKeysAndTensorsAsAllowedAreReadQuickly) {
  TestFile file = TestFile::with(kTensorsMax, kKeysMax);
  for (uint64_t i = 0; i < kKeysMax; ++i) file.key_u32(fmt::format("key.{}", i), 1);
  for (uint64_t i = 0; i < kTensorsMax; ++i)
    file.tensor(fmt::format("tensor.{}", i), {1}, kF32, i * 32);
  file.data(kTensorsMax * 32);
  auto start = std::chrono::steady_clock::now();
  auto header = parse_header(file.bytes());
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_EQ(header->tensors.size(), kTensorsMax);
  EXPECT_LT(seconds, 5);
}

// Whatever key a reader relies on: if it is not there, that is an error and nothing worse.
TEST(Header, EachKeyAndTensorMayBeAbsent) {
  for (int removed = 0; removed < 4; ++removed) {
    auto count = [&](int at) { return removed == at ? 0u : 1u; };
    TestFile file = TestFile::with(1 + count(3), 1 + count(0) + count(1) + count(2));
    file.key_u32("always", 1);
    if (removed != 0) file.key_string("general.architecture", "x");
    if (removed != 1) file.key_u32("x.block_count", 2);
    if (removed != 2) file.key_array("tokenizer.ggml.tokens", ValueType::kString, 1).string("a");
    file.tensor("first", {8}, kF32, 0);
    if (removed != 3) file.tensor("second", {8}, kF32, 32);
    Header header = parse(file.data(64));
    const Metadata& metadata = header.metadata;
    EXPECT_EQ(metadata.get_string("general.architecture").has_value(), removed != 0);
    EXPECT_EQ(metadata.get_uint("x.block_count").has_value(), removed != 1);
    EXPECT_EQ(metadata.get_strings("tokenizer.ggml.tokens").has_value(), removed != 2);
    EXPECT_EQ(header.tensors.size(), removed == 3 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace kvasir::gguf
