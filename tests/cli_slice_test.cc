// End to end: manifest and slice, what they remember, and what other commands say of a slice.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using nlohmann::json;

class CliSlice : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    options_.environment["XDG_CACHE_HOME"] = path("cache");
  }
  ProcessResult run(std::vector<std::string> words) {
    return kvasir_run(std::move(words), options_);
  }
  std::string out(std::vector<std::string> words) { return output_of(std::move(words), options_); }
  void synth(const std::string& name, std::vector<std::string> flags = {}) {
    std::vector<std::string> words = {"synth", "--type", "q8_0",    "--experts",
                                      "20",    "-o",     path(name)};
    words.insert(words.end(), flags.begin(), flags.end());
    out(words);
  }
  // Changes one byte, this far from the end.
  void damage(const std::string& name, size_t from_end) {
    std::string bytes = file_text(path(name));
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
    write_file(path(name), bytes);
  }

  ProcessOptions options_;
};

// "model <hash>" is the manifest's second line.
std::string hash_of(const std::string& manifest) {
  return manifest.substr(manifest.find("\nmodel ") + 7, 64);
}

TEST_F(CliSlice, HashesAModelOnceAndRemembersIt) {
  ProcessResult first = run({"manifest", kBundled});
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.out, AllOf(StartsWith("kvasir-manifest 1\nmodel "), HasSubstr("\nend\n")));
  const std::string hash = hash_of(first.out);
  EXPECT_THAT(first.err, AllOf(HasSubstr("model hash " + hash), HasSubstr("hashed now")));
  ProcessResult second = run({"manifest", kBundled, "--threads", "1", "-o", path("m")});
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_THAT(second.err, HasSubstr("known from an earlier run"));
  EXPECT_EQ(file_text(path("m")), first.out);
  ProcessResult third = run({"manifest", kBundled, "--no-cache", "--threads", "1"});
  EXPECT_THAT(third.err, HasSubstr("hashed now"));
  EXPECT_EQ(third.out, first.out);
  // A cache that cannot be written costs a note.
  write_file(path("file"), "");
  options_.environment["XDG_CACHE_HOME"] = path("file");
  ProcessResult fourth = run({"manifest", kBundled});
  EXPECT_EQ(fourth.exit_code, 0);
  EXPECT_THAT(fourth.err, HasSubstr("the hashes are not remembered"));
  EXPECT_EQ(fourth.out, first.out);
}

TEST_F(CliSlice, CutsASliceAndSaysHowItWasChecked) {
  const std::vector<std::string> slice = {"slice",     kBundled, "--layers", "0-1,3",
                                          "--experts", "0-15",   "-o",       path("part.gguf")};
  EXPECT_THAT(out(slice), AllOf(HasSubstr("experts 0-15 of layers 0-1,3: 48 experts in 6 units"),
                                HasSubstr("hashes checked: hashed now")));
  const std::string bytes = file_text(path("part.gguf"));
  EXPECT_THAT(out(slice), HasSubstr("hashes checked: known from an earlier run"));
  out({"manifest", kBundled, "-o", path("m")});
  std::vector<std::string> by_file = slice;
  by_file.insert(by_file.end(), {"--manifest", path("m")});
  EXPECT_THAT(out(by_file), HasSubstr("hashes checked: " + path("m")));
  EXPECT_EQ(file_text(path("part.gguf")), bytes);

  const json facts = json::parse(out({"inspect", path("part.gguf"), "--json"}));
  EXPECT_EQ(facts["slice"]["source"], hash_of(file_text(path("m"))));
  EXPECT_EQ(facts["slice"]["experts"], 48);
  EXPECT_EQ(facts["slice"]["units"], 6);
  EXPECT_EQ(facts["slice"]["layers"].size(), 3U);
  EXPECT_EQ(facts["slice"]["layers"][2]["layer"], 3);
  EXPECT_EQ(facts["slice"]["layers"][2]["count"], 16);
  EXPECT_EQ(facts["supported"], false);
  EXPECT_THAT(out({"inspect", path("part.gguf")}),
              AllOf(HasSubstr("slice of            kvasir-tales"),
                    HasSubstr("0-1: experts 0-15, gate Q4_K, up Q4_K, down Q4_K"),
                    HasSubstr("3: experts 0-15, gate Q4_K, up Q4_K, down Q6_K")));
  EXPECT_THAT(out({"manifest", path("part.gguf"), "--check", path("m")}),
              HasSubstr("6 units as in the manifest of model"));
}

