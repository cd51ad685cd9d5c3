// Answers of OpenAI's /v1/chat/completions.
#include "api/openai_stream.h"

namespace kvasir::api {
namespace {

void write_head(JsonWriter& out, const AnswerHead& head, std::string_view object) {
  out.member("id", "chatcmpl-" + head.id);
  out.member("object", object);
  out.member("created", head.created_s);
  out.member("model", head.model);
  out.member("system_fingerprint", head.fingerprint);
}

void write_choice_logprobs(JsonWriter& out, std::span<const TokenLogprob> logprobs) {
  out.begin_object();
  out.key("content");
  write_logprobs(out, logprobs);
  out.key("refusal").null();
  out.end_object();
}

void write_tool_calls(JsonWriter& out, const Choice& choice) {
  bool any = false;
  for (const Part& part : choice.parts) {
    if (part.kind != Part::Kind::kToolCall) continue;
    if (!any) out.key("tool_calls").begin_array();
    any = true;
    out.begin_object();
    out.member("id", part.call.id);
    out.member("type", "function");
    out.key("function").begin_object();
    out.member("name", part.call.name);
    out.member("arguments", part.call.arguments);
    out.end_object();
    out.end_object();
  }
  if (any) out.end_array();
}

void write_message(JsonWriter& out, const Choice& choice) {
  const std::string text = choice.joined(Part::Kind::kText);
  const std::string reasoning = choice.joined(Part::Kind::kReasoning);
  const bool only_calls = text.empty() && choice.reason == FinishReason::kToolCalls;
  out.begin_object();
  out.member("role", "assistant");
  out.key("content");
  if (only_calls) {
    out.null();
  } else {
    out.text(text);
  }
  out.key("refusal").null();
  if (!reasoning.empty()) out.member("reasoning_content", reasoning);
  write_tool_calls(out, choice);
  out.end_object();
}

class ChatStream final : public OpenAiStream {
 public:
  ChatStream(const ChatRequest& request, AnswerHead head)
      : OpenAiStream(request, std::move(head)), calls_(request.choices, 0) {}

  std::string begin(const Usage&) override {
    std::string bytes;
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      bytes += chunk(i, [](JsonWriter& out) {
        out.member("role", "assistant");
        out.member("content", "");
      });
    }
    return bytes;
  }

  std::string encode(const AnswerEvent& event) override {
    KVASIR_CHECK(event.choice < calls_.size());
    const uint32_t i = event.choice;
    return std::visit(Overloaded{[&](const TextDelta& delta) { return text(i, delta); },
                                 [&](const ReasoningDelta& delta) {
                                   if (delta.text.empty()) return std::string();
                                   return chunk(i, [&](JsonWriter& out) {
                                     out.member("reasoning_content", delta.text);
                                   });
                                 },
                                 [&](const ToolCallStart& start) {
                                   return call_chunk(i, calls_[i]++, [&](JsonWriter& out) {
                                     out.member("id", start.id);
                                     out.member("type", "function");
                                     out.key("function").begin_object();
                                     out.member("name", start.name);
                                     out.member("arguments", "");
                                     out.end_object();
                                   });
                                 },
                                 [&](const ToolCallArguments& arguments) {
                                   return call_chunk(i, calls_[i] - 1, [&](JsonWriter& out) {
                                     out.key("function").begin_object();
                                     out.member("arguments", arguments.fragment);
                                     out.end_object();
                                   });
                                 },
                                 [](const ToolCallEnd&) { return std::string(); },
                                 [&](const Finished& finished) {
                                   return chunk(
                                       i, [](JsonWriter&) {}, {}, finish_name(finished.reason));
                                 }},
                      event.what);
  }

 private:
  void write_chunk_head(JsonWriter& out) const override {
    write_head(out, head_, "chat.completion.chunk");
  }

  std::string text(uint32_t choice, const TextDelta& delta) const {
    if (delta.text.empty() && (!logprobs_ || delta.logprobs.empty())) return {};
    return chunk(
        choice, [&](JsonWriter& out) { out.member("content", delta.text); }, delta.logprobs);
  }

  template <typename WriteDelta>
  std::string chunk(uint32_t choice, WriteDelta write_delta,
                    std::span<const TokenLogprob> logprobs = {},
                    std::string_view finish = {}) const {
    JsonWriter out;
    out.begin_object();
    write_chunk_head(out);
    out.key("choices").begin_array().begin_object();
    out.member("index", choice);
    out.key("delta").begin_object();
    write_delta(out);
    out.end_object();
    out.key("logprobs");
    if (logprobs_ && !logprobs.empty()) {
      write_choice_logprobs(out, logprobs);
    } else {
      out.null();
    }
    out.key("finish_reason").text_or_null(finish);
    out.end_object().end_array();
    if (options_.include_usage) out.key("usage").null();
    out.end_object();
    return sse_data(out.str());
  }

  template <typename WriteCall>
  std::string call_chunk(uint32_t choice, uint32_t call, WriteCall write_call) const {
    return chunk(choice, [&](JsonWriter& out) {
      out.key("tool_calls").begin_array().begin_object();
      out.member("index", call);
      write_call(out);
      out.end_object().end_array();
    });
  }

  std::vector<uint32_t> calls_;  // tool calls begun, per choice
};

}  // namespace

std::string chat_answer(const ChatRequest& request, const AnswerHead& head,
                        std::span<const Choice> choices, const Usage& usage,
                        const Details* details) {
  JsonWriter out;
  out.begin_object();
  write_head(out, head, "chat.completion");
  out.key("choices").begin_array();
  for (size_t i = 0; i < choices.size(); ++i) {
    out.begin_object();
    out.member("index", i);
    out.key("message");
    write_message(out, choices[i]);
    out.key("logprobs");
    if (request.top_logprobs) {
      write_choice_logprobs(out, choices[i].logprobs);
    } else {
      out.null();
    }
    out.member("finish_reason", finish_name(choices[i].reason));
    out.end_object();
  }
  out.end_array();
  out.key("usage");
  write_usage(out, usage);
  if (request.details && details != nullptr) {
    out.key("kvasir");
    write_details(out, *details);
  }
  out.end_object();
  return out.take();
}

std::unique_ptr<StreamEncoder> chat_stream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<ChatStream>(request, std::move(head));
}

}  // namespace kvasir::api
