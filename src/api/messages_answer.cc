// Answers of Anthropic's /v1/messages.
#include "api/answer_parts.h"

namespace kvasir::api {
namespace {

std::string_view stop_reason(FinishReason reason, std::string_view stop) {
  switch (reason) {
    case FinishReason::kStop:
      return stop.empty() ? "end_turn" : "stop_sequence";
    case FinishReason::kLength:
      return "max_tokens";
    case FinishReason::kToolCalls:
      return "tool_use";
    case FinishReason::kContentFilter:
      return "refusal";
  }
  return "end_turn";
}

// Cached tokens are not part of input_tokens here.
void write_message_usage(JsonWriter& out, const Usage& usage) {
  out.begin_object();
  out.member("input_tokens",
             usage.prompt_tokens - std::min(usage.cached_tokens, usage.prompt_tokens));
  out.member("cache_creation_input_tokens", 0);
  out.member("cache_read_input_tokens", usage.cached_tokens);
  out.member("output_tokens", usage.completion_tokens);
  out.end_object();
}

void write_head(JsonWriter& out, const AnswerHead& head) {
  out.member("id", "msg_" + head.id);
  out.member("type", "message");
  out.member("role", "assistant");
  out.member("model", head.model);
}

void write_block(JsonWriter& out, const Part& part) {
  out.begin_object();
  switch (part.kind) {
    case Part::Kind::kText:
      out.member("type", "text");
      out.member("text", part.text);
      break;
    case Part::Kind::kReasoning:
      out.member("type", "thinking");
      out.member("thinking", part.text);
      out.member("signature", "");
      break;
    case Part::Kind::kToolCall:
      out.member("type", "tool_use");
      out.member("id", part.call.id);
      out.member("name", part.call.name);
      // Half an object would spoil the whole answer.
      out.key("input").raw(part.ended && !part.call.arguments.empty() ? part.call.arguments : "{}");
      break;
  }
  out.end_object();
}

class MessagesStream : public StreamEncoder {
 public:
  explicit MessagesStream(AnswerHead head) : head_(std::move(head)) {}

  std::string begin(const Usage& usage) override {
    JsonWriter out;
    out.begin_object();
    out.member("type", "message_start");
    out.key("message").begin_object();
    write_head(out, head_);
    out.key("content").begin_array().end_array();
    out.key("stop_reason").null();
    out.key("stop_sequence").null();
    out.key("usage");
    write_message_usage(out, usage);
    out.end_object();
    out.end_object();
    return sse_event("message_start", out.str());
  }

  std::string encode(const AnswerEvent& event) override {
    return std::visit(
        Overloaded{[&](const TextDelta& delta) {
                     if (delta.text.empty()) return std::string();
                     std::string bytes = open(Part::Kind::kText);
                     return bytes += block_delta("text_delta", "text", delta.text);
                   },
                   [&](const ReasoningDelta& delta) {
                     if (delta.text.empty()) return std::string();
                     std::string bytes = open(Part::Kind::kReasoning);
                     return bytes += block_delta("thinking_delta", "thinking", delta.text);
                   },
                   [&](const ToolCallStart& start) {
                     Part part;
                     part.kind = Part::Kind::kToolCall;
                     part.call = {start.id, start.name, ""};
                     std::string bytes = close();
                     return bytes += start_block(part);
                   },
                   [&](const ToolCallArguments& arguments) {
                     return block_delta("input_json_delta", "partial_json", arguments.fragment);
                   },
                   [&](const ToolCallEnd&) { return close(); },
                   [&](const Finished& finished) {
                     finished_ = finished;
                     return close();
                   }},
        event.what);
  }

  std::string keep_alive() override { return sse_event("ping", R"({"type":"ping"})"); }

  std::string end(const Usage& usage, const Details*) override {
    JsonWriter out;
    out.begin_object();
    out.member("type", "message_delta");
    out.key("delta").begin_object();
    out.member("stop_reason", stop_reason(finished_.reason, finished_.stop));
    out.key("stop_sequence").text_or_null(finished_.stop);
    out.end_object();
    out.key("usage");
    write_message_usage(out, usage);
    out.end_object();
    return sse_event("message_delta", out.str()) +
           sse_event("message_stop", R"({"type":"message_stop"})");
  }

  std::string fail(const ApiError& error, std::string_view request_id) override {
    return sse_event("error", error_body(error, Family::kAnthropic, request_id));
  }

 private:
  std::string start_block(const Part& part) {
    JsonWriter out;
    out.begin_object();
    out.member("type", "content_block_start");
    out.member("index", index_);
    out.key("content_block");
    write_block(out, part);
    out.end_object();
    std::string bytes = sse_event("content_block_start", out.str());
    if (index_ == 0) bytes += keep_alive();  // where clients are used to see one
    open_ = true;
    kind_ = part.kind;
    return bytes;
  }

  // Goes on in a block of that kind, or begins one.
  std::string open(Part::Kind kind) {
    if (open_ && kind_ == kind) return {};
    Part part;
    part.kind = kind;
    std::string bytes = close();
    return bytes += start_block(part);
  }

  std::string close() {
    if (!open_) return {};
    open_ = false;
    JsonWriter out;
    out.begin_object();
    out.member("type", "content_block_stop");
    out.member("index", index_++);
    out.end_object();
    return sse_event("content_block_stop", out.str());
  }

  std::string block_delta(std::string_view type, std::string_view name,
                          std::string_view text) const {
    JsonWriter out;
    out.begin_object();
    out.member("type", "content_block_delta");
    out.member("index", index_);
    out.key("delta").begin_object();
    out.member("type", type);
    out.member(name, text);
    out.end_object();
    out.end_object();
    return sse_event("content_block_delta", out.str());
  }

  AnswerHead head_;
  uint32_t index_ = 0;  // of the open block, or of the next one
  bool open_ = false;
  Part::Kind kind_ = Part::Kind::kText;
  Finished finished_;
};

}  // namespace

std::string messages_answer(const ChatRequest&, const AnswerHead& head,
                            std::span<const Choice> choices, const Usage& usage) {
  KVASIR_CHECK(choices.size() == 1);
  const Choice& choice = choices.front();
  JsonWriter out;
  out.begin_object();
  write_head(out, head);
  out.key("content").begin_array();
  for (const Part& part : choice.parts) write_block(out, part);
  out.end_array();
  out.member("stop_reason", stop_reason(choice.reason, choice.stop));
  out.key("stop_sequence").text_or_null(choice.stop);
  out.key("usage");
  write_message_usage(out, usage);
  out.end_object();
  return out.take();
}

std::unique_ptr<StreamEncoder> messages_stream(const ChatRequest&, AnswerHead head) {
  return std::make_unique<MessagesStream>(std::move(head));
}

}  // namespace kvasir::api
