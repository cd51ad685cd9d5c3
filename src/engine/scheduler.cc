#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/fp_environment.h"
#include "engine/memory_fit.h"

namespace kvasir::engine {
namespace {

size_t jobs_per_lane(size_t running_max, size_t lanes) {
  return (running_max + lanes - 1) / lanes;
}

}  // namespace

Result<uint64_t> sequence_memory(const model::Model& model, const EngineOptions& options,
                                 size_t lanes, const SchedulerOptions& scheduler,
                                 uint64_t available) {
  const size_t context = scheduler.admission.context_max;
  const size_t logits_rows =
      std::min(jobs_per_lane(scheduler.admission.running_max, lanes), options.rows_max) +
      Lane::prompt_logits_rows_max(model, options);
  const uint64_t scratch = memory_need(model, options, logits_rows, context).scratch;
  const uint64_t fixed = scratch * lanes + scheduler.prefix.bytes_max;
  const uint64_t one = Sequence::bytes(model.hp, options.kv_type, context);
  if (available < fixed || available - fixed < one)
    return Error::limit(
               "needs {} bytes of memory (work space {}, prefix cache {}, one request of {} tokens "
               "{}), have {}",
               fixed + one, scratch * lanes, scheduler.prefix.bytes_max, context, one, available)
        .with_hint("use a shorter context, a smaller prefix cache or fewer lanes");
  return available - fixed;
}

Scheduler::Scheduler(std::vector<Engine*> lanes, Turn& turn, SchedulerOptions options)
    : engines_(std::move(lanes)),
      options_(std::move(options)),
      prefixes_(options_.prefix.bytes_max),
      queue_(options_.admission) {
  KVASIR_CHECK(!engines_.empty() && options_.admission.running_max != 0);
  shared_.never = options_.never;
  shared_.prefix_options = options_.prefix;
  shared_.prefixes = options_.prefix.bytes_max != 0 ? &prefixes_ : nullptr;
  for (Engine* engine : engines_) {
    auto place = std::make_unique<LanePlace>();
    place->lane =
        std::make_unique<Lane>(*engine, turn, shared_, options_.prefill_rows_while_decoding,
                               jobs_per_lane(options_.admission.running_max, engines_.size()));
    lanes_.push_back(std::move(place));
  }
  for (auto& place : lanes_)
    place->thread = std::thread([this, lane = place.get()] { run_lane(*lane); });
}

Scheduler::~Scheduler() {
  std::vector<uint64_t> ids;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    stopping_ = true;
    for (const auto& [id, job] : jobs_) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  for (uint64_t id : ids) cancel(id);
  for (auto& place : lanes_) {
    place->wake.notify_all();
    place->thread.join();
  }
}

std::optional<Refused> Scheduler::check(const Request& request) const {
  const auto invalid = [](Error error) { return Refused{Refusal::kInvalid, std::move(error)}; };
  const auto n_vocab = static_cast<int64_t>(engines_.front()->model().hp.n_vocab);
  if (request.prompt.empty()) return invalid(Error::invalid("the prompt has no tokens"));
  for (int32_t token : request.prompt)
    if (token < 0 || token >= n_vocab)
      return invalid(Error::invalid("token {} of a vocabulary of {}", token, n_vocab));
  if (request.n_top_logprobs > kTopLogprobsMax)
    return invalid(Error::invalid("{} alternatives for each token, at most {} are possible",
                                  request.n_top_logprobs, kTopLogprobsMax));
  if (auto options = engine::check(request.sampler); !options)
    return invalid(std::move(options.error()));
  return std::nullopt;
}

Scheduler::Submitted Scheduler::submit(Request request) {
  std::optional<Refused> refused = check(request);
  const size_t context_max = options_.admission.context_max;
  // No sum that could wrap around.
  const size_t prompt = request.prompt.size();
  const bool is_longest = request.tokens_max > SIZE_MAX - prompt;
  const size_t tokens = is_longest ? SIZE_MAX : prompt + request.tokens_max;
  const Engine& engine = *engines_.front();
  // A request that is too long is refused for that, whatever it would need.
  const uint64_t bytes = tokens > context_max
                             ? 0
                             : Sequence::bytes(engine.model().hp, engine.options().kv_type, tokens);

  std::unique_lock lock(mutex_);
  if (!refused && closed_)
    refused = Refused{Refusal::kClosed, Error::limit("no more requests are taken")};
  const uint64_t id = next_id_++;
  if (!refused) refused = queue_.offer({id, request.user, tokens, bytes});
  if (refused) {
    ++refused_[static_cast<size_t>(refused->reason)];
    return tl::unexpected(std::move(*refused));
  }
  jobs_.emplace(id, std::make_shared<Job>(id, std::move(request), options_.never));
  admit();
  return id;
}

// Hands what may run to the lanes. With mutex_ held.
void Scheduler::admit() {
  while (!stopping_) {
    const auto id = queue_.admit();
    if (!id) return;
    LanePlace& place =
        **std::min_element(lanes_.begin(), lanes_.end(),
                           [](const auto& a, const auto& b) { return a->jobs < b->jobs; });
    place.arrived.push_back(jobs_.at(*id));
    ++place.jobs;
    place.wake.notify_one();
  }
}

bool Scheduler::cancel(uint64_t id) {
  std::shared_ptr<Job> job;
  {
    std::lock_guard lock(mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return false;
    job = found->second;
    if (!queue_.remove(id)) {
      job->cancel();
      return true;
    }
    jobs_.erase(found);
    ++ending_;
    admit();  // it may have stood in somebody's way
  }
  ++shared_.counters.finished[static_cast<size_t>(FinishReason::kCancelled)];
  job->finish(FinishReason::kCancelled);
  std::lock_guard lock(mutex_);
  --ending_;
  idle_.notify_all();
  return true;
}

void Scheduler::run_lane(LanePlace& place) {
  set_canonical_fp_environment();
  Lane& lane = *place.lane;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      place.wake.wait(lock, [&] { return stopping_ || !place.arrived.empty() || !lane.idle(); });
      if (place.arrived.empty() && lane.idle()) return;
      for (auto& job : place.arrived) lane.add(std::move(job));
      place.arrived.clear();
    }
    const auto finished = lane.step();
    if (finished.empty()) continue;
    std::lock_guard lock(mutex_);
    for (const auto& job : finished) {
      queue_.finished(job->id);
      jobs_.erase(job->id);
      --place.jobs;
    }
    admit();
    if (jobs_.empty()) idle_.notify_all();
  }
}

