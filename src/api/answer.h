// Answers: neutral events in, the bytes of each dialect out, whole or as a stream of server-sent
// events. Pure: ids and times are handed in. Texts in events are whole UTF-8 characters; whoever
// generates holds back the beginning of one.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/error.h"
#include "api/request.h"

namespace kvasir::api {

struct TokenAlternative {
  std::string bytes;  // may be a part of a character
  double logprob = 0;
};
struct TokenLogprob {
  std::string bytes;
  double logprob = std::numeric_limits<double>::quiet_NaN();  // NaN: none (first of an echo)
  std::vector<TokenAlternative> top;                          // best first
};

enum class FinishReason : uint8_t { kStop, kLength, kToolCalls, kContentFilter };

// What happens to one choice, in this order: any number of deltas and tool calls, then Finished.
// A tool call is Start, Arguments*, End with nothing of the same choice between them; the fragments
// joined are the text of one JSON object. Without End it was cut off.
struct TextDelta {
  std::string text;  // may be empty if only logprobs arrive
  std::vector<TokenLogprob> logprobs;
};
struct ReasoningDelta {
  std::string text;
};
struct ToolCallStart {
  std::string id;
  std::string name;
};
struct ToolCallArguments {
  std::string fragment;  // of JSON text
};
struct ToolCallEnd {};
struct Finished {
  FinishReason reason = FinishReason::kStop;
  std::string stop;  // the stop string that ended it; empty for others
};
using Happening = std::variant<TextDelta, ReasoningDelta, ToolCallStart, ToolCallArguments,
                               ToolCallEnd, Finished>;
struct AnswerEvent {
  uint32_t choice = 0;
  Happening what;
};

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;  // of all choices
  uint64_t cached_tokens = 0;      // of the prompt
  uint64_t reasoning_tokens = 0;   // of the completion
};

// The object "kvasir", only where "kvasir_details" asked for it.
struct Details {
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  uint64_t remote_rows = 0;
  uint64_t local_rows = 0;
  uint64_t hedged_rows = 0;
  uint32_t workers = 0;
  std::string logits_hash;  // may be empty
};

struct AnswerHead {
  std::string id;  // letters and digits; each dialect puts its prefix in front
  int64_t created_s = 0;
  std::string model;        // as /v1/models lists it
  std::string fingerprint;  // of model and arithmetic
};

// One choice with everything that happened to it.
struct Part {
  enum class Kind : uint8_t { kText, kReasoning, kToolCall };
  Kind kind = Kind::kText;
  std::string text;    // of a kText or kReasoning
  ToolCall call;       // of a kToolCall
  bool ended = false;  // of a kToolCall: false if it was cut off, its arguments are no JSON then
};
struct Choice {
  std::vector<Part> parts;  // neighbours of the same kind are one
  std::vector<TokenLogprob> logprobs;
  FinishReason reason = FinishReason::kStop;
  std::string stop;

  std::string joined(Part::Kind kind) const;  // texts of all parts of a kind
};

// Gathers events to choices. One thread.
class AnswerCollector {
 public:
  explicit AnswerCollector(uint32_t choices) : choices_(choices) {}
  // The choice exists.
  void add(const AnswerEvent& event);
  // An empty part, to which deltas of its kind are added.
  void begin_part(uint32_t choice, Part::Kind kind);
  const std::vector<Choice>& choices() const { return choices_; }

 private:
  std::vector<Choice> choices_;
};

// The whole answer as one JSON text. details: null if not asked for.
std::string chat_answer(const ChatRequest& request, const AnswerHead& head,
                        std::span<const Choice> choices, const Usage& usage,
                        const Details* details);
std::string completion_answer(const CompletionRequest& request, const AnswerHead& head,
                              std::span<const Choice> choices, const Usage& usage,
                              const Details* details);
std::string responses_answer(const ChatRequest& request, const AnswerHead& head,
                             std::span<const Choice> choices, const Usage& usage);
std::string messages_answer(const ChatRequest& request, const AnswerHead& head,
                            std::span<const Choice> choices, const Usage& usage);
// By request.dialect.
std::string whole_answer(const ChatRequest& request, const AnswerHead& head,
                         std::span<const Choice> choices, const Usage& usage,
                         const Details* details);

// Server-sent events of one answer. Order of calls: begin, then progress, keep_alive and encode in
// any order, then end; or fail, after which nothing follows. One thread.
class StreamEncoder {
 public:
  virtual ~StreamEncoder() = default;
  // usage: of the prompt, as far as it is known before anything was computed.
  virtual std::string begin(const Usage& usage) = 0;
  virtual std::string encode(const AnswerEvent& event) = 0;
  // Prompt tokens done so far: a comment line, which clients skip and proxies count as life; with
  // "return_progress" a chunk.
  virtual std::string progress(uint64_t done, uint64_t total);
  virtual std::string keep_alive();
  virtual std::string end(const Usage& usage, const Details* details) = 0;
  virtual std::string fail(const ApiError& error, std::string_view request_id) = 0;
};

// The requests need not outlive the encoders.
std::unique_ptr<StreamEncoder> chat_stream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<StreamEncoder> completion_stream(const CompletionRequest& request, AnswerHead head);
std::unique_ptr<StreamEncoder> responses_stream(const ChatRequest& request, AnswerHead head);
std::unique_ptr<StreamEncoder> messages_stream(const ChatRequest& request, AnswerHead head);
// By request.dialect.
std::unique_ptr<StreamEncoder> answer_stream(const ChatRequest& request, AnswerHead head);

// Headers of every streamed answer.
std::vector<Header> stream_headers();

}  // namespace kvasir::api
