// What becomes of requests when a worker turns out to have lied, a step or many requests later.
#include <set>

#include "engine/scheduler_lane.h"
#include "engine/test_scheduler.h"

namespace kvasir::engine {
namespace {

using model::Architecture;

// Computes what is right, or something else while it lies; finds itself out when it is told to.
class LyingExperts final : public expert::ExpertService {
 public:
  LyingExperts(const model::Model& model, const kernels::KernelTable& kernels, ThreadPool& pool)
      : honest_(local_experts(model), kernels, pool), n_embd_(model.hp.n_embd) {}

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override {
    auto failures = honest_.compute(request, out);
    for (size_t row = 0; lies && row < request.n_rows; ++row) {
      if (request.row_owner == nullptr) continue;
      owners.insert(request.row_owner[row]);
      for (size_t i = 0; i < request.top_k * n_embd_; ++i)
        out[row * request.top_k * n_embd_ + i] *= -3.0F;
    }
    return failures;
  }
  std::vector<uint64_t> take_doubted() override { return std::exchange(doubted, {}); }
  void forget(uint64_t owner) override { forgotten.insert(owner); }

  void find_out() {
    lies = false;
    doubted.assign(owners.begin(), owners.end());
  }

  bool lies = false;
  std::set<uint64_t> owners;  // that got lies
  std::vector<uint64_t> doubted;
  std::set<uint64_t> forgotten;

 private:
  expert::LocalExpertService honest_;
  const size_t n_embd_;
};

class DoubtRun {
 public:
  explicit DoubtRun(Architecture architecture, uint64_t prefix_bytes = 100'000'000)
      : pieces_(model::tiny_plan(architecture)),
        model_(pieces_.bind().value()),
        plain_(pieces_.bind().value(), RunSettings{{}, kernels_, 1}),
        experts(model_, *kernels_, pool_),
        engine_(model_, *kernels_, pool_, experts, options()),
        prefixes_(prefix_bytes),
        lane_(engine_, turn_, prepare(), 4, 8) {}

  static EngineOptions options() {
    EngineOptions options;
    options.rows_max = 16;
    return options;
  }
  uint32_t n_vocab() const { return model_.hp.n_vocab; }

