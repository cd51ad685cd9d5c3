// End to end: models whose experts are read into a store while they are needed.
#include <unistd.h>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string hash_in(const std::string& out) {
  const size_t at = out.find("logits-hash: ");
  return at == std::string::npos ? "none in: " + out : out.substr(at + 13);
}

const std::vector<std::string> kGenerate = {
    "generate", "-n", "24", "-p", "Once upon a time there was a king", "--logits-hash=all"};

std::vector<std::string> generate_with(std::vector<std::string> flags) {
  flags.insert(flags.begin(), kGenerate.begin(), kGenerate.end());
  return flags;
}

// Budgets from the least to more than all experts, both ways of reading, prompts in one go and in
// pieces, gate and up apart and fused.
TEST_F(Cli, HashesTheSameLogitsFromAStoreOfAnySize) {
  ASSERT_EQ(kvasir_run({"synth", "--fused-gate-up", "--type", "q4_k_m", "--embd", "256", "--width",
                        "256", "-o", path("fused.gguf")})
                .exit_code,
            0);
  for (const std::string& model : {kBundled, path("fused.gguf")}) {
    const std::string hash =
        hash_in(output_of(generate_with({"-m", model, "--expert-ram", "mapped"})));
    const ProcessResult refused = kvasir_run(generate_with({"-m", model, "--expert-ram", "1K"}));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("--expert-ram: 1.0 KiB hold 0 experts"),
                                   ContainsRegex("the least is [0-9.]+ [KM]iB")));
    for (const char* size : {"600K", "2M", "8M", "1G"}) {
      for (const char* chunk : {"1", "128"}) {
        const auto words =
            generate_with({"-m", model, "--expert-ram", size, "--chunk", chunk, "--threads", "2"});
        EXPECT_EQ(hash, hash_in(output_of(words))) << model << " " << size << " " << chunk;
        ProcessOptions threads;
        threads.environment["KVASIR_READER"] = "threads";
        EXPECT_EQ(hash, hash_in(output_of(words, threads))) << model << " " << size;
      }
    }
  }
}

TEST_F(Cli, TellsWhatTheStoreDid) {
  const ProcessResult result = kvasir_run(generate_with({"--expert-ram", "4M", "--stats"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              AllOf(ContainsRegex("experts: +[0-9]+ slots of 1[0-9.]+ KiB, [0-9]+ in use"),
                    ContainsRegex("[0-9.]+ % found in memory \\([0-9]+ of [0-9]+\\)"),
                    ContainsRegex("MiB read by .* in [0-9.]+ s"), HasSubstr("0 failed")));
  EXPECT_THAT(kvasir_run(generate_with({"--stats"})).err, Not(HasSubstr("slots of")));
}

TEST_F(Cli, RefusesSizesThatAreNone) {
  for (const char* size :
       {"", "0", "G", "4X", "-1", "99999999999999999999", "17179869184G", "4 G"}) {
    const ProcessResult result = kvasir_run(generate_with({"--expert-ram", size}));
    EXPECT_EQ(result.exit_code, 2) << size;
    EXPECT_THAT(result.err, HasSubstr("is not a size such as 512M or 4G, nor auto or mapped"));
  }
  const ProcessResult result = kvasir_run(generate_with({"--expert-ram", "auto"}));
  EXPECT_EQ(result.exit_code, 0);
}

// The model's file loses its end, where the experts of the last layer are: the answer fails, with
// file and offset.
TEST_F(Cli, NamesFileAndOffsetOfAReadThatFailed) {
  ASSERT_EQ(kvasir_run({"synth", "--type", "q4_k", "--embd", "256", "--width", "256", "--layers",
                        "1", "--arch", "qwen3moe", "--experts", "200", "--experts-used", "1", "-o",
                        path("model.gguf")})
                .exit_code,
            0);
  Process chat(command({"chat", "-m", path("model.gguf"), "--expert-ram", "1M", "-n", "1"}),
               with_model());
  chat.write("Hello\n");
  ASSERT_TRUE(chat.wait_for([&] { return chat.err().find("cut off after") != std::string::npos; }));
  const uint64_t size = std::filesystem::file_size(path("model.gguf"));
  std::filesystem::resize_file(path("model.gguf"), size - size / 8);
  for (int i = 0; i < 20; ++i)
    chat.write("And then? Tell me what became of number " + std::to_string(i) + "\n");
  const ProcessResult result = chat.finish();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(ContainsRegex("error: blk.0, expert [0-9]+: .*model.gguf: cannot read"),
                    ContainsRegex("at offset [0-9]+"), HasSubstr("the file ends at")));
}

// A memory cgroup of its own, where the system lets us make one.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t bytes) {
    const bool is_v1 = std::filesystem::exists("/sys/fs/cgroup/memory");
    folder_ = fmt::format("/sys/fs/cgroup/{}kvasir-test-{}", is_v1 ? "memory/" : "", ::getpid());
    std::error_code error;
    std::filesystem::create_directory(folder_, error);
    const std::string limit = folder_ + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max");
    if (error || !std::filesystem::exists(limit)) return;
    std::ofstream file(limit);
    file << bytes << std::flush;
    is_there_ = file.good();
    peak_ = folder_ + (is_v1 ? "/memory.max_usage_in_bytes" : "/memory.peak");
  }
  ~MemoryGroup() { ::rmdir(folder_.c_str()); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_there() const { return is_there_; }
  uint64_t peak() const {
    uint64_t bytes = 0;
    std::ifstream(peak_) >> bytes;
    return bytes;
  }
  ProcessResult run(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"/bin/sh", "-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"",
                                    folder_};
    const auto inner = command(words);
    all.insert(all.end(), inner.begin(), inner.end());
    return run_process(all, with_model());
  }

 private:
  std::string folder_, peak_;
  bool is_there_ = false;
};

// 270 MB of weights in 150 MB of memory, page cache included: it takes the store by itself.
TEST_F(Cli, RunsAModelTwiceAsLargeAsItsMemory) {
  ASSERT_EQ(kvasir_run({"synth", "--type", "q4_k_m", "--embd", "1024", "--width", "1024",
                        "--experts", "32", "-o", path("large.gguf")})
                .exit_code,
            0);
  const uint64_t limit = uint64_t{150} << 20;
  ASSERT_GT(std::filesystem::file_size(path("large.gguf")), limit * 3 / 2);
  const MemoryGroup group(limit);
  if (!group.is_there()) GTEST_SKIP() << "memory cgroups cannot be set up here";
  const auto words = generate_with({"-m", path("large.gguf"), "--stats"});
  const std::string hash = hash_in(output_of(words));
  const ProcessResult result = group.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(hash_in(result.out), hash);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("note:  the weights are"), ContainsRegex("[0-9]+ slots of")));
  EXPECT_LE(group.peak(), limit);
  EXPECT_GT(group.peak(), limit / 2);
}

}  // namespace
}  // namespace kvasir::testing
