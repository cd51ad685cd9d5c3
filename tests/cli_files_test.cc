// End to end: tokenize, perplexity, synth and inspect.
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using nlohmann::json;

TEST_F(Cli, PrintsTokensAsJsonOrAsATable) {
  write_file(path("text"), "A fox<|im_end|>\n");
  const json ids = json::parse(output_of({"tokenize", "--json", path("text")}));
  EXPECT_THAT(ids, ::testing::Contains(4095));
  EXPECT_EQ(ids, json::parse(output_of({"tokenize", "--json"}, with_stdin("A fox<|im_end|>\n"))));
  const json plain = json::parse(output_of({"tokenize", "--json", "--no-special", path("text")}));
  EXPECT_THAT(plain, Not(::testing::Contains(4095)));
  EXPECT_GT(plain.size(), ids.size());
  const std::string decomposed = "Cafe\u0301";
  EXPECT_EQ(output_of({"tokenize", "--json", "-p", decomposed}),
            output_of({"tokenize", "--json", "-p", "Caf\u00e9"}));
  EXPECT_NE(output_of({"tokenize", "--json", "--no-nfc", "-p", decomposed}),
            output_of({"tokenize", "--json", "-p", decomposed}));
  EXPECT_THAT(output_of({"tokenize", path("text")}),
              AllOf(HasSubstr("4095  control       \"<|im_end|>\""), HasSubstr("\"\\n\""),
                    HasSubstr(std::to_string(ids.size()) + " tokens")));
  EXPECT_EQ(output_of({"tokenize", "--json", "-p", ""}), "[]\n");
  EXPECT_THAT(kvasir_run({"tokenize", "A fox"}).err, HasSubstr("a text itself goes after -p"));
}

TEST_F(Cli, MeasuresPerplexityWindowByWindow) {
  const std::string text =
      "Once upon a time there was a king who had three daughters. The youngest was fair.";
  const json ids = json::parse(output_of({"tokenize", "--json", "-p", text}));
  const json whole = json::parse(output_of({"perplexity", "--json", "-p", text}));
  EXPECT_EQ(whole["tokens"], ids.size() - 1);
  EXPECT_EQ(whole["windows"], 1);
  EXPECT_NEAR(whole["ppl"].get<double>(),
              std::exp(whole["nll"].get<double>() / whole["tokens"].get<double>()), 1e-9);
  EXPECT_GT(whole["ppl"].get<double>(), 2);
  EXPECT_LT(whole["ppl"].get<double>(), 100);
  // Windows of 8: each scores all but its first token.
  const json cut = json::parse(output_of({"perplexity", "--json", "--ctx", "8", "-p", text}));
  const size_t windows = (ids.size() + 7) / 8;
  EXPECT_EQ(cut["tokens"], ids.size() - windows);
  EXPECT_GT(cut["ppl"], whole["ppl"]);
  // Of each full window of 8 the targets 5, 6 and 7.
  EXPECT_EQ(cut["second_half"]["tokens"], ids.size() / 8 * 3);
  EXPECT_EQ(whole["second_half"]["tokens"], 0);
  EXPECT_TRUE(whole["second_half"]["ppl"].is_null());
  for (const char* chunk : {"1", "5"}) {
    EXPECT_EQ(output_of({"perplexity", "--json", "-p", text, "--chunk", chunk}),
              output_of({"perplexity", "--json", "-p", text}));
  }
  ProcessResult one = kvasir_run({"perplexity", "-p", "A"});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("the text has 1 token;"));
}

// The figure on the model's card was measured by a tool that scores second halves only.
TEST_F(Cli, ComesCloseToThePerplexityOnTheModelsCard) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "26,000 tokens take minutes under sanitizers";
#endif
  const char* golden = std::getenv("KVASIR_GOLDEN");
  const std::filesystem::path folder = golden != nullptr && *golden != '\0'
                                           ? std::filesystem::path(golden)
                                           : KVASIR_SOURCE_DIR "/../shared/golden";
  const std::filesystem::path text = folder / "../models/heldout.txt";
  if (!std::filesystem::exists(text)) GTEST_SKIP() << "no reference data at " << folder;
  const json score = json::parse(output_of({"perplexity", "--json", "-m", kBundled, "-f", text}));
  EXPECT_EQ(score["tokens"], 26'267);
  EXPECT_NEAR(score["second_half"]["ppl"].get<double>(), 23.05, 23.05 * 0.005);
  EXPECT_NEAR(score["ppl"].get<double>(), 24.016, 0.02);
}

