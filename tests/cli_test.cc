// End to end: how the executable is called, and what it says about wrong calls, bad files and
// outputs that cannot be written.
#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kVerbs[] = {"generate", "chat",    "perplexity", "tokenize",
                                  "logits",   "inspect", "synth",      "bench",
                                  "manifest", "slice",   "serve"};

TEST_F(Cli, ExplainsEveryCommandWithAnExample) {
  const std::string help = output_of({"help"});
  EXPECT_EQ(help, output_of({"--help"}));
  for (const char* verb : kVerbs) {
    EXPECT_THAT(help, HasSubstr(verb));
    const std::string page = output_of({verb, "--help"});
    EXPECT_THAT(page, HasSubstr(std::string("Example:\n  kvasir ") + verb));
    EXPECT_EQ(page, output_of({"help", verb}));
  }
}

TEST_F(Cli, PrintsHelpOnStandardErrorWithoutACommand) {
  ProcessResult result = kvasir_run({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("generate"));
}

TEST_F(Cli, SaysItsVersionsAndKernels) {
  EXPECT_THAT(output_of({"--version"}),
              AllOf(StartsWith("kvasir " KVASIR_VERSION "\n"), HasSubstr("arithmetic version 1\n"),
                    HasSubstr("kernels: scalar")));
}

// Every one of these is a mistake in the call: exit code 2, and two lines that say what to do.
TEST_F(Cli, CallsAWrongCallAUsageError) {
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  const Case cases[] = {
      {{"genrate"}, "genrate"},
      {{"generate", "--no-such-flag"}, "there is no flag '--no-such-flag'"},
      {{"generate", "--promt", "x"}, "there is no flag '--promt'"},
      {{"-p", "x"}, "there is no flag '-p'"},
      {{"generate", "extra", "-n", "1"}, "'extra' is an argument too many"},
      {{"generate", "-p"}, "-p"},
      {{"generate", "-p", ""}, "prompt is empty"},
      {{"generate", "-p", "x", "-n", "-1"}, "'-1' is not a whole number"},
      {{"generate", "-p", "x", "-n", ""}, "'' is not a whole number"},
      {{"generate", "-p", "x", "-n", "1e3"}, "'1e3'"},
      {{"generate", "-p", "x", "-n", "99999999999999999999"}, "whole number"},
      {{"generate", "-p", "x", "-f", "y"}, "excludes"},
      {{"generate", "-p", "x", "-p", "y"}, "--prompt was given twice"},
      {{"generate", "--seed", "1", "--seed", "2"}, "--seed was given twice"},
      {{"generate", "-f", ""}, "file name is empty"},
      {{"generate", "-p", "x", "--logit-bias", "4096:1"}, "token 4096 is not in the vocabulary of"},
      {{"perplexity", "-p", "A fox ran", "--ctx", "1"}, "--ctx 1"},
      {{"synth", "-o", "-"}, "a model needs a file"},
      {{"tokenize", "-p", "x", "y"}, "excludes"},
      {{"generate", "-p", "x", "--threads", "0"}, "'0' is not a whole number from 1"},
      {{"generate", "-p", "x", "--ctx", "0"}, "--ctx"},
      {{"generate", "-p", "x", "--chunk", "0"}, "--chunk"},
      {{"generate", "-p", "x", "--seed", "-5"}, "--seed"},
      {{"generate", "-p", "x", "--temperature", "nan"}, "'nan' is not a number"},
      {{"generate", "-p", "x", "--temperature", "1e308"}, "'1e308' is not a number"},
      {{"generate", "-p", "x", "--temperature", "-0.1"}, "--temperature"},
      {{"generate", "-p", "x", "--temperature", ""}, "--temperature"},
      {{"generate", "-p", "x", "--top-p", "1.5"}, "'1.5' is not a number from 0 to 1"},
      {{"generate", "-p", "x", "--min-p", "inf"}, "--min-p"},
      {{"generate", "-p", "x", "--top-k", "-3"}, "--top-k"},
      {{"generate", "-p", "x", "--repetition-penalty", "0"}, "--repetition-penalty"},
      {{"generate", "-p", "x", "--logit-bias", "5"}, "ID:BIAS"},
      {{"generate", "-p", "x", "--stop", ""}, "--stop"},
      {{"generate", "-p", "x", "--kv-type", "f8"}, "f16|f32"},
      {{"generate", "-p", "x", "--output-encoding", "f8"}, "f32|f16|q8"},
      {{"generate", "-p", "x", "--logits-hash=some"}, "sampled|all"},
      {{"generate", "-p", "x", "-m", ""}, "file name is empty"},
      {{"logits", "-o", "x"}, "--ids"},
      {{"inspect"}, "FILE"},
      {{"synth", "--layers", "2"}, "--output"},
      {{"synth", "-o", "x", "--like", "gpt-2"}, "qwen3.5-122b-a10b"},
      {{"synth", "-o", "x", "--like", "qwen3-30b-a3b", "--arch", "qwen3moe"}, "--arch"},
      {{"synth", "-o", "x", "--type", "q9_9"}, "q9_9"},
      {{"synth", "-o", "x", "--type", "iq1_s"}, "iq1_s"},
      {{"synth", "-o", "x", "--experts", "2", "--experts-used", "3"}, "3 active experts of 2"},
  };
  for (const Case& wrong : cases) {
    ProcessResult result = kvasir_run(wrong.words);
    const std::string call = ::testing::PrintToString(wrong.words);
    EXPECT_EQ(result.exit_code, 2) << call;
    EXPECT_EQ(result.out, "") << call;
    EXPECT_THAT(result.err,
                AllOf(StartsWith("error: "), HasSubstr("\nhint:  "), HasSubstr(wrong.says)))
        << call;
  }
}

TEST_F(Cli, RefusesAnInstructionSetThatIsNotThere) {
  for (const char* verb : {"generate", "inspect", "tokenize"}) {
    ProcessResult result = kvasir_run({verb, verb == std::string("inspect") ? kBundled : "-p", "x"},
                                      with_isa("bogus"));
    EXPECT_EQ(result.exit_code, 2) << verb;
  }
  ProcessResult result = kvasir_run({"generate", "-p", "x"}, with_isa("bogus"));
  EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr("bogus"), HasSubstr("scalar")));
}