TEST_F(CliSlice, EveryOtherCommandSaysWhatASliceIs) {
  out({"slice", kBundled, "--experts", "8-15", "-o", path("part.gguf")});
  write_file(path("ids"), "1 2");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"generate", "-m", path("part.gguf"), "-p", "x"},
           {"chat", "-m", path("part.gguf")},
           {"perplexity", "-m", path("part.gguf"), "-p", "A fox"},
           {"tokenize", "-m", path("part.gguf"), "-p", "x"},
           {"logits", "-m", path("part.gguf"), "--ids", path("ids"), "-o", path("x")},
           {"bench", "-m", path("part.gguf")},
           {"manifest", path("part.gguf")},
           {"slice", path("part.gguf"), "-o", path("x")}}) {
    ProcessResult result = run(words);
    EXPECT_EQ(result.exit_code, 1) << words[0];
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("part.gguf: the file is a slice: some experts of a model"),
                      HasSubstr("hint:  name the file of the model itself")))
        << words[0];
  }
}

// One byte of one unit: the slice that would hold it is refused and the old file stays.
TEST_F(CliSlice, DamageIsFoundAndNamed) {
  synth("m.gguf");
  out({"manifest", path("m.gguf"), "-o", path("m")});
  const std::vector<std::string> check = {"manifest", path("m.gguf"), "--check", path("m")};
  EXPECT_THAT(out(check), MatchesRegex(".*: [0-9]+ hashes as in the manifest of model .*\n"));
  const std::string manifest = file_text(path("m"));
  size_t at = manifest.find("tensor blk.3.ffn_up_exps.weight");
  at = manifest.find(" 8-15 ", at);
  const std::string line = manifest.substr(at, manifest.find('\n', at) - at);
  uint64_t part = 0, offset = 0, bytes = 0;
  ASSERT_EQ(std::sscanf(line.c_str() + 6 + 64, "%lu %lu %lu", &part, &offset, &bytes), 3);
  const size_t size = std::filesystem::file_size(path("m.gguf"));
  damage("m.gguf", size - offset - bytes / 2);

  ProcessResult checked = run(check);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.err,
              AllOf(HasSubstr("m.gguf: 1 of "),
                    HasSubstr("tensor 'blk.3.ffn_up_exps.weight', experts 8-15: SHA-256 is")));
  write_file(path("part.gguf"), "old");
  std::vector<std::string> slice = {"slice",      path("m.gguf"), "--layers", "3",
                                    "--manifest", path("m"),      "-o",       path("part.gguf")};
  ProcessResult cut = run(slice);
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.err, HasSubstr("tensor 'blk.3.ffn_up_exps.weight', experts 8-15: SHA-256 is"));
  EXPECT_EQ(file_text(path("part.gguf")), "old");
  EXPECT_FALSE(std::filesystem::exists(path("part.gguf.partial")));
  slice.insert(slice.end(), {"--experts", "16-19"});
  EXPECT_THAT(out(slice), HasSubstr("4 experts in 1 unit"));
  // Without the manifest the changed file is another model, and what was remembered is not used.
  ProcessResult fresh = run({"manifest", path("m.gguf")});
  EXPECT_THAT(fresh.err, HasSubstr("hashed now"));
  EXPECT_NE(hash_of(fresh.out), hash_of(manifest));

  damage("part.gguf", 40);
  ProcessResult part_check = run({"manifest", path("part.gguf"), "--check", path("m")});
  EXPECT_EQ(part_check.exit_code, 1);
  EXPECT_THAT(part_check.err, HasSubstr("SHA-256 is"));
}

