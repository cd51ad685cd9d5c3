// Real workers: processes, sockets, and the engine of this process as their backbone. However many
// there are, whatever they hold and whatever instructions they compute with, the logits of a fixed
// prompt are the monolith's to the last bit, and what is covered is computed by workers.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "base/sha256.h"
#include "base/test_data.h"
#include "base/test_folder.h"
#include "engine/test_engine.h"
#include "expert/fingerprint.h"
#include "kernels/kernels.h"
#include "model/model_manifest.h"
#include "process.h"
#include "swarm/swarm_expert_service.h"
#include "swarm/swarm_listener.h"
#include "text/tokenizer.h"

namespace kvasir {
namespace {

using expert::OutputEncoding;
using swarm::SwarmStatus;
using testing::Process;

constexpr std::string_view kPrompt =
    "The Golden Bird\n\nA certain king had a beautiful garden, and in the garden stood a tree "
    "which bore golden apples. These apples were always counted.";
constexpr auto kJoinWithin = std::chrono::seconds(60);

std::string model_path() {
  return source_path("models/kvasir-tales-q4_k_m.gguf");
}

// What all tests share: the model, its manifest on the disk, the prompt.
struct Subject {
  Subject() : model(engine::TestEngine::open_model(model_path())) {
    ThreadPool pool(2);
    auto made = model::make_manifest(model, pool, nullptr);
    KVASIR_CHECK(made.has_value() && made->has_value());
    manifest.emplace(std::move(**made));
    manifest_path = folder.path("tales.manifest");
    std::ofstream(manifest_path, std::ios::binary) << manifest->text();
    const auto tokenizer = text::Tokenizer::load(model.file->metadata());
    KVASIR_CHECK(tokenizer.has_value());
    ids = tokenizer->encode(kPrompt, text::SpecialTokens::kParse);
  }
  const std::string& monolith(OutputEncoding encoding) {
    std::string& hash = monoliths[static_cast<size_t>(encoding)];
    if (hash.empty()) {
      engine::TestEngine engine(
          model_path(), {{kernels::KvType::kF16, encoding, 128}, *kernels::select_table(), 2});
      const std::vector<float> logits = engine.logits(ids, 16);
      hash = sha256_hex(std::as_bytes(std::span(logits)));
    }
    return hash;
  }

  TestFolder folder;
  model::Model model;
  std::optional<gguf::Manifest> manifest;
  std::string manifest_path;
  std::vector<int32_t> ids;
  std::array<std::string, 3> monoliths;
};

Subject& subject() {
  static Subject subject;
  return subject;
}

using Units = std::vector<gguf::UnitId>;

// "0:0-7,3:8-15"
std::string units_text(const Units& units) {
  std::string text;
  for (gguf::UnitId unit : units) {
    const gguf::ExpertRange experts = subject().manifest->experts(unit);
    text += fmt::format("{}{}:{}-{}", text.empty() ? "" : ",", unit.layer, experts.begin,
                        experts.end - 1);
  }
  return text;
}

struct WorkerSpec {
  Units units;
  std::string isa;                   // empty: the fastest
  std::vector<std::string> command;  // empty: this build's worker
};

class Swarm {
 public:
  explicit Swarm(OutputEncoding encoding = OutputEncoding::kF32)
      : options_{kernels::KvType::kF16, encoding, 128},
        identity_(crypto::Identity::generate()),
        local_(engine::local_experts(subject().model), kernels_, pool_),
        routes_(swarm::make_routes(engine::local_experts(subject().model),
                                   subject().manifest->shape().group_size)),
        dispatcher_(routes_, kernels_, dispatch_options(encoding)),
        experts_(routes_, dispatcher_, local_, kernels_, pool_),
        engine_(subject().model, kernels_, pool_, experts_, options_) {
    swarm::GateOptions gate;
    gate.fingerprint =
        wire::parse_hex(expert::compute_fingerprint({subject().manifest->model_hash(),
                                                     kernels::kArithmeticVersion, encoding,
                                                     kernels::KvType::kF16}))
            .value();
    gate.build = "kvasir test";
    auto listener =
        swarm::SwarmListener::listen("127.0.0.1", 0, identity_, dispatcher_, std::move(gate));
    KVASIR_CHECK(listener.has_value());
    listener_ = std::move(*listener);
  }

