// End to end: kvasir chaos, whose processes are real ones. Few tokens; `kvasir chaos` by hand is
// for more (docs/chaos.md).
#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using nlohmann::json;

class CliChaos : public Cli {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(path("tmp"));
    // Temporary files of the runs alone, so that what is left of them can be seen.
    options_.environment["TMPDIR"] = path("tmp");
    options_.environment["XDG_CACHE_HOME"] = path("cache");
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp"))) << "something was left there";
    EXPECT_THAT(processes_of(path("tmp")), IsEmpty());
  }

  std::vector<std::string> words(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"chaos", "--json"});
    return flags;
  }
  ProcessResult run(std::vector<std::string> flags) {
    return kvasir_run(words(std::move(flags)), options_);
  }
  json certificate(std::vector<std::string> flags, int exit_code = 0) {
    const ProcessResult result = run(std::move(flags));
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return json::parse(result.out, nullptr, false);
  }

  // Command lines of running processes that name a path. Zombies have none.
  static std::vector<std::string> processes_of(const std::string& part) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string line = file_text(entry.path().string() + "/cmdline");
      if (line.find(part) != std::string::npos) found.push_back(line);
    }
    return found;
  }

  ProcessOptions options_;
};

TEST_F(CliChaos, TheTextStaysTheSameUnderEveryFault) {
  const json all = certificate(
      {"--workers", "4",      "--tokens", "40",           "--kill", "10",          "--stall",
       "10",        "--cut",  "10",       "--garbage",    "10",     "--corrupt",   "0.05",
       "--reorder", "--seed", "1",        "--min-faults", "3",      "--min-share", "0.05"});
  EXPECT_EQ(all["objections"], json::array());
  EXPECT_EQ(all["tokens"], 40);
  EXPECT_EQ(all["faults"]["kills"], 4);
  EXPECT_EQ(all["faults"]["stalls"], 4);
  EXPECT_EQ(all["logits_hash_alone"], all["logits_hash_swarm"]);
  EXPECT_EQ(all["logits_hash_alone"].get<std::string>().size(), 64U);
  EXPECT_GT(all["swarm"]["tickets"]["issued"], 0);
}

TEST_F(CliChaos, LiesAreFoundAndChangeNothing) {
  const json all = certificate({"--workers", "3", "--tokens", "30", "--lie", "0.2", "--verify",
                                "all", "--encoding", "f16", "--seed", "2", "--min-share", "0.05"});
  EXPECT_EQ(all["objections"], json::array());
  EXPECT_GT(all["swarm"]["wrong_answers"], 0);
}

// A quiet run asked for many faults: the answer is right, and still nothing was shown.
TEST_F(CliChaos, TooFewFaultsAreAFailure) {
  const ProcessResult result =
      kvasir_run({"chaos", "--workers", "2", "--tokens", "10", "--kill", "10"}, options_);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("not enough faults: 1 kills, at least 20 wanted"));
}

TEST_F(CliChaos, GarbageIsDropped) {
  const json all =
      certificate({"--workers", "2", "--tokens", "30", "--garbage", "100", "--pace", "30"});
  EXPECT_EQ(all["objections"], json::array());
  EXPECT_GE(all["faults"]["garbage"], 25);
}

// Ctrl-C while workers run: the program ends by itself, and nothing is left (TearDown).
TEST_F(CliChaos, CtrlCEndsEverything) {
  Process process(command(words({"--workers", "2", "--tokens", "60", "--pace", "1"})),
                  with_model(options_));
  ASSERT_TRUE(process.wait_for([&] { return process.err().find("takes") != std::string::npos; }))
      << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.finish().exit_code, 130);
}

// Children end with their parent even if that has no time to end them.
TEST_F(CliChaos, KilledItLeavesNoProcess) {
  {
    Process process(command(words({"--workers", "2", "--tokens", "60", "--pace", "1"})),
                    with_model(options_));
    ASSERT_TRUE(process.wait_for([&] { return process.err().find("takes") != std::string::npos; }))
        << process.err();
    process.signal(SIGKILL);
    process.finish();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!processes_of(path("tmp")).empty() && std::chrono::steady_clock::now() < deadline)
    ::poll(nullptr, 0, 5);
  EXPECT_THAT(processes_of(path("tmp")), IsEmpty());
  std::filesystem::remove_all(path("tmp"));  // nobody was left to do it
  std::filesystem::create_directory(path("tmp"));
}

TEST_F(CliChaos, WrongUseIsRefused) {
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--workers", "2", "--replicas", "3"}, {"--corrupt", "1.5"}, {"--verify", "maybe"}}) {
    EXPECT_EQ(run(flags).exit_code, 2) << flags.back();
  }
}

// What makes a worker misbehave is a variable of its own environment, and a misspelt one is no
// honest worker.
TEST_F(CliChaos, AWorkerSaysThatItMisbehaves) {
  ProcessOptions options;
  options.environment["KVASIR_CHAOS"] = "lie=2";
  const std::vector<std::string> worker = {"worker",           "--once",      "--connect",
                                           "ws://127.0.0.1:1", "--ephemeral", "--slice",
                                           path("part.gguf")};
  output_of({"slice", kBundled, "--experts", "0-7", "-o", path("part.gguf")}, options_);
  ProcessResult result = kvasir_run(worker, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("'lie=2' is none of"));
  options.environment["KVASIR_CHAOS"] = "reorder,lie=0.5,seed=3";
  result = kvasir_run(worker, options);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("this worker misbehaves on purpose"));
}

}  // namespace
}  // namespace kvasir::testing
