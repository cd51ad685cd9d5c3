// Serves many users with one model: requests join and leave at every step, and what each one gets
// is the same bits whoever else is served (docs/serving.md).
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "engine/scheduler_lane.h"
#include "engine/scheduler_queue.h"
#include "engine/scheduler_request.h"
#include "engine/turn.h"

namespace kvasir::engine {

struct SchedulerOptions {
  AdmissionLimits admission;
  // Prompt rows of a step while anybody waits for a next token (PlanLimits).
  size_t prefill_rows_while_decoding = 64;
  PrefixOptions prefix;
  std::vector<int32_t> never;  // ids that must not be sampled: padding rows of the head
};

// What is left of `available` bytes for sequences, after the work space of the lanes and the prefix
// cache: AdmissionLimits::memory_bytes. kLimit, with both numbers, if not one request of the whole
// context fits.
Result<uint64_t> sequence_memory(const model::Model& model, const EngineOptions& options,
                                 size_t lanes, const SchedulerOptions& scheduler,
                                 uint64_t available);

struct SchedulerStatus {
  size_t waiting = 0, running = 0, lanes = 0;
  uint64_t sequence_bytes = 0, sequence_bytes_max = 0;  // set aside for what runs
  uint64_t steps = 0, rows = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;  // of requests that ended
  std::array<uint64_t, kFinishReasons> finished{};                      // by FinishReason
  std::array<uint64_t, kRefusals> refused{};                            // by Refusal
  PrefixCacheCounters prefixes;
};

// One request that waits or runs. Nothing of what it says.
struct RequestStatus {
  uint64_t id = 0;
  std::string user;
  bool is_waiting = false;
  size_t prompt_tokens = 0, prompt_computed = 0;
  size_t generated_tokens = 0, tokens_max = 0;
};

// Thread-safe. Each lane has a thread, and computes a micro-batch of its own requests while it has
// the turn. More than one lane is of use only if the expert service gives the turn away while it
// waits.
class Scheduler {
 public:
  // lanes: engines over the same model, with equal options and one thread pool, which nobody else
  // uses. They, the turn and everything behind them outlive the scheduler.
  Scheduler(std::vector<Engine*> lanes, Turn& turn, SchedulerOptions options);
  // Cancels what is left; every request has had its last event afterwards. Nobody else calls any
  // more.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The id of the request; its events may begin before this returns.
  using Submitted = tl::expected<uint64_t, Refused>;
  Submitted submit(Request request);
  // A request that waits ends at once, in this call; one that runs within a layer of what is being
  // computed. False if there is none, or no more. The last event comes in any case.
  bool cancel(uint64_t id);

  // Refuses new requests from now on; those that wait or run go on.
  void close();
  // Waits until nothing waits or runs. False if that took too long.
  bool wait_idle(std::chrono::milliseconds patience);

  SchedulerStatus status() const;
  // In the order they came.
  std::vector<RequestStatus> requests() const;

 private:
  struct LanePlace {
    std::unique_ptr<Lane> lane;                 // its thread's
    std::vector<std::shared_ptr<Job>> arrived;  // admitted, not with the lane yet
    size_t jobs = 0;                            // arrived or with the lane
    std::condition_variable wake;
    std::thread thread;
  };

  std::optional<Refused> check(const Request& request) const;
  void run_lane(LanePlace& place);
  void admit();

  const std::vector<Engine*> engines_;
  const SchedulerOptions options_;
  PrefixCache prefixes_;
  LaneShared shared_;

  mutable std::mutex mutex_;  // guards what follows
  AdmissionQueue queue_;
  std::unordered_map<uint64_t, std::shared_ptr<Job>> jobs_;  // that wait or run
  size_t ending_ = 0;  // taken out of the queue, their last event on its way
  std::array<uint64_t, kRefusals> refused_{};
  uint64_t next_id_ = 1;
  bool closed_ = false;
  bool stopping_ = false;
  std::condition_variable idle_;
  std::vector<std::unique_ptr<LanePlace>> lanes_;  // fixed after construction
};

}  // namespace kvasir::engine
