#include "gguf/text_check.h"

#include <gtest/gtest.h>

namespace kvasir::gguf {
namespace {

std::string encode(uint32_t code) {
  auto byte = [](uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000)
    return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

TEST(TextCheck, AcceptsEveryCodePointButNulAndSurrogates) {
  for (uint32_t code = 0; code < 0x11'0000; ++code) {
    bool good = code != 0 && (code < 0xd800 || code > 0xdfff);
    ASSERT_EQ(is_text(encode(code)), good) << code;
  }
  EXPECT_FALSE(is_text(encode(0x11'0000)));
}

// Of all strings of two bytes exactly the two ASCII ones and the well-formed pairs are text.
TEST(TextCheck, AcceptsNoOtherStringOfTwoBytes) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      bool ascii = first >= 1 && first < 0x80 && second >= 1 && second < 0x80;
      bool pair = first >= 0xc2 && first < 0xe0 && second >= 0x80 && second < 0xc0;
      std::string text = {static_cast<char>(first), static_cast<char>(second)};
      ASSERT_EQ(is_text(text), ascii || pair) << first << " " << second;
    }
  }
}

TEST(TextCheck, RefusesOverlongForms) {
  EXPECT_FALSE(is_text("\xe0\x9f\xbf"));
  EXPECT_FALSE(is_text("\xf0\x8f\xbf\xbf"));
  EXPECT_FALSE(is_text("\xf8\x88\x80\x80\x80"));
}

TEST(TextCheck, RefusesTextCutInsideACharacter) {
  std::string text = "a\xf0\x9f\x8c\xb3";
  EXPECT_TRUE(is_text(text));
  for (size_t size = 2; size < text.size(); ++size) EXPECT_FALSE(is_text(text.substr(0, size)));
}

TEST(TextCheck, PrintableEscapesAndShortens) {
  EXPECT_EQ(printable("blk.0.weight"), "blk.0.weight");
  EXPECT_EQ(printable("\x1b[1m\xc3\xa9"), "\\x1b[1m\\xc3\\xa9");
  EXPECT_EQ(printable(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(printable(std::string(81, 'a')), std::string(80, 'a').append("..."));
}

}  // namespace
}  // namespace kvasir::gguf
