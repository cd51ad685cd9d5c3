// What a run needs, against what it then takes; and what the machine has left, from made-up /proc
// and /sys folders.
#include "engine/memory_fit.h"

#include <filesystem>
#include <fstream>

#include "engine/attention.h"
#include "engine/workspace.h"
#include "model/test_model.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;
using testing::HasSubstr;

TEST(MemoryNeed, CountsWholePagesAndAllSequences) {
  const auto bound = model::ModelPieces(model::tiny_plan()).bind();
  ASSERT_TRUE(bound);
  const model::HyperParameters& hp = bound->hp;
  EngineOptions options;
  const MemoryNeed one = memory_need(*bound, options, 1, 256);
  EXPECT_EQ(one.kv_cache, 256 * hp.kv_bytes_per_token(2));
  EXPECT_EQ(one.recurrent, hp.state_bytes_per_sequence());
  EXPECT_EQ(one.weights, bound->file->tensor_bytes());
  const MemoryNeed three = memory_need(*bound, options, 3, 257);
  EXPECT_EQ(three.kv_cache, 3 * 512 * hp.kv_bytes_per_token(2));
  EXPECT_EQ(three.recurrent, 3 * one.recurrent);
  options.kv_type = KvType::kF32;
  EXPECT_EQ(memory_need(*bound, options, 1, 256).kv_cache, 2 * one.kv_cache);
  EXPECT_EQ(one.private_bytes(), one.kv_cache + one.recurrent + one.scratch);
}

TEST(MemoryNeed, CountsTheWorkspaceToTheByte) {
  for (auto architecture : {model::Architecture::kQwen35Moe, model::Architecture::kQwen3Moe}) {
    model::SynthesisPlan plan = model::small_plan(architecture);
    plan.mix = model::TypeMix::kQ4KM;
    const auto bound = model::ModelPieces(plan).bind();
    ASSERT_TRUE(bound);
    EngineOptions options;
    options.rows_max = 37;
    ThreadPool pool(1);
    const Workspace workspace(*bound, kernels::scalar(), pool, options);
    const auto layers = local_experts(*bound);
    const size_t experts = expert::ExpertFunction::scratch_bytes(layers.front().first, 37,
                                                                 37 * bound->hp.n_experts_used);
    const uint64_t logits = bound->hp.n_vocab * sizeof(float);
    const uint64_t attention = attention_scratch_bytes(bound->hp, default_thread_count(), 37, 500);
    EXPECT_GE(memory_need(*bound, options, 1, 500).scratch,
              workspace.allocated_bytes() + attention + experts + logits);
    // Layers of different types may need a little more than the first one.
    EXPECT_LE(memory_need(*bound, options, 1, 500).scratch,
              workspace.allocated_bytes() + attention + experts * 3 / 2 + logits);
  }
}

