// A lane, step by step, without threads: what a request gets does not depend on its company, on
// when it came, on where its prompt was cut, or on what was computed before.
#include "engine/scheduler_lane.h"

#include <limits>
#include <set>

#include "engine/test_scheduler.h"

namespace kvasir::engine {
namespace {

using model::Architecture;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr size_t kRounds = 3;
#else
constexpr size_t kRounds = 6;
#endif

const std::vector<int32_t> kNever = {3, 4};

struct LaneSettings {
  size_t rows_max = 16;
  size_t chunk = 4;
  PrefixOptions prefix;
};

RunSettings run_settings(const LaneSettings& settings) {
  RunSettings run;
  run.options.rows_max = settings.rows_max;
  run.kernels = kernels::select_table().value();
  return run;
}

class LaneRun {
 public:
  LaneRun(const model::ModelPieces& pieces, const LaneSettings& settings)
      : engine_(pieces.bind().value(), run_settings(settings)),
        prefixes_(settings.prefix.bytes_max),
        lane_(engine_.engine(), turn_, prepare(settings), settings.chunk, 64) {}

  std::shared_ptr<Job> add(Request request, Outcome& outcome) {
    request.on_event = outcome.sink();
    auto job = std::make_shared<Job>(++last_id_, std::move(request), shared_.never);
    lane_.add(job);
    return job;
  }
  void finish_all() {
    for (int steps = 0; !lane_.idle(); ++steps) {
      ASSERT_LT(steps, 100'000);
      lane_.step();
    }
  }
  Lane& lane() { return lane_; }
  Engine& engine() { return engine_.engine(); }
  PrefixCacheCounters prefixes() const { return prefixes_.counters(); }
  const LaneCounters& counters() const { return shared_.counters; }

 private:
  LaneShared& prepare(const LaneSettings& settings) {
    shared_.never = kNever;
    shared_.prefix_options = settings.prefix;
    shared_.prefixes = settings.prefix.bytes_max != 0 ? &prefixes_ : nullptr;
    return shared_;
  }

  TestEngine engine_;
  PrefixCache prefixes_;
  LaneShared shared_;
  Turn turn_;
  Lane lane_;
  uint64_t last_id_ = 0;
};

// Requests of every kind; some begin alike, as those of one conversation do.
std::vector<Request> random_requests(std::mt19937& random, size_t n, uint32_t n_vocab) {
  const auto shared = random_prompt(random, 300, n_vocab);
  std::vector<Request> requests(n);
  for (Request& request : requests) {
    const size_t n_shared = std::array<size_t, 5>{0, 7, 40, 256, 290}[random() % 5];
    request.prompt.assign(shared.begin(), shared.begin() + static_cast<ptrdiff_t>(n_shared));
    for (int32_t id : random_prompt(random, 1 + random() % 20, n_vocab))
      request.prompt.push_back(id);
    request.tokens_max = random() % 12;
    request.sampler.seed = random();
    request.sampler.temperature = random() % 3 == 0 ? 0.0F : 1.0F;
    if (random() % 3 == 0) request.sampler.frequency_penalty = 0.5F;
    request.wants_logprobs = random() % 2 == 0;
    request.wants_prompt_logprobs = n_shared < 100 && random() % 4 == 0;
    request.n_top_logprobs = random() % 4;
    request.wants_logits_hash = true;
    if (n_shared != 0 && random() % 2 == 0) request.turn_ends = {n_shared};
    if (random() % 4 == 0) {
      const auto last = static_cast<int32_t>(random() % 8);
      const AfterToken end = random() % 2 == 0 ? AfterToken::kEndWith : AfterToken::kEndWithout;
      request.end_check = [=](int32_t token) {
        return token % 8 == last ? end : AfterToken::kGoOn;
      };
    }
  }
  return requests;
}

// Each request by the plainest means, then all of them at random times, with random cancellations
// and with and without a prefix cache of any size; the hash is over all logits that were sampled
// from.
TEST(Lane, GivesARequestTheSameBitsInAnyCompany) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const model::ModelPieces pieces(model::tiny_plan(architecture));
    uint64_t tokens_reused = 0, evictions = 0, n_cancelled = 0;
    for (size_t round = 0; round < kRounds; ++round) {
      SCOPED_TRACE(fmt::format("{}, round {}", model::architecture_name(architecture), round));
      std::mt19937 random(static_cast<uint32_t>(100 + round));
      TestEngine plain(pieces.bind().value(), run_settings({128, 1, {}}));
      const auto requests = random_requests(random, 14, plain.model().hp.n_vocab);
      std::vector<Outcome> expected(requests.size());
      for (size_t i = 0; i < requests.size(); ++i) {
        Request request = requests[i];
        if (i % 5 == 0) request.constraint = std::make_shared<EveryThird>();
        generate_plainly(plain, request, kNever, expected[i]);
      }

      LaneSettings settings{std::array<size_t, 4>{1, 5, 16, 64}[random() % 4],
                            1 + random() % 16,
                            {std::array<uint64_t, 3>{300'000, 100'000'000, 0}[round % 3],
                             1 + random() % 100, 4, 1 + random() % 20}};
      LaneRun together(pieces, settings);
      std::vector<Outcome> outcomes(requests.size());
      std::vector<std::shared_ptr<Job>> jobs;
      while (jobs.size() < requests.size() || !together.lane().idle()) {
        if (jobs.size() < requests.size() && random() % 16 == 0) {
          Request request = requests[jobs.size()];
          if (jobs.size() % 5 == 0) request.constraint = std::make_shared<EveryThird>();
          jobs.push_back(together.add(request, outcomes[jobs.size()]));
        }
        if (!jobs.empty() && random() % 60 == 0) jobs[random() % jobs.size()]->cancel();
        together.lane().step();
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(i);
        ASSERT_TRUE(outcomes[i].finished());
        if (outcomes[i].end.reason != FinishReason::kCancelled) {
          expect_same_answer(outcomes[i], expected[i]);
          continue;
        }
        ++n_cancelled;
        ASSERT_LE(outcomes[i].tokens.size(), expected[i].tokens.size());
        EXPECT_TRUE(std::equal(outcomes[i].tokens.begin(), outcomes[i].tokens.end(),
                               expected[i].tokens.begin()));
      }
      const auto prefixes = together.prefixes();
      EXPECT_LE(prefixes.bytes, prefixes.bytes_max);
      tokens_reused += prefixes.tokens_reused;
      evictions += prefixes.evictions;
      EXPECT_EQ(together.counters().decoding, 0U);
    }
    // Otherwise the test has not seen what it is for.
    EXPECT_GT(tokens_reused, 0U);
    EXPECT_GT(evictions, 0U);
    EXPECT_GT(n_cancelled, 0U);
  }
}

// Tokens go on coming while a long prompt is computed: one for every step of at most a chunk.
TEST(Lane, LetsNobodyWaitForMoreThanAChunk) {
  const model::ModelPieces pieces(model::tiny_plan());
  LaneRun run(pieces, {16, 4, {}});
  std::mt19937 random(1);
  Outcome quick, slow;
  Request request;
  request.prompt = {1, 2};
  request.tokens_max = 20;
  run.add(request, quick);
  run.lane().step();
  EXPECT_EQ(quick.n_tokens(), 1U);
  request.prompt = random_prompt(random, 200, run.engine().model().hp.n_vocab);
  run.add(request, slow);
  for (size_t step = 1; step < 20; ++step) {
    run.lane().step();
    EXPECT_EQ(quick.n_tokens(), step + 1);
    EXPECT_EQ(slow.progress().done, 4 * step);
  }
  // Now that nobody waits for a token, the whole step is for the prompt.
  EXPECT_TRUE(quick.finished());
  run.lane().step();
  EXPECT_EQ(slow.progress().done, 4U * 19 + 16);
  run.finish_all();
  EXPECT_EQ(slow.end.reason, FinishReason::kLength);
}

// A turn after a turn: all of the first question and its answer is there already.
TEST(Lane, GoesOnWhereAConversationWas) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const model::ModelPieces pieces(model::tiny_plan(architecture));
    LaneSettings settings;
    settings.prefix.bytes_max = 100'000'000;
    settings.prefix.tokens_min = 8;
    LaneRun run(pieces, settings), fresh(pieces, {16, 4, {}});
    std::mt19937 random(2);
    const uint32_t n_vocab = run.engine().model().hp.n_vocab;
    Request request;
    request.prompt = random_prompt(random, 300, n_vocab);
    request.tokens_max = 10;
    request.wants_logits_hash = true;
    for (int turn = 0; turn < 3; ++turn) {
      Outcome outcome, expected;
      run.add(request, outcome);
      run.finish_all();
      fresh.add(request, expected);
      fresh.finish_all();
      expect_same_answer(outcome, expected);
      EXPECT_EQ(expected.end.usage.cached_tokens, 0U);
      // The last token of an answer has not been computed when it ends.
      EXPECT_EQ(outcome.end.usage.cached_tokens, turn == 0 ? 0 : request.prompt.size() - 6);
      // The same question again: all but its last token.
      Outcome again;
      run.add(request, again);
      run.finish_all();
      expect_same_answer(again, expected);
      EXPECT_EQ(again.end.usage.cached_tokens, request.prompt.size() - 1);
      request.prompt.insert(request.prompt.end(), outcome.tokens.begin(), outcome.tokens.end());
      for (int32_t id : random_prompt(random, 5, n_vocab)) request.prompt.push_back(id);
    }
    // Another scope knows nothing of it.
    Outcome stranger;
    request.prefix_scope = "another";
    run.add(request, stranger);
    run.finish_all();
    EXPECT_EQ(stranger.end.usage.cached_tokens, 0U);
  }
}