TEST_F(Cli, FailsWhenItsOutputCannotBeWritten) {
  ProcessOptions full;
  full.stdout_path = "/dev/full";
  write_file(path("ids"), "1,2,3");
  const std::vector<std::string> calls[] = {{"generate", "-p", "A fox", "-n", "3"},
                                            {"tokenize", "-p", "A fox"},
                                            {"inspect", kBundled},
                                            {"inspect", "--json", kBundled},
                                            {"--version"},
                                            {"generate", "--help"},
                                            {"perplexity", "-p", "A fox ran"},
                                            {"logits", "--ids", path("ids"), "-o", "-"}};
  for (const auto& call : calls) {
    ProcessResult result = kvasir_run(call, full);
    EXPECT_EQ(result.exit_code, 1) << call.front();
    EXPECT_THAT(result.err, HasSubstr("standard output: cannot write: No space left"))
        << call.front();
  }
  for (const char* place : {"/dev/full", "/nowhere/out"}) {
    ProcessResult result = kvasir_run({"logits", "--ids", path("ids"), "-o", place});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(std::string(place) + ": cannot "));
    EXPECT_EQ(kvasir_run({"synth", "-o", place}).exit_code, 1);
  }
}

TEST_F(Cli, EndsQuietlyWhenItsReaderHasGone) {
  Process process(command({"generate", "-p", "Once upon a time", "-n", "400", "--ctx", "512"}),
                  with_model());
  ASSERT_TRUE(process.wait_for([&] { return process.out().size() > 10; }));
  process.close_output();
  ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
}

TEST_F(Cli, RefusesModelFilesThatAreNone) {
  const std::string model = file_text(kBundled);
  write_file(path("half.gguf"), model.substr(0, model.size() / 2));
  write_file(path("header.gguf"), model.substr(0, 1000));
  write_file(path("text.gguf"), "not a model");
  write_file(path("empty.gguf"), "");
  for (const char* name : {"half.gguf", "header.gguf", "text.gguf", "empty.gguf", "nowhere.gguf"}) {
    ProcessResult result = kvasir_run({"generate", "-m", path(name), "-p", "x"});
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(StartsWith("error: "), HasSubstr(name)));
    EXPECT_EQ(kvasir_run({"inspect", path(name)}).exit_code, 1) << name;
  }
  EXPECT_EQ(kvasir_run({"inspect", path("")}).exit_code, 1);
}

// A name, of a file or in one, must not look like a line of ours.
TEST_F(Cli, KeepsNamesOnTheirLine) {
  const std::string name = path("a\nerror: b");
  EXPECT_THAT(kvasir_run({"inspect", name}).err, EndsWith("a\\nerror: b: no such file\n"));
  EXPECT_THAT(output_of({"synth", "--layers", "1", "-o", name}), Not(HasSubstr("\nerror")));
  std::string bytes = file_text(name);
  const size_t title = bytes.find("synthetic");
  ASSERT_NE(title, std::string::npos);
  write_file(path("title"), bytes.replace(title, 9, "a\nlayers "));
  EXPECT_THAT(output_of({"inspect", path("title")}), HasSubstr("a\\nlayers "));
}

// The bundled model is found from where the program is: ../share/kvasir/models or ../models.
TEST_F(Cli, FindsTheBundledModelBesideItself) {
  ProcessOptions options;
  options.environment["KVASIR_MODEL"] = "";
  std::filesystem::create_directories(path("bin"));
  std::filesystem::copy_file(KVASIR_EXECUTABLE, path("bin/kvasir"));
  const std::vector<std::string> call = {path("bin/kvasir"), "generate", "-p", "A fox", "-n", "2"};
  ProcessResult result = run_process(call, options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("no model was named"), HasSubstr("hint:  name one with -m")));
  for (const char* place : {"models", "share/kvasir/models"}) {
    std::filesystem::create_directories(path(place));
    std::filesystem::create_symlink(kBundled,
                                    path(place + std::string("/kvasir-tales-q4_k_m.gguf")));
    result = run_process(call, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, output_of({"generate", "-p", "A fox", "-n", "2"}));
    std::filesystem::remove_all(path(place));
  }
}

}  // namespace
}  // namespace kvasir::testing
