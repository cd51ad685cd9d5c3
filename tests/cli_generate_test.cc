// End to end: generate and logits on the bundled model, and that their numbers do not depend on how
// they are computed.
#include <nlohmann/json.hpp>
#include <thread>

#include "base/sha256.h"
#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using nlohmann::json;

TEST_F(Cli, TellsTheSameTaleForTheSameSeed) {
  const auto tale = [](const char* seed) {
    return output_of({"generate", "-p", "The Golden Bird\n\n", "-n", "40", "--seed", seed});
  };
  const std::string first = tale("2");
  EXPECT_GT(first.size(), 40U);
  EXPECT_EQ(first.back(), '\n');
  EXPECT_EQ(first, tale("2"));
  EXPECT_NE(first, tale("3"));
}

TEST_F(Cli, TakesThePromptFromAnywhere) {
  const std::string prompt = "Once upon a time\nthere was a \"king\"";
  write_file(path("prompt.txt"), prompt);
  const std::string text = output_of({"generate", "-n", "8", "-p", prompt});
  EXPECT_EQ(text, output_of({"generate", "-n", "8", "-f", path("prompt.txt")}));
  EXPECT_EQ(text, output_of({"generate", "-n", "8"}, with_stdin(prompt)));
  EXPECT_EQ(text, output_of({"generate", "-n", "8", "-f", "-"}, with_stdin(prompt)));
  EXPECT_EQ(text, output_of({"generate", "-n", "8", "-e", "-p",
                             "Once upon a time\\nthere was a \"king\""}));
  EXPECT_EQ(prompt + text, output_of({"generate", "-n", "8", "--echo", "-p", prompt}));
}

TEST_F(Cli, RefusesAPromptThatIsNotThere) {
  ProcessResult result = kvasir_run({"generate", "-f", path("nowhere.txt")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("nowhere.txt: no such file"));
  EXPECT_EQ(kvasir_run({"generate"}, with_stdin("")).exit_code, 2);
}

TEST_F(Cli, StopsBeforeAStopString) {
  const std::vector<std::string> base = {"generate", "-p", "Once upon a time", "-n", "60"};
  const std::string whole = output_of(base);
  const std::string stop = whole.substr(whole.size() / 2, 5);
  std::vector<std::string> stopping = base;
  stopping.insert(stopping.end(), {"--stop", "never in a tale \x01", "--stop", stop, "--stats"});
  ProcessResult result = kvasir_run(stopping);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, whole.substr(0, whole.find(stop)) + "\n");
  EXPECT_THAT(result.err, HasSubstr("stop string"));
}

TEST_F(Cli, EndsWhenTheModelEndsIt) {
  ProcessResult result = kvasir_run(
      {"generate", "-n", "400", "--ctx", "512", "--seed", "1", "--stats", "--logit-bias",
       "4095:100", "-p", "<|im_start|>user\nTell me a tale.<|im_end|>\n<|im_start|>assistant\n"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("the model ended it"), HasSubstr("answer:   0 tokens")));
}

TEST_F(Cli, ReportsSpeedMemoryAndKernels) {
  ProcessResult result = kvasir_run(
      {"generate", "-p", "A fox", "-n", "3", "--stats", "--threads", "2", "--seed", "77"});
  EXPECT_THAT(result.err, AllOf(ContainsRegex("prompt: +[0-9]+ tokens in [0-9.]+ s"),
                                ContainsRegex("answer: +3 tokens in [0-9.]+ s"),
                                ContainsRegex("memory: +[0-9.]+ MiB at the peak"),
                                ContainsRegex("kernels: +(scalar|avx|neon).*2 threads"),
                                ContainsRegex("seed: +77")));
}

