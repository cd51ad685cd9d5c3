// What JSON is read, and what is refused with a place.
#include "api/json_reader.h"

#include <gtest/gtest.h>

namespace kvasir::api {
namespace {

std::string reason(std::string_view json) {
  const auto value = parse_json(json);
  if (value) return "accepted";
  EXPECT_TRUE(value.error().code == Code::kInvalidJson ||
              value.error().code == Code::kRequestTooLarge);
  return value.error().message;
}

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(JsonReader, KeepsMembersInTheOrderSent) {
  const auto value = parse_json(R"({"z":1,"a":[true,null,-2,1.5,"x"],"m":{}})");
  ASSERT_TRUE(value);
  EXPECT_EQ(to_text(*value), R"({"z":1,"a":[true,null,-2,1.5,"x"],"m":{}})");
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const std::string_view json :
       {"",      " ",   "{",        "}",         "[1,]",    "{\"a\":1,}", "{'a':1}",
        "nul",   "NaN", "Infinity", "01",        "1.",      "\"\n\"",     "\"\\x\"",
        "{} {}", "{}x", "[1 2]",    "{\"a\" 1}", "// x\n1", "+1",         ".5"})
    EXPECT_NE(reason(json), "accepted") << json;
}

TEST(JsonReader, RefusesInvalidUtf8AndLoneSurrogates) {
  for (const std::string_view json :
       {"\"\xFF\"", "\"\xC3\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"",
        "\"\\uD800\"", "\"\\uDC00\"", "\"\\uD800x\"", "\"\\uD800\\u0041\"", "{\"\xFF\":1}"})
    EXPECT_NE(reason(json), "accepted") << json;
  EXPECT_EQ(reason("\"\\uD83D\\uDE00 \xF0\x9F\x98\x80 \\u0000\""), "accepted");
}

TEST(JsonReader, RefusesMembersNamedTwice) {
  EXPECT_NE(reason(R"({"a":1,"b":2,"a":3})").find("'a'"), std::string::npos);
  EXPECT_NE(reason(R"({"x":{"a":1,"\u0061":3}})").find("'a'"), std::string::npos);
  EXPECT_EQ(reason(R"({"a":{"a":{"a":1}},"b":{"a":1}})"), "accepted");
}

TEST(JsonReader, CountsDepthInsteadOfRecursing) {
  const auto nested = [](size_t depth) {
    return repeated("[", depth) + "1" + repeated("]", depth);
  };
  EXPECT_EQ(reason(nested(kJsonDepthMax)), "accepted");
  EXPECT_NE(reason(nested(kJsonDepthMax + 1)), "accepted");
  EXPECT_NE(reason(repeated("[", 1'000'000)), "accepted");
  EXPECT_NE(reason(repeated("{\"a\":", 1'000'000)), "accepted");
}

TEST(JsonReader, BoundsSizeAndNumberOfValues) {
  EXPECT_EQ(parse_json(std::string(kRequestBytesMax + 1, ' ')).error().code,
            Code::kRequestTooLarge);
  std::string many = "[0";
  for (size_t i = 0; i + 2 < kJsonValuesMax; ++i) many += ",0";
  EXPECT_EQ(reason(many + "]"), "accepted");  // the array itself is one
  EXPECT_NE(reason(many + ",0]"), "accepted");
}

TEST(JsonReader, TakesHugeNumbersAndKeysWithoutHarm) {
  const std::string digits = reason(std::string(1'000'000, '7'));
  EXPECT_NE(digits, "accepted");
  EXPECT_LT(digits.size(), 400U);
  EXPECT_EQ(digits.find("json.exception"), std::string::npos) << digits;
  EXPECT_EQ(reason("{\"" + std::string(1'000'000, 'k') + "\":1}"), "accepted");
  EXPECT_NE(reason("1e999"), "accepted");
}

TEST(JsonFields, SaysWhichNumberIsOutOfRange) {
  const auto json = parse_json(
      R"({"a":-1,"b":9007199254740993,"c":1e308,"d":"7","e":null,"f":3.0,"g":3.5,"h":true,
          "i":18446744073709551615})");
  Reading reading;
  const auto read = [&](std::string_view name) {
    reading.error.reset();
    Fields fields(*json, "", reading);
    return fields.integer(name, 0, 100);
  };
  for (const std::string_view name : {"a", "b", "c", "d", "g", "h", "i"}) {
    EXPECT_FALSE(read(name)) << name;
    ASSERT_TRUE(reading.error) << name;
    EXPECT_EQ(reading.error->param, name);
    EXPECT_EQ(reading.error->code, Code::kInvalidValue);
  }
  EXPECT_EQ(read("e"), std::nullopt);
  EXPECT_FALSE(reading.error);
  EXPECT_EQ(read("f"), 3);
  EXPECT_FALSE(reading.error);
}

TEST(JsonFields, RefusesUnknownFieldsOnlyInStrictMode) {
  const auto json = parse_json(R"({"known":1,"strange":2})");
  for (const auto unknown : {UnknownFields::kIgnored, UnknownFields::kRefused}) {
    Reading reading{unknown, std::nullopt};
    Fields fields(*json, "outer", reading);
    fields.integer("known", 0, 9);
    fields.done();
    ASSERT_EQ(reading.error.has_value(), unknown == UnknownFields::kRefused);
    if (reading.error) {
      EXPECT_EQ(reading.error->code, Code::kUnknownField);
      EXPECT_EQ(reading.error->param, "outer.strange");
    }
  }
}

}  // namespace
}  // namespace kvasir::api