// 122B-A10B at its full context, from the header alone: caches as in the published sizes, and work
// space that a small server has.
TEST(MemoryNeed, IsSmallBesidesTheCachesOfALargeModel) {
  const model::ScratchFile scratch;
  ASSERT_TRUE(
      model::write_skeleton(model::plan_like("qwen3.5-122b-a10b", 0).value(), scratch.path()));
  const auto bound = model::bind_model(model::open_file(scratch.path()), model::any_type);
  ASSERT_TRUE(bound) << bound.error().message;
  const MemoryNeed need = memory_need(*bound, {}, 1, 262'144);
  EXPECT_EQ(need.kv_cache, uint64_t{262'144} * 24'576);
  EXPECT_EQ(need.recurrent, 156'303'360U);
  EXPECT_LT(need.scratch, 300'000'000U);
  EXPECT_GT(need.scratch, 50'000'000U);
}

TEST(CheckFit, AcceptsWhatFitsExactly) {
  const MemoryNeed need{
      .weights = 1'000'000'000, .kv_cache = 1000, .recurrent = 100, .scratch = 10};
  EXPECT_TRUE(check_fit(need, 1110, 256));
  EXPECT_FALSE(check_fit(need, 1109, 256));
}

TEST(CheckFit, SaysBothNumbersAndAContextThatFits) {
  const MemoryNeed need{.weights = 0, .kv_cache = 10'240'000, .recurrent = 5000, .scratch = 1000};
  auto result = check_fit(need, 3'006'000, 2560);  // pages of 1,024,000 bytes
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(result.error().message, HasSubstr("needs 10,246,000 bytes"));
  EXPECT_THAT(result.error().message, HasSubstr("have 3,006,000 bytes"));
  EXPECT_THAT(result.error().message, HasSubstr("context of 2560 tokens"));
  EXPECT_THAT(result.error().hint, HasSubstr("--ctx 512 or less"));
  EXPECT_THAT(check_fit(need, 6000, 2560).error().hint, HasSubstr("free some memory"));
  EXPECT_THAT(check_fit(need, 0, 2560).error().message, HasSubstr("have 0 bytes"));
}

// Nothing to do where everything fits; else what the rest leaves, and nothing if that is too
// little.
TEST(AutomaticStore, TakesWhatTheRestLeaves) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const MemoryNeed need{
      .weights = 1000 * kMiB, .kv_cache = 10 * kMiB, .recurrent = 5 * kMiB, .scratch = 5 * kMiB};
  const uint64_t dense = 100 * kMiB, least = 50 * kMiB;
  EXPECT_EQ(automatic_store_bytes(need, dense, least, 1100 * kMiB), std::nullopt);
  // 640 MiB, less 20 of the run, 100 of dense weights and 24 + 640 / 32 of margin.
  EXPECT_EQ(automatic_store_bytes(need, dense, least, 640 * kMiB), 476 * kMiB);
  EXPECT_EQ(automatic_store_bytes(need, dense, 476 * kMiB, 640 * kMiB), 476 * kMiB);
  EXPECT_EQ(automatic_store_bytes(need, dense, 476 * kMiB + 1, 640 * kMiB), std::nullopt);
  EXPECT_EQ(automatic_store_bytes(need, dense, least, 128 * kMiB), std::nullopt);
  EXPECT_EQ(automatic_store_bytes(need, dense, least, 0), std::nullopt);
}

TEST(CheckFit, CountsTheStore) {
  const MemoryNeed need{
      .weights = 0, .kv_cache = 1000, .recurrent = 100, .scratch = 10, .experts = 5000};
  EXPECT_TRUE(check_fit(need, 6110, 256));
  const auto refused = check_fit(need, 6109, 256);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("experts 5,000 bytes"));
  EXPECT_THAT(refused.error().hint, HasSubstr("--expert-ram"));
}

// A folder that stands for the root of the file system.
class FakeRoot {
 public:
  FakeRoot() {
    static int count = 0;
    root_ = std::filesystem::temp_directory_path() /
            fmt::format("kvasir-root-{}-{}", ::getpid(), ++count);
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  FakeRoot& with(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  uint64_t available() const { return available_memory(root_.string()); }

 private:
  std::filesystem::path root_;
};

constexpr const char* kMemInfo =
    "MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:   3000 kB\n";

TEST(AvailableMemory, IsWhatTheMachineHasWithoutCgroups) {
  FakeRoot root;
  EXPECT_EQ(root.available(), UINT64_MAX);
  EXPECT_EQ(root.with("/proc/meminfo", kMemInfo).available(), 3000U * 1024);
}

// File pages that the group would drop first are not in the way.
TEST(AvailableMemory, IsWhatACgroupOfVersion2Leaves) {
  FakeRoot root;
  root.with("/proc/meminfo", kMemInfo)
      .with("/proc/self/cgroup", "0::/user.slice/app\n")
      .with("/sys/fs/cgroup/user.slice/app/memory.max", "1000000\n")
      .with("/sys/fs/cgroup/user.slice/app/memory.current", "400000\n");
  EXPECT_EQ(root.available(), 600'000U);
  root.with("/sys/fs/cgroup/user.slice/app/memory.stat",
            "anon 1\ninactive_file_x 7\ninactive_file 300000\n");
  EXPECT_EQ(root.available(), 900'000U);
  root.with("/sys/fs/cgroup/user.slice/memory.max", "900000\n")
      .with("/sys/fs/cgroup/user.slice/memory.current", "800000\n");
  EXPECT_EQ(root.available(), 100'000U);
  root.with("/sys/fs/cgroup/user.slice/memory.max", "max\n")
      .with("/sys/fs/cgroup/user.slice/app/memory.max", "max\n");
  EXPECT_EQ(root.available(), 3000U * 1024);
  root.with("/sys/fs/cgroup/user.slice/app/memory.max", "1000\n");
  EXPECT_EQ(root.available(), 0U);
}

// A container sees its own group at the top, under the path that the host knows.
TEST(AvailableMemory, IsWhatACgroupOfVersion1Leaves) {
  FakeRoot root;
  root.with("/proc/meminfo", kMemInfo)
      .with("/proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/docker/abc\n0::/\n")
      .with("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n")
      .with("/sys/fs/cgroup/memory/memory.usage_in_bytes", "200000\n")
      .with("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 50000\n");
  EXPECT_EQ(root.available(), 350'000U);
}

TEST(AvailableMemory, TakesBrokenFilesForAbsentOnes) {
  FakeRoot root;
  root.with("/proc/meminfo", "MemAvailable:\nMemAvailable: kB\n")
      .with("/proc/self/cgroup", "\n::\n0\n0:\n0::relative\n1:memory:\n")
      .with("/sys/fs/cgroup/memory.max", "many\n");
  EXPECT_EQ(root.available(), UINT64_MAX);
}

TEST(AvailableMemory, IsKnownOnThisMachine) {
  EXPECT_GT(available_memory(), 1'000'000U);
  EXPECT_LT(available_memory(), UINT64_MAX);
}

}  // namespace
}  // namespace kvasir::engine
