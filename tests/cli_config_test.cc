// End to end: configuration files, variables and flags of the executable; completions in the shells
// they are for; manual pages through the formatter.
#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

class CliConfig : public Cli {
 protected:
  // A file of this name, and the options of a run that reads it.
  ProcessOptions with_config(const std::string& text) const {
    write_file(path("kvasir.toml"), text);
    ProcessOptions options;
    options.environment["KVASIR_CONFIG"] = path("kvasir.toml");
    return options;
  }
};

Json shown(std::vector<std::string> words, ProcessOptions options = {}) {
  words.insert(words.begin(), {"config", "show", "--json"});
  return Json::parse(output_of(std::move(words), std::move(options)), nullptr, false);
}

TEST_F(CliConfig, AFileGivesFlagsTheirValues) {
  const std::string by_flags = output_of({"generate", "-e", "-p", "A fox\\n", "-n", "5", "--echo",
                                          "--logits-hash=all", "--stop", "never", "--ctx", "64"});
  const ProcessOptions options = with_config(
      "[generate]\nescapes = true\nprompt = 'A fox\\n'\ntokens = 5\necho = true\n"
      "logits-hash = \"all\"\nstop = [\"never\"]\nctx = 64\n[bench]\nctx-free = 1\n");
  EXPECT_EQ(kvasir_run({"generate"}, options).exit_code, 2) << "the whole file is checked";
  const std::string text = file_text(path("kvasir.toml"));
  EXPECT_EQ(output_of({"generate"}, with_config(text.substr(0, text.find("[bench]")))), by_flags);
}

TEST_F(CliConfig, FlagsAreStrongerThanVariablesAndThoseThanFiles) {
  ProcessOptions options = with_config("[generate]\ntokens = 3\nctx = 100\nfile = 'nowhere'\n");
  options.environment["KVASIR_GENERATE_CTX"] = "200";
  options.environment["KVASIR_GENERATE_STOP"] = "a, b\nc";
  const Json json = shown({"generate", "--", "-p", "x", "--seed", "7"}, options)["generate"];
  EXPECT_EQ(json["tokens"]["value"], 3);
  EXPECT_EQ(json["tokens"]["from"], path("kvasir.toml") + ":2");
  EXPECT_EQ(json["ctx"]["value"], 200);
  EXPECT_EQ(json["ctx"]["from"], "KVASIR_GENERATE_CTX");
  EXPECT_EQ(json["stop"]["value"], Json::array({"a, b", "c"}));
  EXPECT_EQ(json["seed"]["origin"], "flag");
  EXPECT_EQ(json["file"]["origin"], "default") << "-p excludes it";
  EXPECT_EQ(json["model"]["from"], "KVASIR_MODEL");
  EXPECT_EQ(json["kv-type"]["default"], "f16");

  options.environment["KVASIR_GENERATE_CTX"] = "1";
  EXPECT_EQ(kvasir_run({"generate", "-p", "The golden bird"}, options).exit_code, 1);
  EXPECT_EQ(kvasir_run({"generate", "-p", "The golden bird", "--ctx", "64"}, options).exit_code, 0);
}

TEST_F(CliConfig, ReadsTheUsersFileAndOneThatIsNamed) {
  std::filesystem::create_directories(path("xdg/kvasir"));
  write_file(path("xdg/kvasir/kvasir.toml"), "[generate]\nctx = 33\ntokens = 4\n");
  write_file(path("other.toml"), "[generate]\nctx = 44\n");
  ProcessOptions options;
  options.environment = {{"KVASIR_CONFIG", ""}, {"XDG_CONFIG_HOME", path("xdg")}};
  EXPECT_EQ(shown({"generate"}, options)["generate"]["ctx"]["value"], 33);
  const Json named = shown({"generate", "--config", path("other.toml")}, options)["generate"];
  EXPECT_EQ(named["ctx"]["value"], 44);
  EXPECT_EQ(named["tokens"]["origin"], "default") << "it takes the place of the others";
  EXPECT_EQ(shown({"generate", "--", "--config", path("other.toml")},
                  options)["generate"]["ctx"]["value"],
            44);
}

TEST_F(CliConfig, RequiredFlagsMayStandInAFile) {
  const ProcessOptions options = with_config("[status]\nconnect = \"nonsense\"\n");
  EXPECT_THAT(kvasir_run({"status"}, options).err, Not(HasSubstr("required")));
  EXPECT_THAT(kvasir_run({"status"}).err, HasSubstr("required"));
}

