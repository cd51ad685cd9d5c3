// Tokens in, text out: what generate, chat, perplexity and logits have in common.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "cli/options.h"
#include "cli/session.h"
#include "engine/sampler.h"
#include "text/tokenizer.h"

namespace kvasir::cli {

// How many tokens to generate. An asked-for number that does not fit into the context is a kLimit
// error with both numbers; the default one is shortened.
struct LengthPlan {
  uint64_t tokens = 0;
  bool shortened = false;
};
Result<LengthPlan> plan_length(uint64_t prompt_tokens, std::optional<uint64_t> asked,
                               uint64_t default_tokens, uint64_t context);

enum class LogitsOf : uint8_t { kLastToken, kEveryToken };
// [n_vocab]; valid during the call only.
using LogitsSink = std::function<Result<void>(std::span<const float> logits)>;

// Appends tokens to a sequence in chunks of the engine's size. Returns how many it took: fewer than
// all if Ctrl-C was pressed, then without a call for the last token.
Result<size_t> feed(Session& session, engine::Sequence& sequence,
                    std::span<const text::TokenId> tokens, LogitsOf which, const LogitsSink& sink);

enum class Stop : uint8_t { kLength, kEndOfGeneration, kStopString, kInterrupted };
std::string_view stop_text(Stop stop);

struct AnswerRequest {
  std::span<const text::TokenId> prompt;
  uint64_t tokens_max = 0;
  std::vector<std::string> stops;
  LogitsHash hash = LogitsHash::kNone;
  std::optional<uint64_t> pace;  // tokens per second at most
};

struct Answer {
  Stop stop = Stop::kLength;
  uint64_t prompt_tokens = 0;  // fed
  double prompt_seconds = 0;
  uint64_t tokens = 0;      // generated, without the one that ended the generation
  double seconds = 0;       // after the prompt
  std::string logits_hash;  // 64 hex digits, unless LogitsHash::kNone
};

using TextSink = std::function<Result<void>(std::string_view text)>;

// A text that is being generated: its sequence, its sampler, and how both came to be where they
// are, so that it can be computed again when a worker turns out to have lied. One thread.
class Generation {
 public:
  // All outlive this.
  Generation(Session& session, const text::Tokenizer& tokenizer, engine::SamplerOptions sampling);

  // From nothing. Before anything else, too.
  Result<void> reset();
  // Tokens so far, those that are still to be fed included.
  size_t size() const { return history_.size(); }

  // Feeds what an earlier answer left unfed (the end of an interrupted prompt, or the last token)
  // and the prompt, then samples until something ends it. `on_text` gets whole characters.
  // kUntrusted if text that was given to `on_text` would have been another without a worker's lie.
  Result<Answer> answer(const AnswerRequest& request, const TextSink& on_text);

 private:
  // What the sampler was told or asked, in order.
  struct Event {
    text::TokenId id = 0;
    bool sampled = false;
    size_t position = 0;  // tokens in the sequence when it was sampled
  };

  void accept(text::TokenId id);
  text::TokenId sample();
  // The rest of the history. Returns false if Ctrl-C was pressed.
  Result<bool> feed_rest(LogitsOf which);
  // Computes everything again that the sequence has seen, and samples again what was sampled.
  Result<void> compute_again();
  // One pass of it. False if another wrong answer came between.
  Result<bool> replay(std::span<const text::TokenId> tokens);

  Session& session_;
  const text::Tokenizer& tokenizer_;
  const engine::SamplerOptions sampling_;
  const std::vector<text::TokenId> never_;
  std::unique_ptr<engine::Sequence> sequence_;
  engine::Sampler sampler_;
  std::vector<text::TokenId> history_;  // all of the sequence, then what was not fed yet
  std::vector<Event> events_;
  std::vector<float> logits_;  // of the last token of the sequence
  LogitsHash hash_kind_ = LogitsHash::kNone;
  size_t hash_from_ = 0;  // position at which this answer began
  std::optional<Sha256> hash_;
};

// What --stats prints, on standard error: speed of prompt and answer, then memory and kernels.
void print_statistics(Session& session, const Answer& answer, uint64_t seed);
void print_statistics(Session& session);  // the latter only
// One of its lines: "prompt:   12 tokens in 0.05 s, 240.0 tokens/s".
std::string speed_text(std::string_view what, uint64_t tokens, double seconds);

}  // namespace kvasir::cli