TEST(Lane, ComputesAPromptAloneForItsLogprobs) {
  const model::ModelPieces pieces(model::tiny_plan());
  LaneRun run(pieces, {16, 4, {}});
  Request request;
  request.prompt = {5, 6, 7, 8};
  request.wants_prompt_logprobs = true;
  request.n_top_logprobs = 2;
  Outcome outcome;
  run.add(request, outcome);
  run.finish_all();
  EXPECT_EQ(outcome.end.reason, FinishReason::kLength);
  EXPECT_TRUE(outcome.tokens.empty());
  ASSERT_EQ(outcome.prompt_logprobs.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outcome.prompt_logprobs[i].chosen.token, request.prompt[i + 1]);
    EXPECT_EQ(outcome.prompt_logprobs[i].top.size(), 2U);
    EXPECT_LE(outcome.prompt_logprobs[i].chosen.logprob, 0.0F);
  }
}

class NothingFits final : public TokenConstraint {
 public:
  Result<void> allow(std::span<uint64_t>) override { return {}; }
  Result<void> accept(int32_t) override { return {}; }
};

class BrokenGrammar final : public TokenConstraint {
 public:
  Result<void> allow(std::span<uint64_t>) override { return Error::limit("too deep"); }
  Result<void> accept(int32_t) override { return {}; }
};

