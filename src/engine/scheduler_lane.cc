#include "engine/scheduler_lane.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace kvasir::engine {
namespace {

// Logits of a prompt's rows in one step. 8 rows of Qwen3.5's vocabulary; echoing is rare.
constexpr size_t kPromptLogitsBytes = size_t{8} << 20;

}  // namespace

size_t Lane::prompt_logits_rows_max(const model::Model& model, const EngineOptions& options) {
  const size_t row_bytes = size_t{model.hp.n_vocab} * sizeof(float);
  return std::clamp<size_t>(kPromptLogitsBytes / row_bytes, 1, options.rows_max);
}

Lane::Lane(Engine& engine, Turn& turn, LaneShared& shared, size_t prefill_rows_while_decoding,
           size_t jobs_max)
    : engine_(engine),
      turn_(turn),
      shared_(shared),
      n_vocab_(engine.model().hp.n_vocab),
      is_recurrent_(engine.model().hp.n_delta_layers() != 0),
      doubts_reader_(shared.doubts.add_reader()),
      planner_({engine.options().rows_max, prefill_rows_while_decoding,
                prompt_logits_rows_max(engine.model(), engine.options())}),
      // The last row of each job, or the prompt rows of some.
      logits_rows_max_(std::min(jobs_max, engine.options().rows_max) +
                       prompt_logits_rows_max(engine.model(), engine.options())),
      // Not cleared: pages that are never needed are never there.
      logits_(new float[logits_rows_max_ * n_vocab_]) {}

void Lane::add(std::shared_ptr<Job> job) {
  jobs_.push_back(std::move(job));
}

// Finds what is known of the prompt. The last token is always computed: its logits are wanted.
void Lane::start(Job& job) {
  const Request& request = job.request;
  job.before_end = [this](Job& ended, FinishReason reason) { before_end(ended, reason); };
  PrefixCache::Match match;
  if (shared_.prefixes != nullptr && request.prefix_reuse == PrefixReuse::kOn &&
      !request.wants_prompt_logprobs)
    match = shared_.prefixes->find(request.prefix_scope, request.prompt, request.prompt.size() - 1);
  if (match.length < shared_.prefix_options.tokens_min) match = {};

  auto sequence = engine_.new_sequence(request.prompt.size() + request.tokens_max);
  if (!sequence) return job.finish(FinishReason::kFailed, std::move(sequence.error()));
  if (match.length != 0) {
    auto restored = (*sequence)->restore(*match.snapshot, match.length);
    if (!restored) return job.finish(FinishReason::kFailed, std::move(restored.error()));
  }
  auto lineage = std::make_shared<Lineage>();
  if (match.length != 0 && match.snapshot->lineage) *lineage = *match.snapshot->lineage;
  lineage->push_back(std::make_shared<SequenceOwner>(engine_.experts(), (*sequence)->id()));
  (*sequence)->set_lineage(std::move(lineage));
  job.start(std::move(*sequence), match.length);
  if (!job.is_again()) place_snapshots(job);
  job.tell_progress(match.length);
}

void Lane::place_snapshots(Job& job) const {
  const Request& request = job.request;
  if (shared_.prefixes == nullptr || request.prefix_reuse == PrefixReuse::kOff) return;
  const size_t n = request.prompt.size();
  const PrefixOptions& options = shared_.prefix_options;
  std::vector<size_t>& places = job.snapshot_places;
  if (is_recurrent_) {
    places = request.turn_ends;
    if (places.empty()) places.push_back(n - 1);
    size_t stride = std::max<size_t>(options.stride_tokens, 1);
    while (n / stride > options.stride_snapshots_max) stride *= 2;
    for (size_t place = stride; place < n; place += stride) places.push_back(place);
  } else {
    places = {n};  // any prefix of it can be had
  }
  const size_t from = job.sequence()->position();
  std::erase_if(places, [&](size_t place) {
    return place <= from || place > n || place < options.tokens_min;
  });
  std::sort(places.begin(), places.end(), std::greater<>());
  places.erase(std::unique(places.begin(), places.end()), places.end());
}

