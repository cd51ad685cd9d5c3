#include "text/utf8.h"

#include <gtest/gtest.h>

#include <vector>

#include "text/byte_alphabet.h"

namespace kvasir::text {
namespace {

using Kind = Utf8Prefix::Kind;

// Encodes and reads back every Unicode scalar value; each proper beginning is incomplete, and the
// same followed by something else is invalid as far as it went.
TEST(Utf8, ReadsEveryCharacterAndItsBeginnings) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Prefix whole = read_utf8(text);
    ASSERT_TRUE(whole.kind == Kind::kCharacter && whole.code == code && whole.bytes == text.size())
        << uint32_t{code};
    for (size_t n = 1; n < text.size(); ++n) {
      const Utf8Prefix part = read_utf8(std::string_view(text).substr(0, n));
      ASSERT_TRUE(part.kind == Kind::kIncomplete && part.bytes == n) << uint32_t{code};
      const Utf8Prefix broken = read_utf8(text.substr(0, n) + "A");
      ASSERT_TRUE(broken.kind == Kind::kInvalid && broken.bytes == n) << uint32_t{code};
    }
  }
}

// Counts the valid sequences of two and three bytes: as many as there are characters of that
// length.
TEST(Utf8, AcceptsNothingElse) {
  size_t characters[4] = {};
  for (unsigned first = 0; first < 0x100; ++first) {
    for (unsigned second = 0; second < 0x100; ++second) {
      for (unsigned third = 0x7E; third < 0xC2; ++third) {
        const char bytes[] = {static_cast<char>(first), static_cast<char>(second),
                              static_cast<char>(third)};
        const Utf8Prefix prefix = read_utf8({bytes, 3});
        if (prefix.kind == Kind::kCharacter && prefix.bytes == 3) ++characters[3];
        if (prefix.kind == Kind::kCharacter && prefix.bytes == 2 && third == 0x7E) ++characters[2];
      }
    }
  }
  EXPECT_EQ(characters[2], 0x800u - 0x80);
  EXPECT_EQ(characters[3], 0x10000u - 0x800 - 0x800);  // without the surrogates
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndTooLargeValuesAtTheFirstByteThatShowsIt) {
  struct Case {
    std::string bytes;
    size_t invalid;
  };
  for (const auto& [bytes, invalid] : std::vector<Case>{{"\xC0\x80", 1},
                                                        {"\xC1\xBF", 1},
                                                        {"\xE0\x80\x80", 1},
                                                        {"\xED\xA0\x80", 1},
                                                        {"\xF0\x8F\xBF\xBF", 1},
                                                        {"\xF4\x90\x80\x80", 1},
                                                        {"\xF5\x80\x80\x80", 1},
                                                        {"\xFF", 1},
                                                        {"\x80", 1},
                                                        {"\xF0\x9F\x41", 2},
                                                        {"\xF0\x9F\x98\xF0", 3}}) {
    const Utf8Prefix prefix = read_utf8(bytes);
    EXPECT_EQ(prefix.kind, Kind::kInvalid);
    EXPECT_EQ(prefix.bytes, invalid);
    EXPECT_FALSE(is_valid_utf8(bytes));
  }
}

TEST(Utf8, ReplacesEachOffendingByte) {
  EXPECT_EQ(replace_invalid_bytes("a\xF0\x9F\x41"), "a\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid_bytes("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_bytes("é\xE2\x82"), "é\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_bytes("日本"), "日本");
}

TEST(ByteAlphabet, IsABijection) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(byte_of_character(character_of_byte(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(byte_of_character(' '), -1);
  EXPECT_EQ(byte_of_character(0xAD), -1);
  EXPECT_EQ(byte_of_character(kByteAlphabetEnd), -1);
  EXPECT_EQ(byte_of_character(0x10FFFF), -1);
}

}  // namespace
}  // namespace kvasir::text