TEST_F(Cli, RunsTheModelsItSynthesises) {
  struct Case {
    std::vector<std::string> flags;
    const char* architecture;
    int layers;
  };
  const Case cases[] = {
      {{}, "qwen35moe", 4},
      {{"--arch", "qwen3moe", "--type", "Q8_0", "--layers", "2", "--experts", "5"}, "qwen3moe", 2},
      {{"--type", "q4_k_m", "--embd", "256", "--width", "256", "--tied-output"}, "qwen35moe", 4},
      {{"--type", "iq4_nl", "--fused-gate-up", "--fused-qkv", "--seed", "9"}, "qwen35moe", 4},
  };
  for (const Case& made : cases) {
    std::vector<std::string> words = {"synth", "--ctx", "64", "-o", path("m.gguf")};
    words.insert(words.end(), made.flags.begin(), made.flags.end());
    output_of(words);
    const json facts = json::parse(output_of({"inspect", path("m.gguf"), "--json"}));
    EXPECT_EQ(facts["architecture"], made.architecture);
    EXPECT_EQ(facts["layers"]["main"], made.layers);
    EXPECT_EQ(facts["supported"], true);
    const std::vector<std::string> run = {"generate", "-m", path("m.gguf"), "-p", "abc",
                                          "-n",       "5",  "--logits-hash"};
    EXPECT_EQ(output_of(run), output_of(run, with_isa("scalar")));
    const std::string bytes = file_text(path("m.gguf"));
    output_of(words);
    EXPECT_EQ(bytes, file_text(path("m.gguf")));
  }
}

TEST_F(Cli, KeepsTheOldFileWhenAModelDoesNotFitOnTheDisk) {
  write_file(path("m.gguf"), "old");
  ProcessResult result = kvasir_run({"synth", "--like", "qwen3.5-397b-a17b", "--type", "f32",
                                     "--experts", "4096", "-o", path("m.gguf")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("the disk has"));
  EXPECT_EQ(file_text(path("m.gguf")), "old");
  EXPECT_FALSE(std::filesystem::exists(path("m.gguf.partial")));
}

TEST_F(Cli, KeepsTheOldFileWhenSynthIsInterrupted) {
  write_file(path("m.gguf"), "old");
  Process process(
      command({"synth", "--like", "qwen3-30b-a3b", "--layers", "2", "-o", path("m.gguf")}), {});
  const std::string partial = path("m.gguf.partial");
  const auto begun = [&] {
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(partial, error);
    return !error && bytes > 0;
  };
  for (int tries = 0; tries < 10'000 && !begun(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  process.signal(SIGINT);
  ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  EXPECT_EQ(file_text(path("m.gguf")), "old");
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST_F(Cli, InspectsTheFullSizeSkeletonOfALargeModel) {
  output_of({"synth", "--like", "qwen3.5-122b-a10b", "--skeleton", "-o", path("big.gguf")});
  EXPECT_GT(std::filesystem::file_size(path("big.gguf")), uint64_t{60} << 30);
  const json facts = json::parse(output_of({"inspect", path("big.gguf"), "--json"}));
  EXPECT_EQ(facts["layers"]["main"], 48);
  EXPECT_EQ(facts["layers"]["mtp"], 1);
  EXPECT_EQ(facts["n_embd"], 3072);
  EXPECT_EQ(facts["experts"]["per_layer"], 256);
  EXPECT_EQ(facts["experts"]["active"], 8);
  EXPECT_EQ(facts["experts"]["total"], 12'544);
  EXPECT_LT(facts["experts"]["bytes_min"], facts["experts"]["bytes_max"]);
  EXPECT_GT(facts["experts"]["share_of_weights"], 0.85);
  EXPECT_GT(facts["kv_bytes_per_token"], 0);
  EXPECT_GT(facts["state_bytes_per_sequence"], 0);
  EXPECT_THAT(output_of({"inspect", path("big.gguf")}),
              AllOf(HasSubstr("48 + 1 MTP"), HasSubstr("256 per layer, 8 active, 12544 in all")));
}

}  // namespace
}  // namespace kvasir::testing
