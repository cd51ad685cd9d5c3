// What somebody wants to have generated, and what is told about it meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/sampler.h"

namespace kvasir::engine {

// Restricts what may be sampled, a grammar for example. One generation's own; called on the
// scheduler's threads, one call at a time. An Error ends the request with it.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // words: all zero. Sets bit id % 64 of word id / 64 for every token that may come next, those
  // that end the generation included; none at all ends the request as failed.
  virtual Result<void> allow(std::span<uint64_t> words) = 0;
  virtual Result<void> accept(int32_t token) = 0;
  // The generation is computed again from its beginning, because what it was built on turned out to
  // be false.
  virtual Result<void> restart() {
    return Error::untrusted("a restricted answer cannot be computed again");
  }
};

// What a token just sampled means for its generation.
enum class AfterToken : uint8_t {
  kGoOn,
  kEndWithout,  // the token ends it and is no part of the answer: an end-of-turn token
  kEndWith,     // the token is the last of the answer: it completes a stop string
};

// Called for every sampled token in order; may keep state, a detokenizer that watches for stop
// strings for example.
using EndCheck = std::function<AfterToken(int32_t token)>;

// A place in the queue was had, and the request runs (done = tokens taken from the prefix cache),
// or more of the prompt has been computed.
struct PromptProgress {
  size_t done = 0, total = 0;
};

// Of prompt tokens first .. first + size - 1, in order over all events: what the model thought of
// each, given those before it. The first token of a prompt has none.
struct PromptLogprobs {
  size_t first = 0;
  std::vector<Logprobs> of_tokens;
};

struct TokenGenerated {
  int32_t token = 0;
  std::optional<Logprobs> logprobs;  // if they were asked for
};

enum class FinishReason : uint8_t { kLength, kStop, kCancelled, kFailed };
inline constexpr size_t kFinishReasons = 4;
std::string_view finish_reason_name(FinishReason reason);

struct Usage {
  size_t prompt_tokens = 0;
  size_t cached_tokens = 0;     // of them, taken from the prefix cache
  size_t generated_tokens = 0;  // without one that only ended the answer
};

// The last event of every request, exactly once.
struct Finished {
  FinishReason reason = FinishReason::kLength;
  std::optional<Error> error;  // of kFailed
  Usage usage;
  std::string logits_hash;  // SHA-256 over the logits sampled from, 64 hex digits, if asked for
};

using Event = std::variant<PromptProgress, PromptLogprobs, TokenGenerated, Finished>;

// Events of one request come in order, one at a time: from the scheduler's threads, and from the
// one that cancels a request which still waits. Must not block (everything else waits meanwhile)
// and must not throw. Their number is bounded by the request's tokens, so a queue behind it is,
// too.
using EventSink = std::function<void(const Event& event)>;

enum class PrefixReuse : uint8_t { kOn, kOff };

struct Request {
  std::string user;                             // whom to be fair to: a key or an address
  std::vector<int32_t> prompt;                  // at least one token
  size_t tokens_max = 0;                        // to generate; 0: the prompt only
  SamplerOptions sampler;                       // its seed included
  EndCheck end_check;                           // may be empty
  std::shared_ptr<TokenConstraint> constraint;  // may be null
  bool wants_logprobs = false;
  bool wants_prompt_logprobs = false;  // computes the whole prompt: nothing is taken from the cache
  size_t n_top_logprobs = 0;           // 0 to kTopLogprobsMax, of either kind
  bool wants_logits_hash = false;

  PrefixReuse prefix_reuse = PrefixReuse::kOn;
  std::string prefix_scope;  // only requests of one scope reuse each other's prefixes
  // Numbers of prompt tokens after which other prompts are likely to go on differently: the end of
  // a system prompt, of each turn. None: all but the last token.
  std::vector<size_t> turn_ends;

  EventSink on_event;
};

// Why a request was not even queued. A closed list, for status codes and metric labels.
enum class Refusal : uint8_t {
  kInvalid,        // 400: an option or token outside its range
  kTooLarge,       // 400: more tokens or memory than there will ever be; kLimit with both numbers
  kQueueFull,      // 429: everybody's requests together
  kUserQueueFull,  // 429: this user's
  kClosed,         // 503: shutting down
};
inline constexpr size_t kRefusals = 5;
std::string_view refusal_name(Refusal reason);

struct Refused {
  Refusal reason = Refusal::kInvalid;
  Error error;
};

}  // namespace kvasir::engine
