// One request on its way through the scheduler. Internal to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "engine/sampler.h"
#include "engine/scheduler_request.h"
#include "engine/sequence.h"

namespace kvasir::engine {

// cancel() and cancelled() are for every thread; everything else for the one that the job is with:
// the lane that computes it, or whoever took it out of the queue.
class Job {
 public:
  Job(uint64_t id, Request request, const std::vector<int32_t>& never);

  const uint64_t id;
  const Request request;

  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // Gives the job its sequence, which computes for it until finish() or begin_again().
  void start(std::unique_ptr<Sequence> sequence, size_t cached_tokens);
  Sequence* sequence() { return sequence_.get(); }
  // Prompt and answer. The sequence may stand before the last of them.
  std::span<const int32_t> tokens() const { return tokens_; }
  bool prompt_is_done() const { return prompt_is_done_; }
  void set_prompt_done() { prompt_is_done_ = true; }

  // What the sequence computed is not to be trusted: it goes, and the job waits for a new one, with
  // which everything sampled so far is sampled again by confirm(). Finishes the job if that is not
  // possible.
  void begin_again(const std::vector<int32_t>& never);
  // Tokens of the answer are there that a new sequence has not seen: its rows want logits from the
  // last token of the prompt on.
  bool is_again() const { return !prompt_is_done_ && usage_.generated_tokens != 0; }
  // Samples token `index` of tokens() again. Finishes the job, with kUntrusted, if what was told
  // would have been another.
  void confirm(size_t index, std::span<const float> logits, std::span<const int32_t> never);

  void emit(const Event& event);
  // Samples and tells what came out; finishes the job if that was the last token.
  void sample(std::span<const float> logits, std::span<const int32_t> never);
  // Once: the last event, after which the sequence is gone.
  void finish(FinishReason reason, std::optional<Error> error = std::nullopt);
  // Called by finish() while the sequence is still there.
  std::function<void(Job& job, FinishReason reason)> before_end;
  bool finished() const { return reason_.has_value(); }
  FinishReason reason() const { return *reason_; }
  const Usage& usage() const { return usage_; }
  // For every thread: how far it is.
  size_t prompt_computed() const { return prompt_computed_.load(std::memory_order_relaxed); }
  size_t generated() const { return generated_.load(std::memory_order_relaxed); }
  void tell_progress(size_t prompt_tokens);

  // Numbers of tokens at which a step has to end for a snapshot, ascending; the next one last.
  std::vector<size_t> snapshot_places;

 private:
  Result<int32_t> next_token(std::span<const float> logits);

  std::atomic<bool> cancelled_{false};
  std::atomic<size_t> prompt_computed_{0}, generated_{0};
  std::mutex mutex_;
  Sequence* cancellable_ = nullptr;  // guarded by mutex_

  std::unique_ptr<Sequence> sequence_;
  std::vector<int32_t> tokens_;
  bool prompt_is_done_ = false;
  std::optional<FinishReason> reason_;  // of the end
  Sampler sampler_;
  std::vector<uint64_t> allowed_;  // by the constraint
  std::optional<Sha256> logits_hash_;
  size_t restarts_ = 0;
  std::optional<size_t> progress_told_;
  bool prompt_scores_told_ = false;
  std::vector<Logprobs> logprobs_told_;  // if they are wanted
  Usage usage_;
};

}  // namespace kvasir::engine