TEST(Lane, EndsARequestWhoseConstraintAllowsNothing) {
  const model::ModelPieces pieces(model::tiny_plan());
  LaneRun run(pieces, {16, 4, {}});
  Request request;
  request.prompt = {5};
  request.tokens_max = 3;
  Outcome healthy, stuck, broken;
  run.add(request, healthy);
  request.constraint = std::make_shared<NothingFits>();
  run.add(request, stuck);
  request.constraint = std::make_shared<BrokenGrammar>();
  run.add(request, broken);
  run.finish_all();
  EXPECT_EQ(healthy.end.reason, FinishReason::kLength);
  EXPECT_EQ(stuck.end.reason, FinishReason::kFailed);
  EXPECT_THAT(stuck.end.error->message, testing::HasSubstr("no token can follow"));
  EXPECT_EQ(broken.end.error->message, "too deep");
}

// A bad number ends the request that met it, with its place, and no other one.
TEST(Lane, EndsOnlyTheRequestThatFails) {
  model::ModelPieces pieces(model::tiny_plan());
  pieces.tensor("token_embd.weight")
      .set_float(size_t{64} * 5 + 3, std::numeric_limits<float>::quiet_NaN());
  LaneRun run(pieces, {16, 16, {}});
  Outcome bad, good;
  Request request;
  request.prompt = {1, 2, 5, 1};
  request.tokens_max = 3;
  run.add(request, bad);
  request.prompt = {1, 2, 6, 1};
  request.sampler.logit_bias = {{5, -1000.0F}};
  run.add(request, good);
  run.finish_all();
  EXPECT_EQ(bad.end.reason, FinishReason::kFailed);
  EXPECT_EQ(bad.end.error->kind, ErrorKind::kNonFinite);
  EXPECT_EQ(good.end.reason, FinishReason::kLength);
  EXPECT_EQ(good.tokens.size(), 3U);
}

}  // namespace
}  // namespace kvasir::engine
