// The scanner against the JSON reader: they accept the same texts.
#include "api/json_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "api/json_reader.h"

namespace kvasir::api {
namespace {

using Step = JsonScanner::Step;

Step scan(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = scanner.feed(text[i]);
    if (step == Step::kMore) continue;
    // Behind the end nothing is read: as if it were not there.
    return step == Step::kDone && i + 1 < text.size() ? Step::kInvalid : step;
  }
  return Step::kMore;
}

TEST(JsonScanner, SeesTheEndAndTheFirstFault) {
  EXPECT_EQ(scan(R"({"a":[1,-0.5e+7,true,false,null,"x\u00e4\n"],"b":{}})"), Step::kDone);
  EXPECT_EQ(scan(R"(  {"a":)"), Step::kMore);
  for (const std::string_view text :
       {"1",          "\"x\"",   "[1,]",      "[,]",           "{,}",      "{\"a\"}", "{\"a\":}",
        "{\"a\":1,}", "[01]",    "[1.]",      "[1.e1]",        "[-]",      "[1e]",    "[1e+]",
        "[tru]",      "[truee]", "[\"\\x\"]", "[\"\\u12g4\"]", "[\"\n\"]", "[1}",     "{\"a\":1]",
        "[1 2]",      "{1:2}",   "[.5]",      "[+1]"})
    EXPECT_EQ(scan(text), Step::kInvalid) << text;
}

TEST(JsonScanner, AgreesWithTheReaderOnRandomTexts) {
  static constexpr std::string_view kPieces[] = {
      "{",   "}",   "[", "]", ",", ":", "\"a\"", "\"\\n\"", "\"\\u0041\"", "1", "-2",
      "0.5", "1e3", "0", "-", ".", "e", "true",  "null",    "fals",        " ", "\n"};
  std::mt19937_64 random(4);
  size_t accepted = 0;
  for (int round = 0; round < 300'000; ++round) {
    std::string text(1, "{["[random() % 2]);
    for (size_t n = 1 + random() % 8; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    // The reader takes white space behind the end, the scanner has stopped there.
    while (text.back() == ' ' || text.back() == '\n') text.pop_back();
    const auto value = parse_json(text);
    // What a value means is the reader's business: names given twice, numbers too large.
    if (!value && (value.error().message.find("twice") != std::string::npos ||
                   value.error().message.find("overflow") != std::string::npos))
      continue;
    EXPECT_EQ(scan(text) == Step::kDone, value.has_value()) << text;
    accepted += value.has_value() ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000U);
}

}  // namespace
}  // namespace kvasir::api
