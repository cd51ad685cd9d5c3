// The automaton alone: what it accepts is JSON, and its end is always in reach.
#include "text/json_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace kvasir::text {
namespace {

using NodeId = JsonGrammar::NodeId;
using Grammar = std::shared_ptr<const JsonGrammar>;

template <typename Build>
Grammar built(Build build) {
  auto grammar = std::make_shared<JsonGrammar>();
  const NodeId root = build(*grammar);
  const auto done = grammar->finish(root);
  EXPECT_TRUE(done) << done.error().message;
  return grammar;
}

bool accepts(const Grammar& grammar, std::string_view text) {
  JsonMatcher matcher(grammar);
  return matcher.accept(text) && matcher.can_end();
}

TEST(JsonGrammar, TakesStringsAsJsonHasThem) {
  const Grammar grammar = built([](JsonGrammar& g) { return g.string(); });
  for (const std::string_view text :
       {"\"\"", "\"a\"", "\"\\n\\\"\\u00e4\\ud7ff\\uE000\"", "\"\xC3\xA4\xE2\x82\xAC\"",
        "\"\xF0\x9F\x98\x80\xED\x9F\xBF\"", "\" \x7F\""})
    EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const std::string_view text :
       {"", "\"", "a", "\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\\uDFFF\"", "\"\\u12\"",
        "\"\xC0\x80\"", "\"\xE0\x80\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xC3\"",
        "\"\x80\"", "\"a\" ", "\"\"\""})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(JsonGrammar, TakesNumbersThatADoubleHolds) {
  const Grammar number = built([](JsonGrammar& g) { return g.number(); });
  for (const std::string_view text :
       {"0", "-0", "1", "-12", "0.5", "1e9", "1.25E-07", "999999999999999", "0e0"})
    EXPECT_TRUE(accepts(number, text)) << text;
  for (const std::string_view text : {"", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1e100",
                                      "1000000000000000", "--1", "1.5.5", "0x1"})
    EXPECT_FALSE(accepts(number, text)) << text;
  const Grammar integer = built([](JsonGrammar& g) { return g.integer(); });
  EXPECT_TRUE(accepts(integer, "-42"));
  EXPECT_FALSE(accepts(integer, "4.0"));
  EXPECT_FALSE(accepts(integer, "4e1"));
}

TEST(JsonGrammar, KeepsMembersInOrderAndOptionalOnesOptional) {
  const Grammar grammar = built([](JsonGrammar& g) {
    return g.object(
        {{"a", g.integer(), false}, {"b\"", g.integer(), true}, {"c", g.integer(), false}});
  });
  for (const std::string_view text :
       {R"({"b\"":1})", R"({"a": 1, "b\"": 2, "c": 3})", R"({"b\"":1,"c":2})",
        "{\n  \"a\": 1,\n  \"b\\\"\": 2\n}", R"({ "b\"":1 })"})
    EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const std::string_view text :
       {"{}", R"({"a":1})", R"({"b\"":1,"a":2})", R"({"b\"":1,})", R"({"b\"":1,"b\"":1})",
        R"({"d":1,"b\"":1})", R"({"b\"":"x"})", R"({"b\"" :1})", R"({  "b\"":1})", R"({"b\"":1}x)"})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(JsonGrammar, CountsElements) {
  const auto array = [](uint32_t least, uint32_t most) {
    return built([&](JsonGrammar& g) { return g.array(g.integer(), least, most); });
  };
  const std::vector<std::string> texts = {"[]", "[1]", "[1, 2]", "[1,2,3]", "[1,2,3,4]"};
  for (uint32_t least = 0; least < 4; ++least) {
    for (const uint32_t most : {least, least + 1, JsonGrammar::kUnlimited}) {
      for (uint32_t n = 0; n < texts.size(); ++n)
        EXPECT_EQ(accepts(array(least, most), texts[n]), n >= least && n <= most)
            << least << " " << most << " " << n;
    }
  }
}

TEST(JsonGrammar, RefusesWhatCannotEnd) {
  JsonGrammar endless;
  const NodeId self = endless.placeholder();
  endless.define(self, endless.array(self, 1, 2));
  EXPECT_FALSE(endless.finish(self));

  JsonGrammar circle;
  const NodeId a = circle.placeholder();
  const NodeId b = circle.placeholder();
  circle.define(a, circle.choice({b, circle.string()}));
  circle.define(b, a);
  EXPECT_FALSE(circle.finish(a));

  JsonGrammar undefined;
  EXPECT_FALSE(undefined.finish(undefined.placeholder()));

  JsonGrammar long_text;
  EXPECT_FALSE(long_text.finish(
      long_text.array(long_text.array(long_text.string(), 1000, 1000), 1000, 1000)));

  JsonGrammar large;
  NodeId node = large.string();
  for (size_t i = 0; i < JsonGrammar::kNodesMax; ++i) node = large.choice({node});
  EXPECT_FALSE(large.finish(node));
}

TEST(JsonGrammar, BoundsNestingWithoutADeadEnd) {
  const Grammar grammar = built([](JsonGrammar& g) { return g.any_object(); });
  JsonMatcher matcher(grammar);
  size_t depth = 0;
  for (; depth < 200 && matcher.accept("{\"a\":"); ++depth) {
  }
  EXPECT_GT(depth, 50U);
  EXPECT_LT(depth, 64U);
  ASSERT_TRUE(matcher.accept(matcher.completion()));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_TRUE(matcher.must_end());
}

TEST(JsonGrammar, AcceptChangesNothingWhereItRefuses) {
  JsonMatcher matcher(built([](JsonGrammar& g) { return g.literal("abc"); }));
  EXPECT_FALSE(matcher.allowed(""));
  EXPECT_TRUE(matcher.allowed("ab"));
  EXPECT_FALSE(matcher.accept("abx"));
  EXPECT_FALSE(matcher.accept("abcd"));
  EXPECT_TRUE(matcher.accept("ab"));
  EXPECT_EQ(matcher.completion(), "c");
  EXPECT_EQ(matcher.next_bytes().count(), 1U);
  EXPECT_FALSE(matcher.can_end());
}

// Steps at random over what is allowed; from everywhere the end is near, and the text is JSON.
TEST(JsonGrammar, RandomWalksAreAlwaysNearTheEnd) {
  const Grammar grammar = built([](JsonGrammar& g) { return g.any_object(); });
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    JsonMatcher matcher(grammar);
    std::string text;
    const size_t steps = random() % 60;
    for (size_t i = 0; i < steps; ++i) {
      const auto next = matcher.next_bytes();
      if (next.none()) break;
      size_t nth = random() % next.count();
      size_t byte = 0;
      while (!next[byte] || nth-- > 0) ++byte;
      text += static_cast<char>(byte);
      ASSERT_TRUE(matcher.accept(text.substr(text.size() - 1)));
    }
    const std::string rest = matcher.completion();
    EXPECT_LT(rest.size(), 200U);
    if (!rest.empty()) {
      ASSERT_TRUE(matcher.accept(rest)) << text << rest;
    }
    EXPECT_TRUE(matcher.can_end()) << text << rest;
    EXPECT_TRUE(nlohmann::json::accept(text + rest)) << text << rest;
  }
}

}  // namespace
}  // namespace kvasir::text