  void add(Request request, Outcome& outcome) {
    request.on_event = outcome.sink();
    lane_.add(std::make_shared<Job>(++last_id_, std::move(request), shared_.never));
  }
  void truth(const Request& request, Outcome& outcome) {
    generate_plainly(plain_, request, {}, outcome);
  }
  void finish() {
    for (int steps = 0; !lane_.idle(); ++steps) {
      ASSERT_LT(steps, 10'000);
      lane_.step();
    }
  }
  Lane& lane() { return lane_; }
  PrefixCacheCounters prefixes() const { return prefixes_.counters(); }

 private:
  LaneShared& prepare() {
    shared_.prefixes = &prefixes_;
    shared_.prefix_options.tokens_min = 4;
    return shared_;
  }

  const kernels::KernelTable* kernels_ = kernels::select_table().value();
  const model::ModelPieces pieces_;
  ThreadPool pool_{1};
  model::Model model_;
  TestEngine plain_;

 public:
  LyingExperts experts;

 private:
  Engine engine_;
  PrefixCache prefixes_;
  LaneShared shared_;
  Turn turn_;
  Lane lane_;
  uint64_t last_id_ = 0;
};

Request some_request(uint32_t n_vocab, uint32_t seed) {
  std::mt19937 random(seed);
  Request request;
  request.prompt = random_prompt(random, 40, n_vocab);
  request.tokens_max = 10;
  request.sampler.seed = seed;
  request.sampler.temperature = 1.0F;
  request.wants_logits_hash = true;
  return request;
}

class Doubt : public ::testing::TestWithParam<Architecture> {};

// The lie was about the prompt, and nothing was told yet: nobody is to notice.
TEST_P(Doubt, BeforeTheFirstTokenIsNotToBeSeen) {
  DoubtRun run(GetParam());
  const Request request = some_request(run.n_vocab(), 1);
  Outcome expected, outcome;
  run.truth(request, expected);
  run.add(request, outcome);
  run.experts.lies = true;
  run.lane().step();
  ASSERT_FALSE(run.experts.owners.empty());
  run.experts.find_out();
  run.finish();
  expect_same_answer(outcome, expected);
}

// A worker is caught on others' rows: what was told holds, is computed again, and goes on.
TEST_P(Doubt, WithoutALieChangesNothing) {
  for (size_t steps = 1; steps < 20; steps += 3) {
    DoubtRun run(GetParam());
    Request request = some_request(run.n_vocab(), 2);
    request.wants_logprobs = true;
    request.n_top_logprobs = 2;
    Outcome expected, outcome, other;
    run.truth(request, expected);
    run.add(request, outcome);
    run.add(some_request(run.n_vocab(), 3), other);
    for (size_t step = 0; step < steps; ++step) run.lane().step();
    run.experts.doubted = {expert::ExpertService::kEveryOwner};
    run.finish();
    expect_same_answer(outcome, expected);
    EXPECT_EQ(other.end.reason, FinishReason::kLength);
  }
}

// Text that was told would have been another one: the request ends, and says why.
TEST_P(Doubt, EndsWhatWasToldUntruly) {
  DoubtRun run(GetParam());
  const Request request = some_request(run.n_vocab(), 4);
  Outcome expected, outcome;
  run.truth(request, expected);
  run.experts.lies = true;
  run.add(request, outcome);
  while (outcome.n_tokens() < 6) run.lane().step();
  ASSERT_NE(outcome.tokens,
            std::vector<int32_t>(expected.tokens.begin(), expected.tokens.begin() + 6));
  run.experts.find_out();
  run.finish();
  EXPECT_EQ(outcome.end.reason, FinishReason::kFailed);
  ASSERT_TRUE(outcome.end.error.has_value());
  EXPECT_EQ(outcome.end.error->kind, ErrorKind::kUntrusted);
  EXPECT_EQ(outcome.n_tokens(), 6U);
}

// What was kept of a request that has ended long ago goes, too; and until then it is not forgotten
// who computed it.
TEST_P(Doubt, ReachesWhatOthersWouldHaveGoneOnFrom) {
  DoubtRun run(GetParam());
  const Request request = some_request(run.n_vocab(), 5);
  Outcome expected, first, second;
  run.truth(request, expected);
  run.experts.lies = true;
  run.add(request, first);
  run.finish();
  run.experts.lies = false;
  ASSERT_GT(run.prefixes().snapshots, 0U);
  EXPECT_TRUE(run.experts.forgotten.empty());
  // Goes on from the lie, without a lie of its own.
  run.add(request, second);
  run.lane().step();
  run.experts.find_out();
  run.finish();
  EXPECT_GT(run.prefixes().hits, 0U);
  EXPECT_TRUE(run.experts.forgotten.contains(*run.experts.owners.begin()));
  if (second.end.reason == FinishReason::kFailed)
    EXPECT_EQ(second.end.error->kind, ErrorKind::kUntrusted);
  else
    expect_same_answer(second, expected);
  Outcome third;
  run.add(request, third);
  run.finish();
  expect_same_answer(third, expected);
}

// A restricted answer is told only if it can be restricted the same way again.
TEST_P(Doubt, OfARestrictedAnswerIsNotPassedOver) {
  DoubtRun run(GetParam());
  Request request = some_request(run.n_vocab(), 6);
  request.constraint = std::make_shared<EveryThird>();
  Outcome outcome;
  run.add(request, outcome);
  while (outcome.n_tokens() < 3) run.lane().step();
  run.experts.doubted = {expert::ExpertService::kEveryOwner};
  run.finish();
  EXPECT_EQ(outcome.end.reason, FinishReason::kFailed);
  EXPECT_EQ(outcome.end.error->kind, ErrorKind::kUntrusted);
}

// Each round of lies needs a worker that was trusted; a request does not go on for ever.
TEST_P(Doubt, HasAnEnd) {
  DoubtRun run(GetParam());
  Outcome outcome;
  run.add(some_request(run.n_vocab(), 7), outcome);
  for (int round = 0; round < 1'000 && !outcome.finished(); ++round) {
    run.experts.doubted = {expert::ExpertService::kEveryOwner};
    run.lane().step();
  }
  EXPECT_TRUE(outcome.finished());
  EXPECT_EQ(outcome.end.reason, FinishReason::kFailed);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Doubt,
                         ::testing::Values(Architecture::kQwen35Moe, Architecture::kQwen3Moe));

}  // namespace
}  // namespace kvasir::engine
