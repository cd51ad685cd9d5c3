// For *_test.cc only: requests and what became of them.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <vector>

#include "base/sha256.h"
#include "engine/scheduler_lane.h"
#include "engine/test_engine.h"
#include "model/test_model.h"

namespace kvasir::engine {

// Takes the events of one request, and checks that they come as promised. Thread-safe.
class Outcome {
 public:
  EventSink sink() {
    return [this](const Event& event) {
      std::lock_guard lock(mutex_);
      EXPECT_FALSE(finished_) << "an event after the last";
      if (const auto* progress = std::get_if<PromptProgress>(&event)) {
        EXPECT_TRUE(tokens.empty()) << "the prompt goes on after the answer began";
        EXPECT_TRUE(!progress_seen_ || progress->done > progress_.done);
        EXPECT_LE(progress->done, progress->total);
        progress_ = *progress;
        progress_seen_ = true;
      } else if (const auto* prompt = std::get_if<PromptLogprobs>(&event)) {
        EXPECT_EQ(prompt->first, 1 + prompt_logprobs.size());
        prompt_logprobs.insert(prompt_logprobs.end(), prompt->of_tokens.begin(),
                               prompt->of_tokens.end());
      } else if (const auto* token = std::get_if<TokenGenerated>(&event)) {
        EXPECT_EQ(progress_.done, progress_.total);
        tokens.push_back(token->token);
        if (token->logprobs) logprobs.push_back(*token->logprobs);
      } else {
        end = std::get<Finished>(event);
        EXPECT_EQ(end.usage.generated_tokens, tokens.size());
        finished_ = true;
      }
      changed_.notify_all();
    };
  }

  bool finished() const {
    std::lock_guard lock(mutex_);
    return finished_;
  }
  size_t n_tokens() const {
    std::lock_guard lock(mutex_);
    return tokens.size();
  }
  PromptProgress progress() const {
    std::lock_guard lock(mutex_);
    return progress_;
  }
  // False after a minute.
  template <typename Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), condition);
  }
  bool wait_finished() {
    return wait([&] { return finished_; });
  }
  bool wait_tokens(size_t n) {
    return wait([&] { return tokens.size() >= n || finished_; });
  }

  // To be looked at when it has finished.
  std::vector<int32_t> tokens;
  std::vector<Logprobs> logprobs, prompt_logprobs;
  Finished end;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  PromptProgress progress_;
  bool progress_seen_ = false;
  bool finished_ = false;
};

inline std::vector<int32_t> random_prompt(std::mt19937& random, size_t n, uint32_t n_vocab) {
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % n_vocab);
  return ids;
}

// Allows every third id, and others the longer the answer is: a mask that changes.
class EveryThird final : public TokenConstraint {
 public:
  Result<void> allow(std::span<uint64_t> words) override {
    for (size_t id = n_accepted_ % 3; id < words.size() * 64; id += 3)
      words[id / 64] |= uint64_t{1} << (id % 64);
    return {};
  }
  Result<void> accept(int32_t token) override {
    EXPECT_EQ(static_cast<size_t>(token) % 3, n_accepted_ % 3);
    ++n_accepted_;
    return {};
  }

 private:
  size_t n_accepted_ = 0;
};

// What a request is to get, without any of the scheduler: alone, with a call for every token of the
// answer.
inline void generate_plainly(TestEngine& engine, const Request& request,
                             const std::vector<int32_t>& never, Outcome& outcome) {
  const EventSink sink = outcome.sink();
  Sampler sampler(request.sampler, never);
  auto sequence = engine.new_sequence(request.prompt.size() + request.tokens_max + 1);
  Finished end;
  end.usage.prompt_tokens = request.prompt.size();
  Sha256 hash;
  std::vector<float> logits;
  std::vector<Logprobs> of_prompt;
  const size_t n_vocab = engine.n_vocab();
  const std::span<const int32_t> prompt = request.prompt;
  for (size_t begin = 0, count = 0; begin < prompt.size(); begin += count) {
    count = std::min<size_t>(prompt.size() - begin, 100);
    const auto rows = engine.append(*sequence, prompt.subspan(begin, count));
    for (size_t i = begin; i < begin + count; ++i) {
      logits.assign(rows.begin() + static_cast<ptrdiff_t>((i - begin) * n_vocab),
                    rows.begin() + static_cast<ptrdiff_t>((i - begin + 1) * n_vocab));
      sampler.accept(prompt[i]);
      if (i + 1 < prompt.size() && request.wants_prompt_logprobs)
        of_prompt.push_back(logprobs_of(logits, prompt[i + 1], request.n_top_logprobs, never));
    }
  }
  if (!of_prompt.empty()) sink(PromptLogprobs{1, of_prompt});
  sink(PromptProgress{request.prompt.size(), request.prompt.size()});
  while (end.usage.generated_tokens < request.tokens_max) {
    hash.update(std::as_bytes(std::span(logits)));
    std::vector<uint64_t> allowed;
    if (request.constraint) {
      allowed.resize((logits.size() + 63) / 64);
      EXPECT_TRUE(request.constraint->allow(allowed));
    }
    const int32_t token = sampler.sample(logits, allowed);
    sampler.accept(token);
    if (request.constraint) {
      EXPECT_TRUE(request.constraint->accept(token));
    }
    const AfterToken after = request.end_check ? request.end_check(token) : AfterToken::kGoOn;
    if (after != AfterToken::kGoOn) end.reason = FinishReason::kStop;
    if (after == AfterToken::kEndWithout) break;
    ++end.usage.generated_tokens;
    TokenGenerated event{token, {}};
    if (request.wants_logprobs)
      event.logprobs = logprobs_of(logits, token, request.n_top_logprobs, never);
    sink(event);
    if (after == AfterToken::kEndWith) break;
    logits = engine.append(*sequence, {&token, 1});
  }
  end.logits_hash = hash.hex();
  sink(end);
}

inline void expect_same_logprobs(const std::vector<Logprobs>& a, const std::vector<Logprobs>& b) {
  ASSERT_EQ(a.size(), b.size());
  const auto same = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.token == y.token && std::memcmp(&x.logprob, &y.logprob, sizeof x.logprob) == 0;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same(a[i].chosen, b[i].chosen));
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t rank = 0; rank < a[i].top.size(); ++rank)
      EXPECT_TRUE(same(a[i].top[rank], b[i].top[rank]));
  }
}

// The same answer to the last bit; how much of it was computed before may differ.
inline void expect_same_answer(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.end.reason, b.end.reason);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.end.logits_hash, b.end.logits_hash);
  EXPECT_EQ(a.end.usage.prompt_tokens, b.end.usage.prompt_tokens);
  expect_same_logprobs(a.logprobs, b.logprobs);
  expect_same_logprobs(a.prompt_logprobs, b.prompt_logprobs);
}

}  // namespace kvasir::engine
