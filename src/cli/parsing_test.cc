#include "cli/parsing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvasir::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseWhole, TakesDigitsWithinTheRangeOnly) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(*parse_whole("0", 0, 9), 0U);
  EXPECT_EQ(*parse_whole("9", 0, 9), 9U);
  EXPECT_EQ(*parse_whole("007", 0, 9), 7U);
  EXPECT_EQ(*parse_whole("18446744073709551615", 0, kMax), kMax);
  for (const char* bad : {"", "10", "-1", "-0", "+1", " 1", "1 ", "1.0", "1e1", "0x1", "a",
                          "18446744073709551616", "nan"}) {
    auto result = parse_whole(bad, 0, 9);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr("from 0 to 9"));
  }
  EXPECT_FALSE(parse_whole("0", 1, 9));
}

TEST(ParseList, TakesNumbersBetweenCommas) {
  EXPECT_THAT(*parse_list("7", 1, 9, 3), ElementsAre(7U));
  EXPECT_THAT(*parse_list("1,4,4", 1, 9, 3), ElementsAre(1U, 4U, 4U));
  EXPECT_THAT(*parse_list("none", 1, 9, 3), IsEmpty());
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "1, 2", "10", "0", "1;2", "1,none"}) {
    auto result = parse_list(bad, 1, 9, 3);
    ASSERT_FALSE(result) << bad;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
  }
  EXPECT_THAT(parse_list("1,2,3,4", 1, 9, 3).error().message, HasSubstr("more than 3"));
}

TEST(ParseReal, TakesFiniteNumbersWithinTheRangeOnly) {
  EXPECT_EQ(*parse_real("0.5", 0, 1), 0.5F);
  EXPECT_EQ(*parse_real("1e-3", 0, 1), 1e-3F);
  EXPECT_EQ(*parse_real("-2", -5, 5), -2.0F);
  EXPECT_EQ(*parse_real("1", 0, 1), 1.0F);
  for (const char* bad : {"", "nan", "-nan", "inf", "-inf", "infinity", "1e308", "1e999", "1.0001",
                          "-0.1", "1,0", "0.5x", " 0.5"})
    EXPECT_FALSE(parse_real(bad, 0, 1)) << bad;
}

TEST(ParseLogitBias, TakesAnIdAndABias) {
  EXPECT_EQ(*parse_logit_bias("42:-5.5"), std::pair(42, -5.5F));
  for (const char* bad :
       {"", "42", ":1", "42:", "-1:1", "42:nan", "42:2000", "2147483648:1", "1:2:3"})
    EXPECT_FALSE(parse_logit_bias(bad)) << bad;
}

TEST(ParseBytes, TakesUnitsOf1024) {
  EXPECT_EQ(parse_bytes("4G").value(), uint64_t{4} << 30);
  EXPECT_EQ(parse_bytes("512m").value(), uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("1K").value(), 1024U);
  EXPECT_EQ(parse_bytes("2T").value(), uint64_t{2} << 40);
  EXPECT_EQ(parse_bytes("4097").value(), 4097U);
  EXPECT_EQ(parse_bytes("16777215T").value(), uint64_t{16777215} << 40);
  for (const char* text : {"", "0", "0G", "G", "4GB", "-4G", "4.5G", " 4G", "16777216T", "4 G"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(ParseSeed, TakesANumberOrDrawsOne) {
  EXPECT_EQ(*parse_seed("18446744073709551615"), 18446744073709551615U);
  EXPECT_NE(*parse_seed("random"), *parse_seed("random"));
  EXPECT_FALSE(parse_seed("-1"));
  EXPECT_THAT(parse_seed("x").error().message, HasSubstr("'random'"));
}

TEST(ParseIds, ReadsPlainListsAndJson) {
  EXPECT_THAT(*parse_ids("1,2,3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*parse_ids(" 1, 2,\n3 \n"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*parse_ids("[1, 2, 3]\n"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*parse_ids("2147483647"), ElementsAre(2147483647));
  EXPECT_THAT(*parse_ids(""), IsEmpty());
  EXPECT_THAT(*parse_ids("[]"), IsEmpty());
  EXPECT_THAT(*parse_ids("[ ]"), IsEmpty());
}

TEST(ParseIds, NamesTheFirstWordThatIsNoId) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& bad :
       {Case{"1,2,x", "number 3: 'x'"}, Case{"-1", "number 1: '-1'"},
        Case{"1,2147483648", "'2147483648'"}, Case{"[1,2", "'[1'"}, Case{"1;2", "'1;2'"},
        Case{"1,,2", "number 2: ''"}, Case{"1, ,2", "number 2: ''"}, Case{",1", "number 1: ''"},
        Case{"[1,]", "number 2: ''"}, Case{"\x1b[2J", "\\x1b"}}) {
    auto result = parse_ids(bad.text);
    ASSERT_FALSE(result) << bad.text;
    EXPECT_THAT(result.error().message, HasSubstr(bad.says));
  }
}

TEST(ExpandEscapes, TurnsThreeEscapesIntoCharacters) {
  EXPECT_EQ(expand_escapes(R"(a\nb\tc\\n)"), "a\nb\tc\\n");
  EXPECT_EQ(expand_escapes(R"(\x \)"), R"(\x \)");
  EXPECT_EQ(expand_escapes(""), "");
}

// Text of a file or an answer must not move the cursor or retitle the window.
TEST(Quoted, ShowsAnyBytesHarmlessly) {
  EXPECT_EQ(quoted("caf\u00e9 \"x\" \\"), "\"caf\u00e9 \\\"x\\\" \\\\\"");
  EXPECT_EQ(quoted("a\nb\x1b[2J"), "\"a\\nb\\x1b[2J\"");
  EXPECT_EQ(quoted("\xc3"), "\"\\xc3\"");
  EXPECT_EQ(quoted("\xc2\x9b"), "\"\\xc2\\x9b\"");
  EXPECT_EQ(quoted({"\0", 1}), "\"\\x00\"");
  EXPECT_EQ(on_one_line("gr\xc3\xbc\xc3\x9f \"\\a\""), "gr\xc3\xbc\xc3\x9f \"\\a\"");
  EXPECT_EQ(on_one_line("a\nb\r\x1b\x7f\xc2\x9b\xff"), "a\\nb\\x0d\\x1b\\x7f\\xc2\\x9b\\xff");
}

TEST(BytesText, ChoosesTheUnit) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(18607968), "17.7 MiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(Counted, KnowsTheSingular) {
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(2, "window"), "2 windows");
}

}  // namespace
}  // namespace kvasir::cli
