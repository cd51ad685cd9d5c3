// One small good file, damaged in every way of a kind: cut at every byte, every bit flipped, every
// word set to an extreme. What is still accepted must keep all promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/allocation_watch.h"
#include "gguf/header_promises.h"
#include "gguf/test_file.h"

namespace kvasir::gguf {
namespace {

constexpr size_t kAllocationMax = 64 << 10;
constexpr uint32_t kF32 = static_cast<uint32_t>(TensorType::kF32);
constexpr uint32_t kQ8_0 = static_cast<uint32_t>(TensorType::kQ8_0);

// Keys of every kind, two tensors, data to the last byte.
TestFile small_file() {
  return TestFile::with(2, 7)
      .key_string("general.architecture", "qwen35moe")
      .key_u32("general.alignment", 64)
      .key("x.flag", ValueType::kBool)
      .u8(1)
      .key("x.eps", ValueType::kF32)
      .f32(1e-6f)
      .key("x.big", ValueType::kI64)
      .u64(uint64_t{1} << 63)
      .key_array("x.heads", ValueType::kU16, 3)
      .zeros(6)
      .key_array("x.tokens", ValueType::kString, 3)
      .string("a")
      .string("")
      .string("\xff\xfe")
      .tensor("blk.0.norm.weight", {7}, kF32, 0)
      .tensor("blk.0.ffn.weight", {32, 2}, kQ8_0, 64)
      .data(64 + 68, 64);
}

TEST(MutatedFiles, TheSmallFileItselfIsFine) {
  TestFile file = small_file();
  auto header = parse_header(file.bytes());
  ASSERT_TRUE(header.has_value()) << header.error().message;
  check_header_promises(*header, file.bytes());
}

TEST(MutatedFiles, G2_TruncationAtEveryByteIsRefused) {
  TestFile file = small_file();
  for (size_t size = 0; size < file.size(); ++size) {
    GuardedCopy copy(ByteSpan(file.bytes()).first(size));
    for (ByteSpan bytes : {copy.before_guard_page(), copy.exact_heap_block()}) {
      auto header = parse_header(bytes);
      ASSERT_FALSE(header.has_value()) << "cut after " << size << " bytes";
      EXPECT_EQ(header.error().kind, ErrorKind::kCorrupt);
      EXPECT_THAT(header.error().message, testing::HasSubstr("at byte"));
    }
  }
}

// A flipped bit may leave a good file; then all promises must hold for it.
TEST(MutatedFiles, EveryFlippedBitIsRefusedOrHarmless) {
  TestFile file = small_file();
  size_t refused = 0;
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::vector<std::byte> flipped = file.bytes();
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    GuardedCopy guarded(flipped);
    largest_allocation = 0;
    auto header = parse_header(guarded.before_guard_page());
    ASSERT_LT(largest_allocation, kAllocationMax) << "bit " << bit;
    if (header)
      check_header_promises(*header, guarded.before_guard_page());
    else
      ++refused;
  }
  EXPECT_GT(refused, 0u);
}

// Each 32-bit word at each position set to the values that break size arithmetic.
TEST(MutatedFiles, EveryWordSetToAnExtremeIsRefusedOrHarmless) {
  TestFile file = small_file();
  for (uint32_t extreme : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffe0u, 0xffffffffu}) {
    for (size_t at = 0; at + 4 <= file.size(); ++at) {
      std::vector<std::byte> changed = file.bytes();
      store_le(changed.data() + at, extreme);
      GuardedCopy guarded(changed);
      auto header = parse_header(guarded.before_guard_page());
      if (header) check_header_promises(*header, guarded.before_guard_page());
    }
  }
}

}  // namespace
}  // namespace kvasir::gguf
