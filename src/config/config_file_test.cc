#include "config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "config/test_program.h"

namespace kvasir::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<void> anything_goes(const Verb&, const Flag&, const std::vector<std::string>&) {
  return {};
}

Result<void> check(std::string_view text) {
  KVASIR_TRY(const std::vector<FileValue> values, parse_config(text, "k.toml"));
  return check_config(program(), values, anything_goes);
}

TEST(ConfigFile, ReadsEveryKindOfValueAsItsFlagTakesIt) {
  const char* text =
      "[serve]\nctx = 4_096\ntemperature = 0.1\nkv-type = \"f32\"\nlisten = 8080\n"
      "decode = [1, 4]\nstats = true\nstop = [\"a\", \"b\\nc\"]\nlogits-hash = \"all\"\n";
  ASSERT_TRUE(check(text)) << check(text).error().message;
  const Program made = program();
  std::map<std::string, std::vector<std::string>> texts;
  const auto values = parse_config(text, "k.toml");
  for (const FileValue& value : *values)
    if (!value.key.empty())
      texts[value.key] = value_texts(*find_setting(made.verbs.front(), value.key), value);
  EXPECT_THAT(texts["ctx"], ElementsAre("4096"));
  EXPECT_THAT(texts["temperature"], ElementsAre("0.1"));
  EXPECT_THAT(texts["listen"], ElementsAre("8080"));
  EXPECT_THAT(texts["decode"], ElementsAre("1,4"));
  EXPECT_THAT(texts["stats"], ElementsAre("true"));
  EXPECT_THAT(texts["stop"], ElementsAre("a", "b\nc"));
}

TEST(ConfigFile, SaysWhereAndWhatIsWrong) {
  struct Case {
    const char* text;
    const char* says;
  };
  const Case cases[] = {
      {"[serve]\nctx = \"x\"", "k.toml:2:7: 'ctx' needs a whole number"},
      {"[serve]\nctx = 1.5", "k.toml:2:7: 'ctx' needs a whole number"},
      {"[serve]\ntemperature = \"hot\"", "k.toml:2:15: 'temperature' needs a number"},
      {"[serve]\nstats = 1", "k.toml:2:9: 'stats' needs true or false"},
      {"[serve]\nkv-type = 16", "k.toml:2:11: 'kv-type' needs a text"},
      {"[serve]\nctx = [1]", "k.toml:2:7: 'ctx' needs a whole number, not a list"},
      {"[serve]\nstop = [1]", "'stop' needs a text"},
      {"[serve]\nlisten = 2026-01-01", "'listen' needs a text or a whole number"},
      {"[serve.model]\na = 1", "'model' needs a text"},
      {"[serve]\nprompt = \"a\\u0000b\"", "k.toml:2:10: 'prompt' holds a zero byte"},
      {"[serve]\ncxt = 1", "'serve' has no key 'cxt'; the nearest is 'ctx'"},
      {"[serve]\ntoken = \"secret\"", "'serve' has no key 'token'; the nearest is 'token-file'"},
      {"[serve]\nconfig = \"x\"", "'serve' has no key 'config'"},
      {"[sevre]\nctx = 1", "k.toml:1:2: there is no table 'sevre'; the nearest is 'serve'"},
      {"[man]", "there is no table 'man'"},
      {"ctx = 1", "k.toml:1:7: the key 'ctx' stands in no table"},
      {"[serve]\nctx = 1\nctx = 2", "k.toml:3:"},
      {"[serve\nctx = 1", "k.toml:1:"},
      // Failed assertions of the library.
      {"[serve]\nctx = \xc3\xa9", "k.toml:2:"},
      {"[.a]", "k.toml:1:2: this is no TOML"},
      {"[serve]\nstop = [}\"a\"]", "k.toml:2:9: this is no TOML"},
      {"[serve]\nstop = 1979-05-27TA0:00Z", "k.toml:2:21: this is no TOML"},
      {"[serve]\nmodel = \"\xff\"", "k.toml:2:"},
  };
  for (const Case& one : cases) {
    Result<void> checked = check(one.text);
    ASSERT_FALSE(checked) << one.text;
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(checked.error().message, HasSubstr(one.says));
    EXPECT_THAT(checked.error().message, StartsWith("k.toml:"));
  }
}

TEST(ConfigFile, SaysWhatTheFlagItselfSays) {
  const ValueCheck refuse = [](const Verb&, const Flag&, const std::vector<std::string>& values) {
    return Result<void>(Error::invalid("'{}' is too small", values.front()));
  };
  auto values = parse_config("[serve]\nctx = 0\nstats = false", "k.toml");
  Result<void> checked = check_config(program(), *values, refuse);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "k.toml:2:7: 'ctx': '0' is too small");
}

// Any bytes give values or an error, and deep nesting no stack overflow.
TEST(ConfigFile, SurvivesHostileText) {
  EXPECT_FALSE(check("[serve]\nstop = " + std::string(100'000, '[')));
  EXPECT_FALSE(check("[serve]\n" + std::string(100'000, 'a')));
  EXPECT_FALSE(check("[" + std::string(200'000, '.')));
  std::string dotted = "[serve]\na";
  for (int i = 0; i < 20'000; ++i) dotted += ".a";
  EXPECT_FALSE(check(dotted + " = 1"));
  EXPECT_FALSE(parse_config(std::string(kConfigBytesMax + 1, ' '), "k.toml"));

  const std::string good = "[serve]\nctx = 4096\nstop = [\"a\", 'b']\nmodel = \"\"\"x\"\"\" # no\n";
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    (void)check(text.substr(0, random() % (text.size() + 1)));
  }
}

}  // namespace
}  // namespace kvasir::config::testing