  void start(const WorkerSpec& spec) {
    std::vector<std::string> command = spec.command;
    if (command.empty()) command = {KVASIR_WORKER};
    for (const std::string& word : std::vector<std::string>{
             "--connect", fmt::format("ws://127.0.0.1:{}", listener_->port()), "--model",
             model_path(), "--manifest", subject().manifest_path, "--units", units_text(spec.units),
             "--threads", "1", "--ephemeral"})
      command.push_back(word);
    testing::ProcessOptions options;
    if (!spec.isa.empty()) options.environment["KVASIR_ISA"] = spec.isa;
    workers_.push_back(std::make_unique<Process>(command, options));
    units_ += spec.units.size();
  }

  SwarmStatus status() {
    return dispatcher_.with(
        [](const swarm::Dispatcher& dispatcher) { return dispatcher.status(swarm::now_us()); });
  }
  // Until all that workers were started with is there.
  void wait_for_workers() {
    const uint64_t expected = uint64_t{units_} * subject().manifest->shape().group_size;
    const auto until = std::chrono::steady_clock::now() + kJoinWithin;
    uint64_t experts = 0;
    while (experts != expected) {
      if (std::chrono::steady_clock::now() > until)
        FAIL() << experts << " of " << expected << " experts are there";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      experts = 0;
      for (const swarm::WorkerStatus& each : status().workers) experts += each.experts;
    }
  }

  // The hash of the prompt's logits for each of so many sequences, which advance together.
  std::vector<std::string> hashes(size_t n_sequences, size_t tokens_per_step) {
    const auto& ids = subject().ids;
    const size_t n_vocab = subject().model.hp.n_vocab;
    std::vector<std::unique_ptr<engine::Sequence>> sequences;
    std::vector<std::vector<float>> logits(n_sequences);
    for (size_t i = 0; i < n_sequences; ++i)
      sequences.push_back(std::move(*engine_.new_sequence(ids.size())));
    for (size_t begin = 0; begin < ids.size(); begin += tokens_per_step) {
      const size_t n = std::min(tokens_per_step, ids.size() - begin);
      std::vector<engine::Row> rows;
      for (const auto& sequence : sequences)
        for (size_t i = 0; i < n; ++i) rows.push_back({sequence.get(), ids[begin + i], true});
      std::vector<float> step(rows.size() * n_vocab);
      const auto failures = engine_.forward(rows, step);
      EXPECT_TRUE(failures && failures->empty());
      for (size_t i = 0; i < n_sequences; ++i)
        logits[i].insert(logits[i].end(), step.begin() + static_cast<ptrdiff_t>(i * n * n_vocab),
                         step.begin() + static_cast<ptrdiff_t>((i + 1) * n * n_vocab));
    }
    std::vector<std::string> all;
    for (const auto& each : logits) all.push_back(sha256_hex(std::as_bytes(std::span(each))));
    return all;
  }