void Lane::keep_snapshot(Job& job) const {
  const Sequence& sequence = *job.sequence();
  const auto tokens = job.tokens().first(sequence.position());
  // Pages that it shares with snapshots of the cache are counted there once; here they may be
  // counted again, which matters only where the budget is hardly larger than one sequence.
  const uint64_t bytes =
      Sequence::bytes(engine_.model().hp, sequence.kv_type(), sequence.position());
  if (!shared_.prefixes->wants(job.request.prefix_scope, tokens, bytes)) return;
  if (auto snapshot = sequence.snapshot()) {
    shared_.doubts.if_nothing_new(doubts_reader_, [&] {
      shared_.prefixes->store(job.request.prefix_scope, tokens, std::move(snapshot));
    });
  }
}

// An answer that has ended is the beginning of the next question.
void Lane::before_end(Job& job, FinishReason reason) const {
  if (shared_.prefixes == nullptr || job.request.prefix_reuse == PrefixReuse::kOff) return;
  if (reason != FinishReason::kLength && reason != FinishReason::kStop) return;
  if (job.sequence()->position() >= shared_.prefix_options.tokens_min) keep_snapshot(job);
}

Standing Lane::standing(Job& job) const {
  if (job.prompt_is_done()) return {job.id, 0, false};
  const size_t position = job.sequence()->position();
  size_t end = job.request.prompt.size();
  if (job.is_again()) {
    // Up to the row whose logits gave the first token, then all that is known of the answer.
    if (position + 1 < end) return {job.id, end - 1 - position, false};
    return {job.id, job.tokens().size() - position, true};
  }
  if (!job.snapshot_places.empty()) end = std::min(end, job.snapshot_places.back());
  return {job.id, end - position, job.request.wants_prompt_logprobs};
}

std::vector<std::shared_ptr<Job>> Lane::step() {
  for (auto& job : jobs_) {
    if (job->cancelled())
      job->finish(FinishReason::kCancelled);
    else if (job->sequence() == nullptr)
      start(*job);
  }
  std::vector<std::shared_ptr<Job>> finished = take_finished();
  if (jobs_.empty()) return finished;

  std::vector<Standing> standings;
  for (auto& job : jobs_) standings.push_back(standing(*job));
  const bool decodes_elsewhere =
      shared_.counters.decoding.load(std::memory_order_relaxed) > decoding_;
  run(planner_.plan(standings, decodes_elsewhere));
  for (auto& job : take_finished()) finished.push_back(std::move(job));
  return finished;
}

std::vector<std::shared_ptr<Job>> Lane::take_finished() {
  std::vector<std::shared_ptr<Job>> finished;
  std::erase_if(jobs_, [&](std::shared_ptr<Job>& job) {
    if (!job->finished()) return false;
    finished.push_back(std::move(job));
    return true;
  });
  const auto decoding = static_cast<size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& job) { return job->prompt_is_done(); }));
  // Wraps around like every unsigned number, so the sum over lanes is right.
  shared_.counters.decoding.fetch_add(uint64_t{decoding} - decoding_, std::memory_order_relaxed);
  decoding_ = decoding;

  LaneCounters& counters = shared_.counters;
  for (const auto& job : finished) {
    ++counters.finished[static_cast<size_t>(job->reason())];
    counters.prompt_tokens += job->usage().prompt_tokens;
    counters.cached_tokens += job->usage().cached_tokens;
    counters.generated_tokens += job->usage().generated_tokens;
  }
  return finished;
}