TEST_F(Cli, RefusesWhatDoesNotFitIntoTheContextNamingBothNumbers) {
  ProcessResult result =
      kvasir_run({"generate", "-p", "one two three four", "-n", "10", "--ctx", "12"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("10 to generate"), HasSubstr("the context has 12"),
                                HasSubstr("--ctx")));
  result = kvasir_run({"generate", "-p", "one two three four", "--ctx", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(ContainsRegex("the prompt has [0-9]+ tokens"), HasSubstr("context 2")));
  // The default number of tokens is shortened, and that is said.
  result = kvasir_run({"generate", "-p", "one two three four", "--ctx", "14"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, ContainsRegex("note: +room for [0-9]+ tokens"));
}

TEST_F(Cli, RefusesAContextThatDoesNotFitIntoMemory) {
  ASSERT_EQ(kvasir_run({"synth", "--layers", "1000", "--arch", "qwen3moe", "--experts", "2",
                        "--experts-used", "1", "--skeleton", "-o", path("deep.gguf")})
                .exit_code,
            0);
  ProcessResult result = kvasir_run(
      {"generate", "-m", path("deep.gguf"), "-p", "x", "--ctx", "16777216", "--kv-type", "f32"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("needs"), HasSubstr("have"), HasSubstr("--ctx")));
}

std::string logits_hash(std::vector<std::string> flags, ProcessOptions options = {}) {
  std::vector<std::string> words = {"generate", "-n", "12", "-p",
                                    "Once upon a time there was a king who had three daughters, "
                                    "and the youngest of them"};
  words.insert(words.end(), flags.begin(), flags.end());
  const std::string out = output_of(words, std::move(options));
  const size_t at = out.find("logits-hash: ");
  return at == std::string::npos ? "none in: " + out : out.substr(at + 13);
}

// Whatever way the same tokens are computed, the hash is that of the first line.
TEST_F(Cli, HashesTheSameLogitsHoweverTheyAreComputed) {
  std::vector<std::string> names;
  std::istringstream version(output_of({"--version"}));
  for (std::string word; version >> word;)
    if (word == "scalar" || word.starts_with("avx") || word.starts_with("neon"))
      names.push_back(word.substr(0, word.find('-')));
  ASSERT_FALSE(names.empty());
  for (const char* flag : {"--logits-hash", "--logits-hash=all"}) {
    const std::string hash = logits_hash({flag});
    EXPECT_THAT(hash, ContainsRegex("^[0-9a-f]{64}\n$"));
    EXPECT_EQ(hash, logits_hash({flag, "--threads", "1"}));
    EXPECT_EQ(hash, logits_hash({flag, "--threads", "3", "--chunk", "7"}));
    EXPECT_EQ(hash, logits_hash({flag, "--chunk", "1"}));
    for (const std::string& name : names)
      EXPECT_EQ(hash, logits_hash({flag}, with_isa(name))) << name;
  }
  EXPECT_NE(logits_hash({"--logits-hash"}), logits_hash({"--logits-hash=all"}));
  EXPECT_NE(logits_hash({"--logits-hash"}), logits_hash({"--logits-hash", "--kv-type", "f32"}));
  EXPECT_NE(logits_hash({"--logits-hash"}),
            logits_hash({"--logits-hash", "--output-encoding", "q8"}));
}

// tokenize | logits gives the rows that generate hashes.
TEST_F(Cli, WritesTheLogitsThatGenerateHashes) {
  const std::string prompt = "The king said: \"<|im_end|>\"";
  write_file(path("ids.json"), output_of({"tokenize", "--json", "-p", prompt}));
  const std::string quiet =
      output_of({"logits", "--ids", path("ids.json"), "-o", path("logits.f32"), "--chunk", "3"});
  EXPECT_EQ(quiet, "");
  const std::string logits = file_text(path("logits.f32"));
  const size_t tokens = json::parse(file_text(path("ids.json"))).size();
  EXPECT_EQ(logits.size(), tokens * 4096 * sizeof(float));
  EXPECT_EQ(output_of({"generate", "-n", "0", "--logits-hash=all", "-p", prompt}),
            "logits-hash: " + sha256_hex(std::as_bytes(std::span(logits))) + "\n");
  EXPECT_EQ(output_of({"logits", "--ids", path("ids.json"), "-o", "-"}), logits);
}

TEST_F(Cli, RefusesTokenIdsThatAreNone) {
  struct Case {
    const char* ids;
    const char* says;
  };
  for (const Case& wrong :
       {Case{"1,2,x", "number 3"}, Case{"1,,2", "number 2"}, Case{"4096", "token 4096 is not"},
        Case{"-1", "'-1'"}, Case{"", "no token ids"}, Case{"99999999999", "'99"}}) {
    ProcessResult result =
        kvasir_run({"logits", "--ids", "-", "-o", path("out")}, with_stdin(wrong.ids));
    EXPECT_EQ(result.exit_code, 2) << wrong.ids;
    EXPECT_THAT(result.err, HasSubstr(wrong.says));
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
}

// Under whatever name: the file itself or a link to it.
TEST_F(Cli, DoesNotOverwriteTheInputsOfLogits) {
  std::filesystem::copy_file(kBundled, path("m.gguf"));
  write_file(path("ids"), "1,2,3");
  std::filesystem::create_hard_link(path("m.gguf"), path("hard"));
  std::filesystem::create_symlink(path("ids"), path("soft"));
  for (const char* name : {"m.gguf", "hard", "ids", "soft"}) {
    ProcessResult result =
        kvasir_run({"logits", "-m", path("m.gguf"), "--ids", path("ids"), "-o", path(name)});
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("is an input too")) << name;
  }
  EXPECT_EQ(file_text(path("m.gguf")), file_text(kBundled));
  EXPECT_EQ(file_text(path("ids")), "1,2,3");
}

// A reader must not take the beginning of the logits for all of them.
TEST_F(Cli, LeavesTheOldLogitsWhenInterrupted) {
  std::string ids = "1";
  for (int i = 0; i < 50'000; ++i) ids += " 1";
  write_file(path("ids"), ids);
  write_file(path("logits.f32"), "old");
  Process process(command({"logits", "--ids", path("ids"), "-o", path("logits.f32")}),
                  with_model());
  const std::string partial = path("logits.f32.partial");
  const auto begun = [&] {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(partial, error);
    return !error && bytes > 0;
  };
  for (int tries = 0; tries < 10'000 && !begun(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  process.signal(SIGINT);
  EXPECT_EQ(process.finish().exit_code, 130);
  EXPECT_EQ(file_text(path("logits.f32")), "old");
  EXPECT_FALSE(std::filesystem::exists(partial));
}

}  // namespace
}  // namespace kvasir::testing
