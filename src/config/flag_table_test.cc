#include "config/flag_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/completion.h"
#include "config/test_program.h"

namespace kvasir::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FlagTable, NamesAVariableByTheWordsOfVerbAndFlag) {
  const Program made = program();
  const Verb& serve = made.verbs.front();
  EXPECT_EQ(variable_name(serve, *find_setting(serve, "kv-type")), "KVASIR_SERVE_KV_TYPE");
  EXPECT_EQ(shared_variable(*find_setting(serve, "model")), "KVASIR_MODEL");
  EXPECT_EQ(shared_variable(*find_setting(serve, "ctx")), "");
  // A secret in the environment is not the name of a file; nor may `config show` print it.
  EXPECT_EQ(shared_variable(flag("token-file", "FILE", "Token (default: $KVASIR_HUB_TOKEN)")), "");
  EXPECT_EQ(shared_variable(flag("hub", "URL", "Hub (default: $KVASIR_HUB_TOKEN)")), "");
  EXPECT_EQ(shared_variable(flag("hub", "URL", "Hub (default: $KVASIR_HUB)")), "KVASIR_HUB");
  EXPECT_EQ(find_setting(serve, "config"), nullptr);
  EXPECT_EQ(find_setting(serve, ""), nullptr);
  EXPECT_EQ(find_setting(made.verbs.back(), ""), nullptr);
}

TEST(FlagTable, TellsFixedWordsFromPlaceholders) {
  EXPECT_THAT(choices_of(flag("", "f16|f32", "")), ElementsAre("f16", "f32"));
  EXPECT_THAT(choices_of(flag("", "auto|mapped|SIZE", "")), ElementsAre("auto", "mapped"));
  EXPECT_THAT(choices_of(flag("", "none|sampled[=SHARE]|all", "")),
              ElementsAre("none", "sampled", "all"));
  EXPECT_THAT(choices_of(flag("", "N|random", "")), ElementsAre("random"));
  EXPECT_THAT(choices_of(flag("", "show", "")), ElementsAre("show"));
  EXPECT_THAT(choices_of(flag("", "[HOST:]PORT", "")), IsEmpty());
  EXPECT_THAT(choices_of(flag("", "FILE", "")), IsEmpty());
  EXPECT_THAT(choices_of(flag("", "", "")), IsEmpty());
  EXPECT_EQ(shape_of(flag("", "[HOST:]PORT", "")), Shape::kTextOrWhole);
  EXPECT_EQ(shape_of(flag("", "NAME", "")), Shape::kText);
  EXPECT_EQ(shape_of(flag("", "", "")), Shape::kSwitch);
}

TEST(FlagTable, FindsTheDefaultInTheDescription) {
  EXPECT_EQ(default_text(flag("", "N", "Context (default: 4096)")), "4096");
  EXPECT_EQ(default_text(flag("", "N", "Names (repeatable; default: a (b) c) more")), "a (b) c");
  EXPECT_EQ(default_text(flag("", "N", "Where (host default: all; port 0: any)")), "");
  EXPECT_EQ(default_text(flag("", "N", "Open (default: 4")), "4");
}

TEST(FlagTable, GuessesTheNearestWord) {
  const std::vector<std::string> words = {"ctx", "token-file", "temperature"};
  EXPECT_EQ(nearest("cxt", words), "ctx");
  EXPECT_EQ(nearest("token", words), "token-file");
  EXPECT_EQ(nearest("temprature", words), "temperature");
  EXPECT_EQ(nearest("listen-address", words), std::nullopt);
  EXPECT_EQ(nearest(std::string(100'000, 'x'), words), std::nullopt);
}

}  // namespace
}  // namespace kvasir::config::testing