TEST_F(CliSlice, RefusesManifestsThatAreNotTheModels) {
  synth("m.gguf");
  synth("other.gguf", {"--layers", "3"});
  out({"manifest", path("other.gguf"), "-o", path("other")});
  out({"manifest", path("m.gguf"), "-o", path("m")});
  const auto says = [&](const std::string& manifest) {
    ProcessResult result =
        run({"slice", path("m.gguf"), "--manifest", manifest, "-o", path("x.gguf")});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_FALSE(std::filesystem::exists(path("x.gguf")));
    return result.err;
  };
  EXPECT_THAT(says(path("other")), HasSubstr("the manifest is of another model"));
  EXPECT_THAT(says(path("m.gguf")), HasSubstr("longer than 16777216 bytes"));
  write_file(path("text"), "GGUF\n");
  EXPECT_THAT(says(path("text")), HasSubstr("line 1: this is no manifest"));
  EXPECT_THAT(says(path("none")), HasSubstr("no such file"));
  std::string text = file_text(path("m"));
  const size_t hash = text.find("tensor ") + 100;
  text[text.find_first_of("0123456789", hash)] ^= 1;
  write_file(path("bad"), text);
  EXPECT_THAT(says(path("bad")), HasSubstr(path("bad") + ": "));
}

TEST_F(CliSlice, CallsAWrongCallAUsageError) {
  synth("m.gguf");
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  const Case cases[] = {
      {{"slice", path("m.gguf")}, "--output"},
      {{"slice", path("m.gguf"), "-o", "-"}, "a slice needs a file"},
      {{"slice", path("m.gguf"), "-o", path("m.gguf")}, "is an input too"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--experts", "3-9"},
       "the whole ones around these are 0-15"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--experts", "24-31"}, "experts 0-19"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--experts", "9-0"}, "ends before it begins"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--experts", "0-5000"}, "'5000' is not a whole"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--layers", "4"}, "layer 4: the model has no"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--layers", "2,1"}, "numbers must ascend"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--layers", "1-"}, "'' is not a whole number"},
      {{"slice", path("m.gguf"), "-o", path("x"), "--layers", "-1"}, "'' is not a whole number"},
      {{"manifest"}, "MODEL"},
      {{"manifest", path("m.gguf"), "-o", path("m.gguf")}, "is an input too"},
      {{"manifest", path("m.gguf"), "-o", path("x"), "--check", path("y")}, "excludes"},
      {{"manifest", path("m.gguf"), "--threads", "0"}, "--threads"},
  };
  for (const Case& wrong : cases) {
    ProcessResult result = run(wrong.words);
    EXPECT_EQ(result.exit_code, 2) << wrong.says;
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(wrong.says)));
    EXPECT_EQ(result.out, "");
    EXPECT_FALSE(std::filesystem::exists(path("x")));
  }
}

// A sparse file of 60 GiB and more takes far longer to hash than the signal to arrive.
TEST_F(CliSlice, StopsHashingWhenInterrupted) {
  out({"synth", "--like", "qwen3.5-122b-a10b", "--skeleton", "-o", path("big.gguf")});
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"manifest", path("big.gguf"), "-o", path("x")},
           {"slice", path("big.gguf"), "--layers", "0", "-o", path("x")}}) {
    Process process(command(words), with_model(options_));
    ASSERT_TRUE(process.wait_for_handler(SIGINT));
    process.signal(SIGINT);
    EXPECT_EQ(process.finish().exit_code, 130);
    EXPECT_FALSE(std::filesystem::exists(path("x")));
    EXPECT_FALSE(std::filesystem::exists(path("cache")));
  }
}

}  // namespace
}  // namespace kvasir::testing