TEST_F(CliConfig, SaysFileLineAndColumnOfAMistake) {
  const std::string file = path("kvasir.toml");
  struct Case {
    const char* text;
    const char* says;
  };
  const Case cases[] = {
      {"[generate]\nctx = \"many\"\n", ":2:7: 'ctx' needs a whole number"},
      {"[bench]\n\nctx = 0\n", ":3:7: 'bench' has no key 'ctx'"},
      {"[perplexity]\nctx = 0\n", ":2:7: 'ctx': '0' is not a whole number from 1"},
      {"[generate]\nkv-type = \"f8\"\n", ":2:11: 'kv-type': 'f8' is none of f16|f32"},
      {"[generate]\nkv_type = \"f16\"\n",
       "'generate' has no key 'kv_type'; the nearest is 'kv-type'"},
      {"[generate]\ntokens =\n", ":2:"},
  };
  for (const Case& one : cases) {
    const ProcessResult result = kvasir_run({"generate", "-p", "x"}, with_config(one.text));
    EXPECT_EQ(result.exit_code, 2) << one.text;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: " + file), HasSubstr(one.says)));
  }
  // Help, and what has no settings, works all the same.
  EXPECT_EQ(kvasir_run({"generate", "--help"}, with_config("nonsense")).exit_code, 0);
  EXPECT_EQ(kvasir_run({"man", "generate"}, with_config("nonsense")).exit_code, 0);
  EXPECT_EQ(kvasir_run({"generate", "-p", "x", "--config", path("none")}).exit_code, 1);
}