  // The monolith's bits, and the share of what is covered that workers computed.
  void expect_right(size_t n_sequences, size_t tokens_per_step) {
    for (const std::string& hash : hashes(n_sequences, tokens_per_step))
      EXPECT_EQ(hash, subject().monolith(options_.encoding));
    const SwarmStatus now = status();
    uint64_t all = 0;
    for (uint64_t pairs : now.pairs) all += pairs;
    const uint64_t remote = now.pairs[0] + now.pairs[1];
    const uint64_t holes = now.pairs[static_cast<size_t>(swarm::Why::kHole)];
    EXPECT_GE(remote * 10, (all - holes) * 8) << fmt::format("{}", fmt::join(now.pairs, " "));
    EXPECT_EQ(now.quarantined, 0U);
    EXPECT_EQ(now.tickets.open, 0U);
    EXPECT_EQ(now.tickets.issued,
              now.tickets.results + now.tickets.local_fills + now.tickets.cancelled);
    share_of_holes_ = static_cast<double>(holes) / static_cast<double>(all);
  }
  double share_of_holes() const { return share_of_holes_; }
  size_t covered() {
    return dispatcher_.with(
        [](const swarm::Dispatcher& dispatcher) { return dispatcher.coverage().covered(); });
  }
  Process& worker(size_t index) { return *workers_[index]; }

 private:
  static swarm::DispatchOptions dispatch_options(OutputEncoding encoding) {
    swarm::DispatchOptions options;
    options.mode = swarm::DispatchMode::kAlways;
    options.encoding = encoding;
    options.secret = {1, 2};
    return options;
  }

