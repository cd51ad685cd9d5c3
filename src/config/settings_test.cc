#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/settings_text.h"
#include "config/test_program.h"

namespace kvasir::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<void> anything_goes(const Verb&, const Flag&, const std::vector<std::string>&) {
  return {};
}

std::vector<FileValue> file(const std::string& name, const std::string& text) {
  auto values = parse_config(text, name);
  EXPECT_TRUE(values);
  return *values;
}

class Settings : public ::testing::Test {
 protected:
  const Program program_ = program();
  const Verb& serve_ = program_.verbs.front();
  Sources sources_;

  std::vector<Setting> settled() const {
    auto settings = settle(serve_, sources_, anything_goes);
    EXPECT_TRUE(settings) << settings.error().message;
    return settings ? *settings : std::vector<Setting>();
  }
  Setting setting(const std::string& key) const {
    for (const Setting& one : settled())
      if (one.flag->key == key) return one;
    ADD_FAILURE() << key;
    return {};
  }
};

// One source after the other gets a value; each time the stronger one wins.
TEST_F(Settings, PreferFlagThenVariableThenUsersFileThenMachinesFile) {
  EXPECT_EQ(setting("ctx").origin.text, "default");
  EXPECT_THAT(setting("ctx").values, IsEmpty());
  sources_.files = {{}, file("etc", "[serve]\nctx = 1\n")};
  EXPECT_THAT(setting("ctx").values, ElementsAre("1"));
  EXPECT_EQ(setting("ctx").origin.text, "etc:2");
  sources_.files[0] = file("home", "\n[serve]\nctx = 2\n");
  EXPECT_EQ(setting("ctx").origin.text, "home:3");
  sources_.variables = {{"KVASIR_SERVE_CTX", "3"}, {"KVASIR_OTHER_CTX", "x"}};
  EXPECT_THAT(setting("ctx").values, ElementsAre("3"));
  EXPECT_EQ(setting("ctx").origin.text, "KVASIR_SERVE_CTX");
  sources_.flags["ctx"] = {"4"};
  EXPECT_THAT(setting("ctx").values, ElementsAre("4"));
  EXPECT_EQ(setting("ctx").origin.text, "--ctx");
  EXPECT_THAT(words_of(settled()), IsEmpty()) << "what the command line says is there already";
}

TEST_F(Settings, TakeTheSharedVariableAfterTheVerbsOwn) {
  sources_.files = {file("f", "[serve]\nmodel = \"f\"\n")};
  sources_.variables = {{"KVASIR_MODEL", "shared"}};
  EXPECT_THAT(setting("model").values, ElementsAre("shared"));
  sources_.variables.emplace_back("KVASIR_SERVE_MODEL", "own");
  EXPECT_THAT(setting("model").values, ElementsAre("own"));
}

TEST_F(Settings, ReadLinesAndSwitchesFromVariables) {
  sources_.variables = {{"KVASIR_SERVE_STOP", "a, b\nc\n"},
                        {"KVASIR_SERVE_STATS", "0"},
                        {"KVASIR_SERVE_LOGITS_HASH", "all"},
                        {"KVASIR_SERVE_CTX", ""}};
  EXPECT_THAT(setting("stop").values, ElementsAre("a, b", "c"));
  EXPECT_THAT(setting("stats").values, ElementsAre("false"));
  EXPECT_EQ(setting("ctx").origin.kind, Origin::Kind::kDefault) << "empty is as good as unset";
  EXPECT_THAT(words_of(settled()),
              ElementsAre("--stop", "a, b", "--stop", "c", "--logits-hash=all"));
  sources_.variables = {{"KVASIR_SERVE_STATS", "yes"}};
  auto settings = settle(serve_, sources_, anything_goes);
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("KVASIR_SERVE_STATS: 'yes' is none of"));
}

TEST_F(Settings, RefuseAVariableThatIsNone) {
  sources_.variables = {{"KVASIR_SERVE_KVTYPE", "f16"}};
  auto settings = settle(serve_, sources_, anything_goes);
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("the nearest is KVASIR_SERVE_KV_TYPE"));
}

// --prompt on the command line beside a file's `file` is no contradiction; within one source it is,
// and the command line's parser says so.
TEST_F(Settings, LeaveOutWhatAStrongerOneExcludes) {
  sources_.files = {file("f", "[serve]\nfile = \"y\"\n")};
  sources_.flags["prompt"] = {"x"};
  EXPECT_EQ(setting("file").origin.kind, Origin::Kind::kDefault);
  sources_.flags.clear();
  sources_.files = {file("f", "[serve]\nfile = \"y\"\nprompt = \"x\"\n")};
  EXPECT_THAT(words_of(settled()), ElementsAre("--prompt", "x", "--file", "y"));
}

TEST_F(Settings, PrintAFileThatSaysTheSame) {
  sources_.files = {file("f",
                         "[serve]\nctx = 7\nstop = [\"a\\\"\\n\\t\\\\\"]\nstats = true\n"
                         "temperature = 0.5\ndecode = \"1,2\"\nlogits-hash = true\n")};
  const std::string text = settings_as_toml({{&serve_, settled()}}, ShowOrigin::kYes);
  EXPECT_THAT(text, HasSubstr("ctx = 7 "));
  EXPECT_THAT(text, HasSubstr("# f:2\n"));
  EXPECT_THAT(text, HasSubstr("# kv-type: f16 "));
  const std::vector<Setting> before = settled();
  sources_.files = {file("g", text)};
  const std::vector<Setting> after = settled();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].values, after[i].values);
}

TEST_F(Settings, PrintJson) {
  sources_.files = {file("f", "[serve]\nctx = 7\nstop = [\"\xc3\xa9\"]\n")};
  sources_.variables = {{"KVASIR_SERVE_PROMPT", "\xff"}};
  const auto json = nlohmann::json::parse(settings_as_json({{&serve_, settled()}}))["serve"];
  EXPECT_EQ(json["ctx"]["value"], 7);
  EXPECT_EQ(json["ctx"]["from"], "f:2");
  EXPECT_EQ(json["ctx"]["origin"], "file");
  EXPECT_EQ(json["stats"]["value"], false);
  EXPECT_EQ(json["kv-type"]["value"], nullptr);
  EXPECT_EQ(json["kv-type"]["default"], "f16");
  EXPECT_EQ(json["kv-type"]["variable"], "KVASIR_SERVE_KV_TYPE");
  EXPECT_EQ(json["stop"]["value"][0], "\xc3\xa9");
}

TEST(StandardFiles, FollowTheXdgSpecification) {
  EXPECT_THAT(standard_files("/x", "/home/a"),
              ElementsAre("/x/kvasir/kvasir.toml", "/etc/kvasir/kvasir.toml"));
  EXPECT_THAT(standard_files("relative", "/home/a"),
              ElementsAre("/home/a/.config/kvasir/kvasir.toml", "/etc/kvasir/kvasir.toml"));
  EXPECT_THAT(standard_files("", ""), ElementsAre("/etc/kvasir/kvasir.toml"));
}

}  // namespace
}  // namespace kvasir::config::testing
