#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace kvasir {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(Bytes, NumbersAreLittleEndianAtAnyAddress) {
  std::array<unsigned char, 12> memory = {0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
  EXPECT_EQ(load_le<uint16_t>(memory.data() + 1), 0x0201);
  EXPECT_EQ(load_le<uint32_t>(memory.data() + 1), 0x04030201u);
  EXPECT_EQ(load_le<uint64_t>(memory.data() + 1), 0x0807060504030201u);
  store_le(memory.data() + 3, uint32_t{0xa0b0c0d0});
  EXPECT_EQ(memory[2], 0x02);
  EXPECT_EQ(memory[3], 0xd0);
  EXPECT_EQ(memory[6], 0xa0);
  EXPECT_EQ(memory[7], 0x07);
}

TEST(Bytes, FloatsKeepTheirBits) {
  std::array<std::byte, 5> memory;
  store_le(memory.data() + 1, -0.0f);
  EXPECT_EQ(load_le<uint32_t>(memory.data() + 1), 0x80000000u);
  EXPECT_EQ(load_le<float>(memory.data() + 1), 0.0f);
}

TEST(Bytes, TextAndBytesAreTheSameMemory) {
  std::string text = "a\xff";
  ByteSpan bytes = bytes_of(text);
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_EQ(bytes[1], std::byte{0xff});
  EXPECT_EQ(text_of(bytes).data(), text.data());
  EXPECT_EQ(text_of(bytes), text);
}

TEST(Bytes, CheckedMultiplyKnowsWhereItWraps) {
  constexpr uint64_t kRoot = uint64_t{1} << 32;
  EXPECT_EQ(checked_mul(kRoot - 1, kRoot + 1), kMax);
  EXPECT_EQ(checked_mul(kRoot, kRoot), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(kMax, 2), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
}

TEST(Bytes, CheckedAddKnowsWhereItWraps) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(kMax, kMax), std::nullopt);
}

TEST(Bytes, CheckedRoundUpKnowsWhereItWraps) {
  EXPECT_EQ(checked_round_up(0, 32), 0u);
  EXPECT_EQ(checked_round_up(1, 32), 32u);
  EXPECT_EQ(checked_round_up(32, 32), 32u);
  EXPECT_EQ(checked_round_up(33, 1), 33u);
  EXPECT_EQ(checked_round_up(kMax - 31, 32), kMax - 31);
  EXPECT_EQ(checked_round_up(kMax - 30, 32), std::nullopt);
  EXPECT_EQ(checked_round_up(kMax, 32), std::nullopt);
}

}  // namespace
}  // namespace kvasir