  const engine::EngineOptions options_;
  const crypto::Identity identity_;
  const kernels::KernelTable& kernels_ = **kernels::select_table();
  ThreadPool pool_{1};
  expert::LocalExpertService local_;
  const swarm::ModelRoutes routes_;
  swarm::SharedDispatcher dispatcher_;
  swarm::SwarmExpertService experts_;
  engine::Engine engine_;
  std::unique_ptr<swarm::SwarmListener> listener_;
  std::vector<std::unique_ptr<Process>> workers_;
  size_t units_ = 0;
  double share_of_holes_ = 0;
};

// Unit u belongs to worker u mod n.
std::vector<Units> dealt(size_t n_workers) {
  std::vector<Units> hands(n_workers);
  size_t next = 0;
  for (gguf::UnitId unit : subject().manifest->units()) hands[next++ % n_workers].push_back(unit);
  return hands;
}

class WorkerCount : public ::testing::TestWithParam<size_t> {};

TEST_P(WorkerCount, GivesTheMonolithsBits) {
  Swarm swarm;
  for (const Units& units : dealt(GetParam())) swarm.start({units, "", {}});
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  EXPECT_EQ(swarm.covered(), 128U);
  swarm.expect_right(1, 1);
  swarm.expect_right(1, 16);
  swarm.expect_right(8, 1);
}

INSTANTIATE_TEST_SUITE_P(SwarmMatrix, WorkerCount, ::testing::Values(1, 3, 16));

// Each unit is held by each of five workers with a chance of 0.3: some by several, some by none.
class Assignment : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Assignment, WithOverlapsAndHolesGivesTheMonolithsBits) {
  std::mt19937_64 random(GetParam());
  Swarm swarm;
  std::set<std::pair<uint32_t, uint32_t>> covered;
  for (int worker = 0; worker < 5; ++worker) {
    Units units;
    for (gguf::UnitId unit : subject().manifest->units())
      if (random() % 10 < 3) units.push_back(unit);
    if (units.empty()) continue;
    for (gguf::UnitId unit : units) covered.emplace(unit.layer, unit.group);
    swarm.start({units, "", {}});
  }
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  EXPECT_EQ(swarm.covered(), covered.size() * 8);
  ASSERT_LT(covered.size(), 16U);
  swarm.expect_right(2, 4);
  // What nobody holds is computed here, and nothing else counts as a hole. Routers do not choose
  // evenly, so the shares agree only roughly.
  const double holes = 1 - static_cast<double>(covered.size()) / 16;
  EXPECT_GT(swarm.share_of_holes(), holes / 4);
  EXPECT_LT(swarm.share_of_holes(), holes * 4);
}

INSTANTIATE_TEST_SUITE_P(SwarmMatrix, Assignment, ::testing::Values(1, 2));

class Encoding : public ::testing::TestWithParam<OutputEncoding> {};

TEST_P(Encoding, GivesTheBitsOfTheMonolithInTheSameEncoding) {
  Swarm swarm(GetParam());
  for (const Units& units : dealt(2)) swarm.start({units, "", {}});
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  swarm.expect_right(1, 8);
}

INSTANTIATE_TEST_SUITE_P(SwarmMatrix, Encoding,
                         ::testing::Values(OutputEncoding::kF32, OutputEncoding::kF16,
                                           OutputEncoding::kQ8));

TEST(SwarmMatrix, EncodingsDifferFromEachOther) {
  EXPECT_NE(subject().monolith(OutputEncoding::kF32), subject().monolith(OutputEncoding::kF16));
  EXPECT_NE(subject().monolith(OutputEncoding::kF32), subject().monolith(OutputEncoding::kQ8));
}

// What KVASIR_ISA calls it: "avx512-vnni" is what avx512 is on this machine.
std::string isa_of(const kernels::KernelTable& table) {
  const std::string_view name = table.name;
  return std::string(name.substr(0, name.find('-')));
}

// One worker for every instruction set of this machine, each with a share of every layer.
TEST(SwarmMatrix, InstructionSetsMix) {
  std::vector<std::string> names;
  for (const kernels::KernelTable* table : kernels::available_tables())
    if (table != nullptr) names.push_back(isa_of(*table));
  Swarm swarm;
  const std::vector<Units> hands = dealt(names.size());
  for (size_t i = 0; i < names.size(); ++i) swarm.start({hands[i], names[i], {}});
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  EXPECT_EQ(swarm.covered(), 128U);
  swarm.expect_right(2, 4);
  for (const swarm::WorkerStatus& each : swarm.status().workers)
    EXPECT_GT(each.counts.rows_used, 0U);
}

// A worker for AArch64 beside one of this machine. KVASIR_ARM64_WORKER names it.
TEST(SwarmMatrix, ProcessorsMix) {
  const char* named = std::getenv("KVASIR_ARM64_WORKER");
  const std::string worker =
      named != nullptr ? named : source_path("build-worker-arm64/kvasir-worker");
  const std::string qemu = "/usr/bin/qemu-aarch64-static";
  if (!std::filesystem::exists(worker) || !std::filesystem::exists(qemu))
    GTEST_SKIP() << "no AArch64 worker to be found: build it (preset worker-arm64) or name it with "
                    "KVASIR_ARM64_WORKER; and install qemu-user-static";
  Swarm swarm;
  std::vector<Units> hands = dealt(8);  // an emulated processor takes its time: one unit in eight
  swarm.start({hands[0], "", {qemu, worker}});
  for (size_t i = 1; i < hands.size(); ++i)
    if (i > 1) hands[1].insert(hands[1].end(), hands[i].begin(), hands[i].end());
  swarm.start({hands[1], "", {}});
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  swarm.expect_right(1, 8);
  for (const swarm::WorkerStatus& each : swarm.status().workers) EXPECT_GT(each.counts.answers, 0U);
}

// A worker that is killed between two tokens is replaced by this machine, one that is told to stop
// finishes and says goodbye.
TEST(SwarmMatrix, WorkersMayGo) {
  Swarm swarm;
  for (const Units& units : dealt(3)) swarm.start({units, "", {}});
  ASSERT_NO_FATAL_FAILURE(swarm.wait_for_workers());
  swarm.worker(0).signal(SIGKILL);
  EXPECT_EQ(swarm.hashes(1, 4)[0], subject().monolith(OutputEncoding::kF32));
  swarm.worker(1).signal(SIGTERM);
  EXPECT_EQ(swarm.worker(1).finish().exit_code, 0);
  EXPECT_EQ(swarm.hashes(1, 4)[0], subject().monolith(OutputEncoding::kF32));
  const SwarmStatus now = swarm.status();
  EXPECT_EQ(now.workers.size(), 1U);
  EXPECT_EQ(now.quarantined, 0U);
}

}  // namespace
}  // namespace kvasir