TEST_F(CliConfig, SaysWhichVariableIsWrong) {
  ProcessOptions options;
  options.environment["KVASIR_GENERATE_CTX"] = "x";
  ProcessResult result = kvasir_run({"generate", "-p", "x"}, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("error: KVASIR_GENERATE_CTX: 'x' is not a whole number"));
  options.environment = {{"KVASIR_GENERATE_CTXX", "1"}};
  result = kvasir_run({"generate", "-p", "x"}, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the nearest is KVASIR_GENERATE_CTX\n"));
}

TEST_F(CliConfig, ShowsOriginsAndAFileThatSaysTheSame) {
  const ProcessOptions options = with_config("[generate]\nstop = ['a\"\\']\nstats = true\n");
  const std::string text = output_of({"config", "show", "--origin"}, options);
  EXPECT_THAT(text,
              AllOf(HasSubstr("stats = true "), HasSubstr("# " + path("kvasir.toml") + ":3\n"),
                    HasSubstr("# kv-type: f16 "), HasSubstr("[worker]\n")));
  const Json before = shown({"generate"}, options)["generate"];
  const Json after = shown({"generate"}, with_config(text))["generate"];
  for (const auto& [key, setting] : before.items())
    EXPECT_EQ(setting["value"], after[key]["value"]) << key;
}

TEST_F(CliConfig, RefusesWrongCallsOfItsOwnVerbs) {
  EXPECT_EQ(kvasir_run({"config"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"config", "hide"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"config", "show", "nothing"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"config", "show", "man"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"config", "show", "generate", "--", "--ctx", "x"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"completion", "tcsh"}).exit_code, 2);
  EXPECT_EQ(kvasir_run({"man", "nothing"}).exit_code, 2);
}

TEST_F(CliConfig, ShowsNoSecretOfTheEnvironment) {
  ProcessOptions options;
  options.environment = {{"KVASIR_API_KEY", "name:hunter2"}, {"KVASIR_HUB_TOKEN", "hunter2"}};
  EXPECT_THAT(output_of({"config", "show", "--origin"}, options), Not(HasSubstr("hunter2")));
  EXPECT_THAT(output_of({"config", "show", "--json"}, options), Not(HasSubstr("hunter2")));
}

// No flag takes a secret itself: a command line and a configuration file are read by others.
TEST_F(CliConfig, HasSecretsInFilesOfTheirOwnOnly) {
  const Json json = shown({});
  size_t keys = 0;
  for (const auto& [verb, settings] : json.items()) {
    for (const auto& [key, setting] : settings.items()) {
      ++keys;
      for (const char* word : {"token", "secret", "password", "api-key"}) {
        if (key == "tokens" || key.find(word) == std::string::npos) continue;
        EXPECT_TRUE(key.ends_with("-file")) << verb << "." << key;
      }
    }
  }
  EXPECT_GT(keys, 100U);
}

// What bash offers for these words, the last of which is being typed.
std::vector<std::string> offered(const std::string& script, const std::vector<std::string>& words) {
  std::vector<std::string> command = {
      "/bin/bash",
      "-c",
      "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
      "[[ $(complete -p kvasir) == *_kvasir* ]] || exit 1; _kvasir; printf '%s\\n' "
      "\"${COMPREPLY[@]}\"",
      "bash",
      script,
      "kvasir"};
  command.insert(command.end(), words.begin(), words.end());
  const ProcessResult result = run_process(command, {});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::vector<std::string> lines;
  std::istringstream out(result.out);
  for (std::string line; std::getline(out, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

TEST_F(CliConfig, BashCompletesVerbsFlagsChoicesAndFiles) {
  const std::string script = path("kvasir.bash");
  write_file(script, output_of({"completion", "bash"}));
  EXPECT_THAT(offered(script, {"gen"}), ElementsAre("generate"));
  EXPECT_THAT(offered(script, {""}), IsSupersetOf({"help", "chat", "config", "--version"}));
  EXPECT_THAT(offered(script, {"help", "to"}), ElementsAre("tokenize"));
  EXPECT_THAT(offered(script, {"generate", "--kv"}), ElementsAre("--kv-type"));
  EXPECT_THAT(offered(script, {"generate", "--kv-type", ""}), ElementsAre("f16", "f32"));
  EXPECT_THAT(offered(script, {"generate", "--kv-type", "=", "f3"}), ElementsAre("f32"));
  EXPECT_THAT(offered(script, {"generate", "--ctx", ""}), ElementsAre());
  EXPECT_THAT(offered(script, {"generate", "-n", "5", "--ech"}), ElementsAre("--echo"));
  EXPECT_THAT(offered(script, {"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(offered(script, {"config", ""}), ElementsAre("show"));
  EXPECT_THAT(offered(script, {"config", "show", "gen"}), ElementsAre("generate"));
  write_file(path("a model.gguf"), "");
  EXPECT_THAT(offered(script, {"inspect", path("a ")}), ElementsAre(path("a model.gguf")));
  EXPECT_THAT(offered(script, {"chat", "-m", path("a ")}), ElementsAre(path("a model.gguf")));
}

TEST_F(CliConfig, ZshAndFishUnderstandTheirScripts) {
  write_file(path("_kvasir"), output_of({"completion", "zsh"}));
  write_file(path("kvasir.fish"), output_of({"completion", "fish"}));
  const std::string zsh = "/usr/bin/zsh", fish = "/usr/bin/fish";
  if (!std::filesystem::exists(zsh) || !std::filesystem::exists(fish))
    GTEST_SKIP() << "zsh or fish is not installed";
  const ProcessResult loaded = run_process(
      {zsh, "-fc",
       "autoload -Uz compinit; compinit -D -u; source \"$1\"; print -r -- $_comps[kvasir]", "zsh",
       path("_kvasir")},
      {});
  EXPECT_EQ(loaded.out, "_kvasir\n") << loaded.err;
  ProcessOptions at_home;
  at_home.environment["HOME"] = path("");
  const auto fish_offers = [&](const std::string& line) {
    return run_process({fish, "--no-config", "-c", "source $argv[1]; complete -C $argv[2]",
                        path("kvasir.fish"), line},
                       at_home)
        .out;
  };
  EXPECT_THAT(fish_offers("kvasir gen"), StartsWith("generate\t"));
  EXPECT_THAT(fish_offers("kvasir generate --kv-type "), AllOf(HasSubstr("f16"), HasSubstr("f32")));
  EXPECT_THAT(fish_offers("kvasir generate --ech"), StartsWith("--echo\t"));
  EXPECT_THAT(fish_offers("kvasir completion "), Not(HasSubstr("generate")));
}

// Every page has the text of every flag, and nothing that the formatter warns of.
TEST_F(CliConfig, ManPagesSayWhatHelpSays) {
  const std::string folder = path("man");
  std::filesystem::create_directory(folder);
  output_of({"man", "-o", folder});
  EXPECT_EQ(file_text(folder + "/kvasir.1"), output_of({"man"}));
  const bool formatter = std::filesystem::exists("/usr/bin/groff");
  size_t pages = 0;
  const Json all = shown({});
  for (const auto& [verb, settings] : all.items()) {
    ++pages;
    const std::string file = folder + "/kvasir-" + verb + ".1";
    const std::string page = file_text(file);
    EXPECT_EQ(page, output_of({"man", verb}));
    const std::string help = output_of({verb, "--help"});
    for (const auto& [key, setting] : settings.items()) {
      std::string name = "--" + key;
      EXPECT_THAT(help, HasSubstr(name));
      for (size_t at = name.find('-'); at != std::string::npos; at = name.find('-', at + 2))
        name.insert(at, "\\");
      EXPECT_THAT(page, HasSubstr("\\fB" + name + "\\fR"));
      EXPECT_THAT(page, HasSubstr("\n.B " + setting["variable"].get<std::string>() + "\n"));
    }
    for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS",
                                "ENVIRONMENT", "FILES", "EXAMPLES"})
      EXPECT_THAT(page, HasSubstr(std::string(".SH ") + section + "\n")) << verb;
    if (!formatter) continue;
    const ProcessResult formatted =
        run_process({"/usr/bin/groff", "-man", "-ww", "-z", "-Tutf8", file}, {});
    EXPECT_EQ(formatted.err, "") << verb;
  }
  EXPECT_GE(pages, 14U);
}

}  // namespace
}  // namespace kvasir::testing
