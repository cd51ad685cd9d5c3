#include "engine/scheduler_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvasir::engine {
namespace {

// Each one takes a worker that was trusted and lied. More are an attack on the others' time.
constexpr size_t kRestartsMax = 8;

bool same(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token == b.token && std::memcmp(&a.logprob, &b.logprob, sizeof a.logprob) == 0;
}

bool same(const Logprobs& a, const Logprobs& b) {
  return same(a.chosen, b.chosen) &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const TokenLogprob& x, const TokenLogprob& y) { return same(x, y); });
}

Error told_untruth() {
  return Error::untrusted(
      "a worker gave a wrong answer, and what was told of this text is not true");
}

}  // namespace

Job::Job(uint64_t the_id, Request the_request, const std::vector<int32_t>& never)
    : id(the_id), request(std::move(the_request)), sampler_(request.sampler, never) {
  if (request.wants_logits_hash) logits_hash_.emplace();
  usage_.prompt_tokens = request.prompt.size();
}

void Job::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (cancellable_ != nullptr) cancellable_->cancel();
}

void Job::start(std::unique_ptr<Sequence> sequence, size_t cached_tokens) {
  usage_.cached_tokens = cached_tokens;
  sequence_ = std::move(sequence);
  if (tokens_.empty()) {
    tokens_.reserve(request.prompt.size() + request.tokens_max);
    tokens_ = request.prompt;
  }
  for (int32_t token : request.prompt) sampler_.accept(token);
  std::lock_guard lock(mutex_);
  cancellable_ = sequence_.get();
  if (cancelled()) cancellable_->cancel();
}

void Job::begin_again(const std::vector<int32_t>& never) {
  {
    std::lock_guard lock(mutex_);
    cancellable_ = nullptr;
  }
  sequence_.reset();
  snapshot_places.clear();
  if (++restarts_ > kRestartsMax || prompt_scores_told_)
    return finish(FinishReason::kFailed, told_untruth());
  if (request.constraint) {
    if (auto restarted = request.constraint->restart(); !restarted)
      return finish(FinishReason::kFailed, std::move(restarted.error()));
  }
  sampler_ = Sampler(request.sampler, never);
  if (logits_hash_) logits_hash_.emplace();
  prompt_is_done_ = false;
}

void Job::confirm(size_t index, std::span<const float> logits, std::span<const int32_t> never) {
  if (logits_hash_) logits_hash_->update(std::as_bytes(logits));
  const auto token = next_token(logits);
  bool holds = token && *token == tokens_[index];
  if (holds && request.wants_logprobs) {
    holds = same(logprobs_of(logits, *token, request.n_top_logprobs, never),
                 logprobs_told_[index - request.prompt.size()]);
  }
  if (!holds) return finish(FinishReason::kFailed, told_untruth());
  sampler_.accept(*token);
}

void Job::emit(const Event& event) {
  if (std::holds_alternative<PromptLogprobs>(event)) prompt_scores_told_ = true;
  if (request.on_event) request.on_event(event);
}

void Job::tell_progress(size_t prompt_tokens) {
  prompt_computed_.store(prompt_tokens, std::memory_order_relaxed);
  // Never backwards, should the job have begun again.
  if (progress_told_ && *progress_told_ >= prompt_tokens) return;
  progress_told_ = prompt_tokens;
  emit(PromptProgress{prompt_tokens, request.prompt.size()});
}

Result<int32_t> Job::next_token(std::span<const float> logits) {
  if (!request.constraint) return sampler_.sample(logits);
  allowed_.assign((logits.size() + 63) / 64, 0);
  KVASIR_TRY_VOID(request.constraint->allow(allowed_));
  if (std::all_of(allowed_.begin(), allowed_.end(), [](uint64_t word) { return word == 0; }))
    return Error::invalid("no token can follow token {} of the answer under its constraint",
                          usage_.generated_tokens);
  const int32_t token = sampler_.sample(logits, allowed_);
  KVASIR_TRY_VOID(request.constraint->accept(token));
  return token;
}

void Job::sample(std::span<const float> logits, std::span<const int32_t> never) {
  if (logits_hash_) logits_hash_->update(std::as_bytes(logits));
  auto token = next_token(logits);
  if (!token) return finish(FinishReason::kFailed, std::move(token.error()));
  sampler_.accept(*token);
  const AfterToken after = request.end_check ? request.end_check(*token) : AfterToken::kGoOn;
  if (after == AfterToken::kEndWithout) return finish(FinishReason::kStop);

  tokens_.push_back(*token);
  ++usage_.generated_tokens;
  generated_.store(usage_.generated_tokens, std::memory_order_relaxed);
  TokenGenerated event{*token, {}};
  if (request.wants_logprobs) {
    event.logprobs = logprobs_of(logits, *token, request.n_top_logprobs, never);
    logprobs_told_.push_back(*event.logprobs);
  }
  emit(event);
  if (after == AfterToken::kEndWith) return finish(FinishReason::kStop);
  if (usage_.generated_tokens >= request.tokens_max) finish(FinishReason::kLength);
}

void Job::finish(FinishReason reason, std::optional<Error> error) {
  KVASIR_CHECK(!finished());
  reason_ = reason;
  if (before_end && sequence_) before_end(*this, reason);
  {
    std::lock_guard lock(mutex_);
    cancellable_ = nullptr;
  }
  sequence_.reset();
  emit(Finished{reason, std::move(error), usage_, logits_hash_ ? logits_hash_->hex() : ""});
}

}  // namespace kvasir::engine
