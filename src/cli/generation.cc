#include "cli/generation.h"

#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "cli/interrupt.h"
#include "cli/parsing.h"
#include "text/detokenizer.h"

namespace kvasir::cli {
namespace {

using Clock = std::chrono::steady_clock;

// When every row's logits are wanted, fewer rows are computed at a time in a large vocabulary (128
// rows of Qwen3.5 would be 121 MiB). The bits do not depend on it.
constexpr size_t kLogitsBytesMax = size_t{32} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

uint64_t peak_resident_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

double percent(uint64_t part, uint64_t all) {
  return all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

std::string store_text(const expert::StoredExpertService& store) {
  const expert::StoreCounters now = store.counters();
  const double reading_seconds = static_cast<double>(now.reading_ns) * 1e-9;
  return fmt::format(
      "experts:  {} slots of {}, {} in use, {} evicted\n"
      "          {:.1f} % found in memory ({} of {}); guessed {}, {:.0f} % of them right\n"
      "          {} read by {}{} in {:.2f} s ({:.0f} MB/s), {:.2f} s of it waited for, {} failed\n",
      now.slots, bytes_text(now.slot_bytes), now.experts_cached, now.evictions,
      percent(now.hits, now.hits + now.misses), now.hits, now.hits + now.misses, now.guesses,
      percent(now.guesses_right, now.guesses), bytes_text(now.bytes_read), store.read_method(),
      store.reads_directly() ? "" : " through the page cache", reading_seconds,
      reading_seconds == 0 ? 0.0 : static_cast<double>(now.bytes_read) / reading_seconds * 1e-6,
      static_cast<double>(now.stall_ns) * 1e-9, now.reads_failed);
}

}  // namespace

Result<LengthPlan> plan_length(uint64_t prompt_tokens, std::optional<uint64_t> asked,
                               uint64_t default_tokens, uint64_t context) {
  if (prompt_tokens > context) {
    return Error::limit("the prompt has {}, the context {}", counted(prompt_tokens, "token"),
                        context)
        .with_hint(fmt::format("shorten it, or raise the context:  --ctx {}",
                               prompt_tokens + asked.value_or(default_tokens)));
  }
  const uint64_t room = context - prompt_tokens;
  if (asked && *asked > room) {
    return Error::limit("a prompt of {} and {} to generate need {}, the context has {}",
                        counted(prompt_tokens, "token"), *asked, prompt_tokens + *asked, context)
        .with_hint(fmt::format("generate at most -n {}, or raise the context:  --ctx {}", room,
                               prompt_tokens + *asked));
  }
  if (asked) return LengthPlan{*asked, false};
  if (room == 0) {
    return Error::limit("the prompt fills the context: both have {}", counted(context, "token"))
        .with_hint(fmt::format("shorten it, or raise the context:  --ctx {}",
                               prompt_tokens + default_tokens));
  }
  return LengthPlan{std::min(room, default_tokens), room < default_tokens};
}

Result<size_t> feed(Session& session, engine::Sequence& sequence,
                    std::span<const text::TokenId> tokens, LogitsOf which, const LogitsSink& sink) {
  const size_t n_vocab = session.n_vocab();
  const bool every = which == LogitsOf::kEveryToken;
  size_t rows_max = session.options().rows_max;
  if (every)
    rows_max = std::clamp<size_t>(kLogitsBytesMax / (n_vocab * sizeof(float)), 1, rows_max);
  std::vector<engine::Row> rows;
  std::vector<float> logits;
  for (size_t fed = 0; fed < tokens.size();) {
    if (InterruptScope::requested()) return fed;
    const size_t count = std::min(rows_max, tokens.size() - fed);
    rows.clear();
    for (size_t i = fed; i < fed + count; ++i)
      rows.push_back({&sequence, tokens[i], every || i + 1 == tokens.size()});
    const size_t with_logits = every ? count : rows.back().wants_logits ? 1 : 0;
    logits.resize(with_logits * n_vocab);
    KVASIR_TRY(std::vector<engine::SequenceFailure> failures,
               session.forward(sequence, rows, logits));
    if (!failures.empty()) return std::move(failures.front().error);
    for (size_t row = 0; row < with_logits; ++row)
      KVASIR_TRY_VOID(sink(std::span<const float>(logits).subspan(row * n_vocab, n_vocab)));
    fed += count;
  }
  return tokens.size();
}

std::string_view stop_text(Stop stop) {
  switch (stop) {
    case Stop::kLength:
      return "length reached";
    case Stop::kEndOfGeneration:
      return "the model ended it";
    case Stop::kStopString:
      return "stop string";
    case Stop::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

Generation::Generation(Session& session, const text::Tokenizer& tokenizer,
                       engine::SamplerOptions sampling)
    : session_(session),
      tokenizer_(tokenizer),
      sampling_(std::move(sampling)),
      never_(never_sampled(tokenizer, session.n_vocab())),
      sampler_(sampling_, never_) {}

Result<void> Generation::reset() {
  KVASIR_TRY(sequence_, session_.new_sequence());
  sampler_ = engine::Sampler(sampling_, never_);
  history_.clear();
  events_.clear();
  return {};
}

void Generation::accept(text::TokenId id) {
  sampler_.accept(id);
  events_.push_back({id, false, 0});
}

text::TokenId Generation::sample() {
  if (hash_kind_ == LogitsHash::kSampled) hash_->update(std::as_bytes(std::span(logits_)));
  const text::TokenId id = sampler_.sample(logits_);
  sampler_.accept(id);
  events_.push_back({id, true, sequence_->position()});
  return id;
}

Result<bool> Generation::feed_rest(LogitsOf which) {
  // Rows are hashed once each, in the order of positions: with kAll when they are computed, with
  // kSampled when they are sampled from.
  const LogitsSink keep = [this](std::span<const float> row) -> Result<void> {
    if (hash_kind_ == LogitsHash::kAll) hash_->update(std::as_bytes(row));
    logits_.assign(row.begin(), row.end());
    return {};
  };
  while (sequence_->position() < history_.size()) {
    const auto rest = std::span(history_).subspan(sequence_->position());
    auto fed = feed(session_, *sequence_, rest, which, keep);
    if (fed) return *fed == rest.size();
    if (fed.error().kind != ErrorKind::kUntrusted) return std::move(fed.error());
    KVASIR_TRY_VOID(compute_again());
  }
  return true;
}

Result<void> Generation::compute_again() {
  const std::vector<text::TokenId> tokens(
      history_.begin(), history_.begin() + static_cast<ptrdiff_t>(sequence_->position()));
  fmt::print(stderr, "note:  a worker gave a wrong answer; {} are computed again\n",
             counted(tokens.size(), "token"));
  for (;;) {
    // Each time there is one worker less that could lie.
    KVASIR_TRY(const bool done, replay(tokens));
    if (done) return {};
  }
}

Result<bool> Generation::replay(std::span<const text::TokenId> tokens) {
  KVASIR_TRY(sequence_, session_.new_sequence());
  sampler_ = engine::Sampler(sampling_, never_);
  hash_.emplace();
  size_t position = 0;  // tokens whose logits were seen
  size_t next = 0;      // of events_
  bool differs = false;
  // What the sampler was told until it was asked about a later position.
  const auto catch_up = [&]() -> Result<void> {
    for (; next < events_.size(); ++next) {
      const Event& event = events_[next];
      if (event.sampled && event.position != position) return {};
      if (event.sampled) {
        if (hash_kind_ == LogitsHash::kSampled && position > hash_from_)
          hash_->update(std::as_bytes(std::span(logits_)));
        if (sampler_.sample(logits_) != event.id) {
          differs = true;
          return Error::untrusted(
                     "a worker gave a wrong answer: what follows token {} should have been another "
                     "text",
                     position)
              .with_hint(
                  "run this again: that worker does not compute any more; --verify all checks "
                  "every answer before it is used");
        }
      }
      sampler_.accept(event.id);
    }
    return {};
  };
  KVASIR_TRY_VOID(catch_up());
  const LogitsSink check = [&](std::span<const float> row) -> Result<void> {
    if (hash_kind_ == LogitsHash::kAll && position >= hash_from_) hash_->update(std::as_bytes(row));
    logits_.assign(row.begin(), row.end());
    ++position;
    return catch_up();
  };
  auto fed = feed(session_, *sequence_, tokens, LogitsOf::kEveryToken, check);
  if (fed && *fed == tokens.size()) return true;
  if (fed) return Error::io("interrupted while a text was computed again");
  if (fed.error().kind == ErrorKind::kUntrusted && !differs) return false;
  return std::move(fed.error());
}

Result<Answer> Generation::answer(const AnswerRequest& request, const TextSink& on_text) {
  Answer answer;
  hash_.emplace();
  hash_kind_ = request.hash;
  hash_from_ = sequence_->position();
  history_.insert(history_.end(), request.prompt.begin(), request.prompt.end());
  for (text::TokenId id : request.prompt) accept(id);

  const Clock::time_point start = Clock::now();
  KVASIR_TRY(bool is_fed, feed_rest(request.hash == LogitsHash::kAll ? LogitsOf::kEveryToken
                                                                     : LogitsOf::kLastToken));
  answer.prompt_tokens = sequence_->position() - hash_from_;
  answer.prompt_seconds = seconds_since(start);

  const Clock::time_point answer_start = Clock::now();
  text::Detokenizer detokenizer(request.stops);
  const auto emit = [&](const std::string& text) -> Result<void> {
    if (text.empty()) return {};
    return on_text(text);
  };
  answer.stop = is_fed ? Stop::kLength : Stop::kInterrupted;
  while (answer.tokens < request.tokens_max) {
    KVASIR_TRY(is_fed, feed_rest(LogitsOf::kLastToken));
    if (!is_fed) {
      answer.stop = Stop::kInterrupted;
      break;
    }
    const text::TokenId id = sample();
    if (tokenizer_.is_end_of_generation(id)) {
      answer.stop = Stop::kEndOfGeneration;
      break;
    }
    history_.push_back(id);
    ++answer.tokens;
    KVASIR_TRY_VOID(emit(detokenizer.push(tokenizer_.bytes(id))));
    if (detokenizer.stopped()) {
      answer.stop = Stop::kStopString;
      break;
    }
    if (request.pace) {
      const std::chrono::duration<double> due(static_cast<double>(answer.tokens) /
                                              static_cast<double>(*request.pace));
      std::this_thread::sleep_until(answer_start +
                                    std::chrono::duration_cast<Clock::duration>(due));
    }
  }
  KVASIR_TRY_VOID(emit(detokenizer.finish()));
  answer.seconds = seconds_since(answer_start);
  if (request.hash != LogitsHash::kNone) answer.logits_hash = hash_->hex();
  return answer;
}

std::string speed_text(std::string_view what, uint64_t tokens, double seconds) {
  std::string text = fmt::format("{:<10}{}", fmt::format("{}:", what), counted(tokens, "token"));
  if (seconds > 0) {
    text += fmt::format(" in {:.2f} s, {:.1f} tokens/s", seconds,
                        static_cast<double>(tokens) / seconds);
  }
  return text;
}

void print_statistics(Session& session, const Answer& answer, uint64_t seed) {
  fmt::print(stderr, "{}\n{} ({})\n",
             speed_text("prompt", answer.prompt_tokens, answer.prompt_seconds),
             speed_text("answer", answer.tokens, answer.seconds), stop_text(answer.stop));
  print_statistics(session);
  fmt::print(stderr, "seed:     {}\n", seed);
}

void print_statistics(Session& session) {
  const engine::MemoryNeed& memory = session.memory();
  const engine::EngineOptions& options = session.options();
  fmt::print(stderr,
             "memory:   {} at the peak; weights {} ({}), keys and values {} for {}, recurrent "
             "state {}, scratch {}\n",
             bytes_text(peak_resident_bytes()), bytes_text(memory.weights),
             session.store() != nullptr ? "experts in a store, the rest mapped" : "mapped",
             bytes_text(memory.kv_cache), counted(session.context(), "token"),
             bytes_text(memory.recurrent), bytes_text(memory.scratch));
  if (session.store() != nullptr) fmt::print(stderr, "{}", store_text(*session.store()));
  fmt::print(stderr,
             "kernels:  {}, {}, arithmetic version {}, kv type {}, output encoding {}, chunks "
             "of {}\n",
             session.kernels().name, counted(session.threads(), "thread"),
             kernels::kArithmeticVersion, options.kv_type == kernels::KvType::kF16 ? "f16" : "f32",
             expert::encoding_name(options.encoding), options.rows_max);
}

}  // namespace kvasir::cli