// Computes the rows of a step and goes on with whatever came out.
void Lane::run(std::span<const RowShare> shares) {
  rows_.clear();
  size_t n_logits = 0;
  for (const RowShare& share : shares) {
    Job& job = *jobs_[share.index];
    const size_t begin = job.sequence()->position();
    for (size_t i = begin; i < begin + share.rows; ++i) {
      const bool is_last = i + 1 == job.tokens().size() && job.request.tokens_max != 0;
      const bool is_prompt = i + 1 < job.request.prompt.size();
      const bool is_to_confirm = job.is_again() && !is_prompt;
      const bool wants_logits =
          is_last || is_to_confirm || (is_prompt && job.request.wants_prompt_logprobs);
      rows_.push_back({job.sequence(), job.tokens()[i], wants_logits});
      n_logits += wants_logits ? 1 : 0;
    }
  }
  KVASIR_CHECK(n_logits <= logits_rows_max_);
  const std::span<float> logits{logits_.get(), n_logits * n_vocab_};

  auto failures = [&] {
    const TurnHolder turn(turn_);
    return engine_.forward(rows_, logits);
  }();
  if (!failures) {
    // Nothing was computed, because of one of them, whose cache cannot grow: one by one it shows.
    if (shares.size() == 1)
      return jobs_[shares.front().index]->finish(FinishReason::kFailed,
                                                 std::move(failures.error()));
    for (const RowShare& share : shares) run({&share, 1});
    return;
  }
  ++shared_.counters.steps;
  shared_.counters.rows += rows_.size();
  hear_doubts();

  size_t row = 0;
  const float* next = logits.data();
  for (const RowShare& share : shares) {
    Job& job = *jobs_[share.index];
    size_t n = 0;
    for (const size_t end = row + share.rows; row < end; ++row) n += rows_[row].wants_logits;
    const std::span<const float> of_job{next, n * n_vocab_};
    next += n * n_vocab_;
    if (job.finished() || job.sequence() == nullptr)
      continue;  // in doubt
    else if (job.cancelled())
      job.finish(FinishReason::kCancelled);
    else if (job.sequence()->failure())
      job.finish(FinishReason::kFailed, job.sequence()->failure());
    else
      after_rows(job, share.rows, of_job);
  }
}

void Lane::hear_doubts() {
  if (const auto doubted = engine_.experts().take_doubted(); !doubted.empty()) {
    shared_.doubts.tell(doubted, [&] {
      if (shared_.prefixes != nullptr) shared_.prefixes->drop_doubted(doubted);
    });
  }
  const auto doubted = shared_.doubts.take(doubts_reader_);
  if (doubted.empty()) return;
  for (auto& job : jobs_)
    if (!job->finished() && job->sequence() != nullptr &&
        is_doubted(*job->sequence()->lineage(), doubted))
      job->begin_again(shared_.never);
}

void Lane::confirm_rows(Job& job, size_t rows, std::span<const float> logits) {
  const size_t position = job.sequence()->position();
  const size_t n_prompt = job.request.prompt.size();
  for (size_t i = std::max(position - rows + 1, n_prompt);
       i < std::min(position + 1, job.tokens().size()) && !job.finished(); ++i) {
    job.confirm(i, logits.first(n_vocab_), shared_.never);
    logits = logits.subspan(n_vocab_);
  }
}

// logits: of the rows that wanted them.
void Lane::after_rows(Job& job, size_t rows, std::span<const float> logits) {
  const Request& request = job.request;
  const size_t position = job.sequence()->position();
  const size_t n_prompt = request.prompt.size();
  if (!job.prompt_is_done()) {
    if (!job.snapshot_places.empty() && job.snapshot_places.back() == position) {
      job.snapshot_places.pop_back();
      keep_snapshot(job);
    }
    if (request.wants_prompt_logprobs) tell_prompt_logprobs(job, position - rows + 1, logits);
    job.tell_progress(std::min(position, n_prompt));
    if (job.is_again()) {
      confirm_rows(job, rows, logits);
      if (job.finished() || position < job.tokens().size()) return;
    }
    if (position < n_prompt) return;
    job.set_prompt_done();
    if (request.tokens_max == 0) return job.finish(FinishReason::kLength);
  }
  job.sample(logits.last(n_vocab_), shared_.never);
}

// first: the token that the first row of logits is about.
void Lane::tell_prompt_logprobs(Job& job, size_t first, std::span<const float> logits) const {
  const auto& prompt = job.request.prompt;
  PromptLogprobs event{first, {}};
  for (size_t token = first; token < std::min(prompt.size(), first + logits.size() / n_vocab_);
       ++token)
    event.of_tokens.push_back(logprobs_of(logits.subspan((token - first) * n_vocab_, n_vocab_),
                                          prompt[token], job.request.n_top_logprobs,
                                          shared_.never));
  if (!event.of_tokens.empty()) job.emit(event);
}

}  // namespace kvasir::engine
