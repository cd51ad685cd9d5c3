// Tokens in, text out: what generate, chat, perplexity and logits have in common.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
};

struct Answer {
  Stop stop = Stop::kLength;
  // Part of the conversation, but not of the sequence yet: the end of an interrupted prompt, or the
  // last generated token. Whoever goes on feeds them first.
  std::vector<text::TokenId> unfed;
  uint64_t prompt_tokens = 0;  // fed
  double prompt_seconds = 0;
  uint64_t tokens = 0;      // generated, without the one that ended the generation
  double seconds = 0;       // after the prompt
  std::string logits_hash;  // 64 hex digits, unless LogitsHash::kNone
};

using TextSink = std::function<Result<void>(std::string_view text)>;

// Feeds the prompt, then samples until something ends it. `on_text` gets whole characters.
Result<Answer> generate_answer(Session& session, engine::Sequence& sequence,
                               const text::Tokenizer& tokenizer, engine::Sampler& sampler,
                               const AnswerRequest& request, const TextSink& on_text);

// What --stats prints, on standard error: speed of prompt and answer, then memory and kernels.
void print_statistics(Session& session, const Answer& answer, uint64_t seed);
void print_statistics(Session& session);  // the latter only
// One of its lines: "prompt:   12 tokens in 0.05 s, 240.0 tokens/s".
std::string speed_text(std::string_view what, uint64_t tokens, double seconds);

}  // namespace kvasir::cli
