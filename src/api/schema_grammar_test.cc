// Schemas as grammars: what is accepted validates, by a second reading of the same schema.
#include "api/schema_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace kvasir::api {
namespace {

using nlohmann::json;
using text::JsonMatcher;

SharedGrammar compiled(std::string_view schema) {
  auto grammar = compile_schema(schema, "response_format");
  EXPECT_TRUE(grammar) << schema << "\n" << (grammar ? "" : grammar.error().message);
  return grammar ? *grammar : nullptr;
}

bool accepts(const SharedGrammar& grammar, std::string_view text) {
  JsonMatcher matcher(grammar);
  return matcher.accept(text) && matcher.can_end();
}

bool is_of_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return value.is_null();
}

// JSON Schema as its text says it, for the keywords of these tests.
bool validates(const json& value, const json& schema, const json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const auto name = schema["$ref"].get<std::string>();
    return validates(value, name == "#" ? root : root.at(json::json_pointer(name.substr(1))), root);
  }
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return false;
  if (schema.contains("const") && schema["const"] != value) return false;
  const auto matches = [&](const char* key) {
    return std::count_if(schema[key].begin(), schema[key].end(),
                         [&](const json& branch) { return validates(value, branch, root); });
  };
  if (schema.contains("anyOf") && matches("anyOf") == 0) return false;
  if (schema.contains("oneOf") && matches("oneOf") != 1) return false;
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    if (std::none_of(types.begin(), types.end(),
                     [&](const json& type) { return is_of_type(value, type); }))
      return false;
  }
  if (value.is_array()) {
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (value.size() > schema.value("maxItems", SIZE_MAX)) return false;
    for (const json& element : value)
      if (schema.contains("items") && !validates(element, schema["items"], root)) return false;
  }
  if (value.is_object()) {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>())) return false;
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, member] : value.items()) {
      if (properties.contains(key)) {
        if (!validates(member, properties[key], root)) return false;
      } else if (schema.contains("additionalProperties") &&
                 !validates(member, schema["additionalProperties"], root)) {
        return false;
      }
    }
  }
  return true;
}

TEST(SchemaGrammar, EnforcesWhatASchemaSays) {
  const SharedGrammar grammar = compiled(R"({"type":"object","title":"T","properties":{
      "name":{"type":"string","description":"d"},"kind":{"enum":["a","b",3,null]},
      "tags":{"type":"array","items":{"type":["integer","null"]},"minItems":1,"maxItems":2},
      "where":{"$ref":"#/$defs/place"}},"required":["name","tags"],"additionalProperties":false,
      "$defs":{"place":{"anyOf":[{"type":"boolean"},{"const":{"x":[1]}}]}}})");
  for (const std::string_view text :
       {R"({"name": "x", "tags": [1]})", R"({"name":"","kind":3,"tags":[null,2],"where":true})",
        R"({"name":"","kind":null,"tags":[0],"where":{"x":[1]}})"})
    EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const std::string_view text :
       {"{}", R"({"name":"x"})", R"({"name":1,"tags":[1]})", R"({"name":"x","tags":[]})",
        R"({"name":"x","tags":[1,2,3]})", R"({"name":"x","kind":"c","tags":[1]})",
        R"({"name":"x","tags":[1],"more":1})", R"({"name":"x","tags":[1.5]})", R"("x")"})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(SchemaGrammar, FollowsReferencesInCircles) {
  const SharedGrammar list = compiled(R"({"type":"object","properties":{"value":{"type":"integer"},
      "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["value","next"]})");
  EXPECT_TRUE(accepts(list, R"({"value":1,"next":{"value":2,"next":null}})"));
  EXPECT_FALSE(accepts(list, R"({"value":1,"next":{"value":2}})"));
}

TEST(SchemaGrammar, RefusesKeywordsByName) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"type":"string","pattern":"a+"})", "pattern"},
      {R"({"type":"string","format":"date"})", "format"},
      {R"({"type":"string","minLength":1})", "minLength"},
      {R"({"type":"integer","minimum":1})", "minimum"},
      {R"({"type":"object","properties":{"a":{"not":{}}}})", "not"},
      {R"({"type":"object","patternProperties":{}})", "patternProperties"},
      {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
      {R"({"allOf":[{},{}]})", "allOf"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf"},
      {R"({"oneOf":[{"const":1},{"const":1.0}]})", "oneOf"},
      {R"({"$ref":"http://x/y"})", "$ref"},
      {R"({"$ref":"#/$defs/none"})", "#/$defs/none"},
      {R"({"$ref":"#/properties/a"})", "$ref"},
      {R"({"anyOf":[{"type":"string"}],"minLength":1})", "minLength"},
      {R"({"type":"text"})", "type"},
      {R"({"enum":[]})", "no value"},
      {R"({"enum":["a"],"type":"integer"})", "no value"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})", "'a'"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "minItems"},
      {R"({"type":"array","minItems":-1})", "minItems"},
      {R"({"$ref":"#"})", "itself"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"string"}]})", "itself"},
      {R"({"type":"array","minItems":1,"items":{"$ref":"#"}})", "nothing can match"},
      {"false", "false"},
      {"7", "schema"},
      {"{", "cannot be read"}};
  for (const auto& [schema, word] : refused) {
    const auto grammar = compile_schema(schema, "response_format");
    ASSERT_FALSE(grammar) << schema;
    EXPECT_EQ(grammar.error().code, Code::kUnsupportedSchema);
    EXPECT_EQ(grammar.error().param, "response_format");
    EXPECT_NE(grammar.error().message.find(word), std::string::npos) << grammar.error().message;
  }
}

TEST(SchemaGrammar, TakesOneOfWhereBranchesCannotBothMatch) {
  for (const std::string_view schema :
       {R"({"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]})",
        R"({"oneOf":[{"const":"a"},{"const":"b"}]})",
        R"({"oneOf":[{"type":"object","required":["k"],"properties":{"k":{"const":"a"}}},
                     {"$ref":"#/$defs/b"}],
            "$defs":{"b":{"type":"object","required":["k"],"properties":{"k":{"enum":["b"]}}}}})"})
    compiled(schema);
}

