#include "api/answer.h"

#include "api/answer_parts.h"

namespace kvasir::api {
namespace {

Part& open_part(Choice& choice, Part::Kind kind) {
  if (choice.parts.empty() || choice.parts.back().kind != kind) {
    choice.parts.emplace_back();
    choice.parts.back().kind = kind;
  }
  return choice.parts.back();
}

void append(std::vector<TokenLogprob>& to, const std::vector<TokenLogprob>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void write_bytes(JsonWriter& out, std::string_view bytes) {
  out.key("bytes").begin_array();
  for (const char c : bytes) out.number(uint64_t{static_cast<unsigned char>(c)});
  out.end_array();
}

}  // namespace

std::string Choice::joined(Part::Kind kind) const {
  std::string text;
  for (const Part& part : parts)
    if (part.kind == kind) text += part.text;
  return text;
}

void AnswerCollector::add(const AnswerEvent& event) {
  KVASIR_CHECK(event.choice < choices_.size());
  Choice& choice = choices_[event.choice];
  std::visit(Overloaded{[&](const TextDelta& delta) {
                          append(choice.logprobs, delta.logprobs);
                          if (!delta.text.empty())
                            open_part(choice, Part::Kind::kText).text += delta.text;
                        },
                        [&](const ReasoningDelta& delta) {
                          if (!delta.text.empty())
                            open_part(choice, Part::Kind::kReasoning).text += delta.text;
                        },
                        [&](const ToolCallStart& start) {
                          Part& part = choice.parts.emplace_back();
                          part.kind = Part::Kind::kToolCall;
                          part.call = {start.id, start.name, ""};
                        },
                        [&](const ToolCallArguments& arguments) {
                          KVASIR_CHECK(!choice.parts.empty());
                          choice.parts.back().call.arguments += arguments.fragment;
                        },
                        [&](const ToolCallEnd&) {
                          KVASIR_CHECK(!choice.parts.empty());
                          choice.parts.back().ended = true;
                        },
                        [&](const Finished& finished) {
                          choice.reason = finished.reason;
                          choice.stop = finished.stop;
                        }},
             event.what);
}

void AnswerCollector::begin_part(uint32_t choice, Part::Kind kind) {
  KVASIR_CHECK(choice < choices_.size());
  choices_[choice].parts.emplace_back();
  choices_[choice].parts.back().kind = kind;
}

std::string sse_data(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

std::string sse_event(std::string_view name, std::string_view json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json);
}

std::string sse_comment(std::string_view text) {
  return fmt::format(": {}\n\n", text);
}

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kContentFilter:
      return "content_filter";
  }
  return "stop";
}

void write_usage(JsonWriter& out, const Usage& usage) {
  out.begin_object();
  out.member("prompt_tokens", usage.prompt_tokens);
  out.member("completion_tokens", usage.completion_tokens);
  out.member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.key("prompt_tokens_details").begin_object();
  out.member("cached_tokens", usage.cached_tokens);
  out.end_object();
  out.key("completion_tokens_details").begin_object();
  out.member("reasoning_tokens", usage.reasoning_tokens);
  out.end_object();
  out.end_object();
}

void write_details(JsonWriter& out, const Details& details) {
  out.begin_object();
  out.key("timings").begin_object();
  out.member("queue_ms", details.queue_ms);
  out.member("prefill_ms", details.prefill_ms);
  out.member("decode_ms", details.decode_ms);
  out.end_object();
  out.key("swarm").begin_object();
  out.member("remote_rows", details.remote_rows);
  out.member("local_rows", details.local_rows);
  out.member("hedged", details.hedged_rows);
  out.member("workers", details.workers);
  out.end_object();
  if (!details.logits_hash.empty()) out.member("logits_hash", details.logits_hash);
  out.end_object();
}

void write_logprobs(JsonWriter& out, std::span<const TokenLogprob> logprobs) {
  out.begin_array();
  for (const TokenLogprob& token : logprobs) {
    out.begin_object();
    out.member("token", token.bytes);
    out.member("logprob", token.logprob);
    write_bytes(out, token.bytes);
    out.key("top_logprobs").begin_array();
    for (const TokenAlternative& other : token.top) {
      out.begin_object();
      out.member("token", other.bytes);
      out.member("logprob", other.logprob);
      write_bytes(out, other.bytes);
      out.end_object();
    }
    out.end_array();
    out.end_object();
  }
  out.end_array();
}

void write_progress(JsonWriter& out, uint64_t done, uint64_t total) {
  out.key("prompt_progress").begin_object();
  out.member("total", total);
  out.member("processed", done);
  out.end_object();
}

std::string StreamEncoder::progress(uint64_t done, uint64_t total) {
  return sse_comment(fmt::format("waiting for prefill {}/{}", done, total));
}

std::string StreamEncoder::keep_alive() {
  return sse_comment("still here");
}

std::string whole_answer(const ChatRequest& request, const AnswerHead& head,
                         std::span<const Choice> choices, const Usage& usage,
                         const Details* details) {
  switch (request.dialect) {
    case Dialect::kResponses:
      return responses_answer(request, head, choices, usage);
    case Dialect::kMessages:
      return messages_answer(request, head, choices, usage);
    case Dialect::kChat:
    case Dialect::kCompletions:
      break;
  }
  return chat_answer(request, head, choices, usage, details);
}

std::unique_ptr<StreamEncoder> answer_stream(const ChatRequest& request, AnswerHead head) {
  switch (request.dialect) {
    case Dialect::kResponses:
      return responses_stream(request, std::move(head));
    case Dialect::kMessages:
      return messages_stream(request, std::move(head));
    case Dialect::kChat:
    case Dialect::kCompletions:
      break;
  }
  return chat_stream(request, std::move(head));
}

std::vector<Header> stream_headers() {
  return {{"Content-Type", "text/event-stream; charset=utf-8"},
          {"Cache-Control", "no-cache"},
          {"X-Accel-Buffering", "no"}};  // nginx would gather the events otherwise
}

}  // namespace kvasir::api
