// One micro-batch at a time: the requests of a lane, computed step by step. Internal to the
// scheduler, and to its tests, which do without threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/lineage.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler_job.h"
#include "engine/scheduler_plan.h"
#include "engine/turn.h"

namespace kvasir::engine {

struct PrefixOptions {
  uint64_t bytes_max = 0;  // of the cache; 0: nothing is kept
  // Models with recurrent layers: snapshots at every multiple of this, or of 2, 4, 8 ... times this
  // in prompts that would have more than stride_snapshots_max. One of Qwen3.5-122B-A10B takes 149
  // MiB and some 30 ms of copying.
  size_t stride_tokens = 2048;
  size_t stride_snapshots_max = 4;
  // Shorter prefixes are computed sooner than kept.
  size_t tokens_min = 32;
};

// What a scheduler has done so far; counters for every thread.
struct LaneCounters {
  using Counter = std::atomic<uint64_t>;
  Counter steps{0}, rows{0};
  Counter prompt_tokens{0}, cached_tokens{0}, generated_tokens{0};  // of requests that ended
  std::array<Counter, kFinishReasons> finished{};
  // Requests of all lanes that want a next token.
  Counter decoding{0};
};

// What lanes have in common; outlives them.
struct LaneShared {
  std::vector<int32_t> never;  // ids that must not be sampled
  PrefixOptions prefix_options;
  PrefixCache* prefixes = nullptr;  // null: nothing is kept
  Doubts doubts;
  LaneCounters counters;
};

// One thread at a time.
class Lane {
 public:
  // All arguments outlive the lane. jobs_max: the most that it will have at a time.
  Lane(Engine& engine, Turn& turn, LaneShared& shared, size_t prefill_rows_while_decoding,
       size_t jobs_max);

  void add(std::shared_ptr<Job> job);
  bool idle() const { return jobs_.empty(); }
  // Starts what is new, drops what was cancelled, computes one batch and samples. Returns the jobs
  // that are finished.
  std::vector<std::shared_ptr<Job>> step();

  // Rows of prompts whose logits are computed in one step.
  static size_t prompt_logits_rows_max(const model::Model& model, const EngineOptions& options);

 private:
  void start(Job& job);
  void place_snapshots(Job& job) const;
  Standing standing(Job& job) const;
  void run(std::span<const RowShare> shares);
  // Jobs that rest on what turned out to be false begin again.
  void hear_doubts();
  void confirm_rows(Job& job, size_t rows, std::span<const float> logits);
  void after_rows(Job& job, size_t rows, std::span<const float> logits);
  void tell_prompt_logprobs(Job& job, size_t first, std::span<const float> logits) const;
  void keep_snapshot(Job& job) const;
  void before_end(Job& job, FinishReason reason) const;
  std::vector<std::shared_ptr<Job>> take_finished();

  Engine& engine_;
  Turn& turn_;
  LaneShared& shared_;
  const size_t n_vocab_;
  const bool is_recurrent_;  // the model
  const size_t doubts_reader_;
  StepPlanner planner_;
  std::vector<std::shared_ptr<Job>> jobs_;
  size_t decoding_ = 0;  // of jobs_, as counted in shared_

  std::vector<Row> rows_;
  size_t logits_rows_max_;
  std::unique_ptr<float[]> logits_;  // [logits_rows_max_][n_vocab_]
};

}  // namespace kvasir::engine