TEST(SchemaGrammar, AcceptsAnyObjectForAJsonObject) {
  OutputFormat format;
  EXPECT_EQ(*compile_format(format), nullptr);
  format.kind = OutputFormat::Kind::kJsonObject;
  const SharedGrammar grammar = *compile_format(format);
  EXPECT_TRUE(accepts(grammar, R"({"a": [1, {"b": null}], "c": "x"})"));
  EXPECT_FALSE(accepts(grammar, "[]"));
}

TEST(SchemaGrammar, PutsToolCallsIntoTheirEnvelope) {
  const std::vector<Tool> tools = {
      {"f", "", R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})",
       true},
      {"g", "", "{}", false}};
  const auto grammar = compile_tool_calls(tools, {});
  ASSERT_TRUE(grammar);
  EXPECT_TRUE(
      accepts(*grammar, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>"));
  EXPECT_TRUE(accepts(*grammar,
                      "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"x\": []}}\n</tool_call>"));
  EXPECT_FALSE(
      accepts(*grammar, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"));
  const std::vector<Tool> bad = {{"f", "", R"({"type":"string","pattern":"x"})", true}};
  EXPECT_EQ(compile_tool_calls(bad, {}).error().param, "tools[0].function.parameters");
}

json random_schema(std::mt19937_64& random, int depth) {
  const auto below = [&] { return random_schema(random, depth - 1); };
  switch (random() % (depth > 0 ? 12 : 7)) {
    case 0:
      return {{"type", "string"}};
    case 1:
      return {{"type", "integer"}};
    case 2:
      return {{"type", "number"}};
    case 3:
      return {{"type", json::array({"boolean", "null"})}};
    case 4:
      return {{"enum", json::array({"a", "ab", 1, 1.5, nullptr, json::array({1, "x"})})}};
    case 5:
      return json::object();
    case 6:
      return {{"$ref", "#/$defs/d"}};
    case 7:
      return {{"type", "array"}, {"items", below()}, {"minItems", random() % 3}};
    case 8:
      return {{"type", "array"}, {"items", below()}, {"maxItems", random() % 3}};
    case 9:
      return {{"anyOf", json::array({below(), below()})}};
    case 10:
      return {{"type", "object"}, {"additionalProperties", below()}};
    default: {
      json schema = {{"type", "object"}, {"properties", json::object()}};
      schema["required"] = json::array();
      for (const char* key : {"a", "b", "\xC3\xA4\""}) {
        if (random() % 4 != 0) schema["properties"][key] = below();
        if (random() % 2 != 0) schema["required"].push_back(key);
      }
      if (random() % 2 != 0) schema["additionalProperties"] = below();
      return schema;
    }
  }
}

// Walks at random over what is allowed and then takes the short way out.
TEST(SchemaGrammar, WhatItAcceptsValidates) {
  std::mt19937_64 random(12);
  size_t walked = 0;
  for (int round = 0; round < 600; ++round) {
    json schema = random_schema(random, 3);
    schema["$defs"] = {{"d", random_schema(random, 1)}};
    const auto grammar = compile_schema(schema.dump(), "s");
    if (!grammar) {  // circles of references
      EXPECT_EQ(grammar.error().code, Code::kUnsupportedSchema);
      continue;
    }
    ++walked;
    JsonMatcher matcher(*grammar);
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) {
      const auto next = matcher.next_bytes();
      if (next.none()) break;
      // Mostly what gives structure: random characters of a string teach little.
      std::vector<uint8_t> choices;
      for (size_t byte = 0; byte < 256; ++byte)
        if (next[byte] &&
            (byte < 0x80 ? std::string_view("{}[],:\" ab12\\n").find(static_cast<char>(byte)) !=
                                   std::string_view::npos ||
                               random() % 16 == 0
                         : random() % 64 == 0))
          choices.push_back(static_cast<uint8_t>(byte));
      if (choices.empty()) break;
      text += static_cast<char>(choices[random() % choices.size()]);
      ASSERT_TRUE(matcher.accept(text.substr(text.size() - 1)));
    }
    const std::string rest = matcher.completion();
    EXPECT_LT(rest.size(), 2000U);
    if (!rest.empty()) {
      ASSERT_TRUE(matcher.accept(rest)) << schema << "\n" << text << rest;
    }
    ASSERT_TRUE(matcher.can_end()) << schema << "\n" << text << rest;
    const json value = json::parse(text + rest, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << schema << "\n" << text << rest;
    EXPECT_TRUE(validates(value, schema, schema)) << schema << "\n" << text << rest;
  }
  EXPECT_GT(walked, 400U);
}

}  // namespace
}  // namespace kvasir::api
