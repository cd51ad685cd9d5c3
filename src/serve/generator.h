// The seam between the API and whatever makes text: an order made of token ids goes in, events of
// whole characters come out. Tests put a script in the scheduler's place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "api/answer.h"
#include "engine/scheduler.h"
#include "serve/answer_constraint.h"

namespace kvasir::serve {

struct GenerationOrder {
  std::string user;          // whom to be fair to
  std::string prefix_scope;  // only orders of one scope reuse each other's prefixes
  std::vector<int32_t> prompt;
  std::vector<size_t> turn_ends;  // see engine::Request
  size_t tokens_max = 0;
  engine::SamplerOptions sampler;
  std::vector<std::string> stops;  // none is empty
  std::optional<ConstraintPlan> constraint;
  bool wants_logprobs = false;
  bool wants_prompt_logprobs = false;
  size_t n_top_logprobs = 0;
  bool wants_logits_hash = false;
};

// Text that is certain: whole characters, and no part of a stop string.
struct TextPiece {
  std::string text;                         // may be empty
  std::vector<api::TokenLogprob> logprobs;  // of tokens whose text is out, if they were asked for
  size_t tokens = 0;                        // that were generated since the last piece
};
// Of the whole prompt, once, before any TextPiece. The first token has no probability.
struct PromptScores {
  std::vector<api::TokenLogprob> tokens;
};
// The last event of every generation, exactly once.
struct GenerationEnded {
  engine::FinishReason reason = engine::FinishReason::kStop;
  std::string stop;            // the stop string that ended it
  std::optional<Error> error;  // of kFailed
  engine::Usage usage;
  std::string logits_hash;
};
using GenerationEvent =
    std::variant<engine::PromptProgress, PromptScores, TextPiece, GenerationEnded>;
// Called on other threads, one call at a time. Must not block and must not throw.
using GenerationSink = std::function<void(GenerationEvent event)>;

// Thread-safe.
class Generator {
 public:
  virtual ~Generator() = default;
  // The number of the generation; its events may begin before this returns.
  using Submitted = tl::expected<uint64_t, engine::Refused>;
  virtual Submitted submit(GenerationOrder order, GenerationSink sink) = 0;
  // The last event comes in any case. Numbers that are over are ignored.
  virtual void cancel(uint64_t generation) = 0;

  virtual engine::SchedulerStatus status() const = 0;
  virtual std::vector<engine::RequestStatus> requests() const = 0;
};

}  // namespace kvasir::serve