void Scheduler::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

bool Scheduler::wait_idle(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience, [&] { return jobs_.empty() && ending_ == 0; });
}

std::vector<RequestStatus> Scheduler::requests() const {
  std::vector<RequestStatus> list;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, job] : jobs_)
      list.push_back({id, job->request.user, queue_.is_waiting(id), job->request.prompt.size(),
                      job->prompt_computed(), job->generated(), job->request.tokens_max});
  }
  std::sort(list.begin(), list.end(),
            [](const RequestStatus& a, const RequestStatus& b) { return a.id < b.id; });
  return list;
}

SchedulerStatus Scheduler::status() const {
  SchedulerStatus status;
  {
    std::lock_guard lock(mutex_);
    status.waiting = queue_.waiting();
    status.running = queue_.running();
    status.sequence_bytes = queue_.bytes_in_use();
    status.refused = refused_;
  }
  status.lanes = lanes_.size();
  status.sequence_bytes_max = options_.admission.memory_bytes;
  const LaneCounters& counters = shared_.counters;
  status.steps = counters.steps;
  status.rows = counters.rows;
  status.prompt_tokens = counters.prompt_tokens;
  status.cached_tokens = counters.cached_tokens;
  status.generated_tokens = counters.generated_tokens;
  for (size_t reason = 0; reason < kFinishReasons; ++reason)
    status.finished[reason] = counters.finished[reason];
  status.prefixes = prefixes_.counters();
  return status;
}

}  // namespace kvasir::engine
