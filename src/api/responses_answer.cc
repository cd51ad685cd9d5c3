// Answers of OpenAI's /v1/responses.
//
//   stream := created in_progress item* (completed | incomplete)
//   item   := output_item.added (part | arguments) output_item.done
//   part   := content_part.added delta* done content_part.done
//
// Every event carries the next sequence_number, and the last one the whole answer.
#include "api/answer_parts.h"

namespace kvasir::api {
namespace {

enum class Status : uint8_t { kInProgress, kCompleted, kIncomplete };

std::string_view status_name(Status status) {
  switch (status) {
    case Status::kInProgress:
      return "in_progress";
    case Status::kCompleted:
      return "completed";
    case Status::kIncomplete:
      return "incomplete";
  }
  return "completed";
}

Status status_of(FinishReason reason) {
  return reason == FinishReason::kLength || reason == FinishReason::kContentFilter
             ? Status::kIncomplete
             : Status::kCompleted;
}

std::string item_id(const AnswerHead& head, Part::Kind kind, size_t index) {
  const std::string_view prefix = kind == Part::Kind::kText        ? "msg"
                                  : kind == Part::Kind::kReasoning ? "rs"
                                                                   : "fc";
  return fmt::format("{}_{}_{}", prefix, head.id, index);
}

void write_text_part(JsonWriter& out, const Part& part, std::span<const TokenLogprob> logprobs) {
  out.begin_object();
  if (part.kind == Part::Kind::kReasoning) {
    out.member("type", "reasoning_text");
    out.member("text", part.text);
  } else {
    out.member("type", "output_text");
    out.member("text", part.text);
    out.key("annotations").begin_array().end_array();
    out.key("logprobs");
    write_logprobs(out, logprobs);
  }
  out.end_object();
}

enum class Content : uint8_t { kLeftOut, kWhole };

void write_item(JsonWriter& out, const AnswerHead& head, const Part& part, size_t index,
                Status status, Content content, std::span<const TokenLogprob> logprobs) {
  out.begin_object();
  out.member("id", item_id(head, part.kind, index));
  switch (part.kind) {
    case Part::Kind::kText:
      out.member("type", "message");
      out.member("status", status_name(status));
      out.member("role", "assistant");
      break;
    case Part::Kind::kReasoning:
      out.member("type", "reasoning");
      out.member("status", status_name(status));
      out.key("summary").begin_array().end_array();
      break;
    case Part::Kind::kToolCall:
      out.member("type", "function_call");
      out.member("status", status_name(status));
      out.member("call_id", part.call.id);
      out.member("name", part.call.name);
      out.member("arguments", part.call.arguments);
      break;
  }
  if (part.kind != Part::Kind::kToolCall) {
    out.key("content").begin_array();
    if (content == Content::kWhole) write_text_part(out, part, logprobs);
    out.end_array();
  }
  out.end_object();
}

void write_number_or_null(JsonWriter& out, std::string_view name, std::optional<double> value) {
  out.key(name);
  if (value) {
    out.number(*value);
  } else {
    out.null();
  }
}

void write_tool_choice(JsonWriter& out, const ToolChoice& choice) {
  switch (choice.kind) {
    case ToolChoice::Kind::kAuto:
      out.text("auto");
      return;
    case ToolChoice::Kind::kNone:
      out.text("none");
      return;
    case ToolChoice::Kind::kRequired:
      out.text("required");
      return;
    case ToolChoice::Kind::kNamed:
      out.begin_object();
      out.member("type", "function");
      out.member("name", choice.name);
      out.end_object();
      return;
  }
}

void write_tools(JsonWriter& out, const std::vector<Tool>& tools) {
  out.begin_array();
  for (const Tool& tool : tools) {
    out.begin_object();
    out.member("type", "function");
    out.member("name", tool.name);
    out.member("description", tool.description);
    out.key("parameters").raw(tool.parameters);
    out.member("strict", tool.strict);
    out.end_object();
  }
  out.end_array();
}

void write_format(JsonWriter& out, const OutputFormat& format) {
  out.begin_object();
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      out.member("type", "text");
      break;
    case OutputFormat::Kind::kJsonObject:
      out.member("type", "json_object");
      break;
    case OutputFormat::Kind::kJsonSchema:
      out.member("type", "json_schema");
      out.member("name", format.name);
      out.key("schema").raw(format.schema);
      out.member("strict", format.strict);
      break;
  }
  out.end_object();
}

// What the request said, which clients expect to read again.
void write_settings(JsonWriter& out, const ChatRequest& request) {
  out.key("instructions").text_or_null(request.instructions);
  out.key("max_output_tokens");
  if (request.max_tokens) {
    out.number(uint64_t{*request.max_tokens});
  } else {
    out.null();
  }
  out.member("parallel_tool_calls", request.parallel_tool_calls);
  out.key("previous_response_id").null();
  out.key("reasoning").begin_object();
  out.key("effort").text_or_null(request.effort ? effort_name(*request.effort) : "");
  out.key("summary").null();
  out.end_object();
  out.member("store", false);
  write_number_or_null(out, "temperature", request.sampling.temperature);
  out.key("text").begin_object();
  out.key("format");
  write_format(out, request.format);
  out.end_object();
  out.key("tool_choice");
  write_tool_choice(out, request.tool_choice);
  out.key("tools");
  write_tools(out, request.tools);
  write_number_or_null(out, "top_p", request.sampling.top_p);
  out.member("truncation", "disabled");
  out.key("metadata").raw(request.metadata.empty() ? "{}" : request.metadata);
}

void write_responses_usage(JsonWriter& out, const Usage& usage) {
  out.begin_object();
  out.member("input_tokens", usage.prompt_tokens);
  out.key("input_tokens_details").begin_object();
  out.member("cached_tokens", usage.cached_tokens);
  out.end_object();
  out.member("output_tokens", usage.completion_tokens);
  out.key("output_tokens_details").begin_object();
  out.member("reasoning_tokens", usage.reasoning_tokens);
  out.end_object();
  out.member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.end_object();
}

// usage: null while nothing is finished.
void write_response(JsonWriter& out, const ChatRequest& request, const AnswerHead& head,
                    const Choice& choice, Status status, const Usage* usage) {
  out.begin_object();
  out.member("id", "resp_" + head.id);
  out.member("object", "response");
  out.member("created_at", head.created_s);
  out.member("status", status_name(status));
  out.member("background", false);
  out.key("error").null();
  out.key("incomplete_details");
  if (status == Status::kIncomplete) {
    out.begin_object();
    out.member("reason",
               choice.reason == FinishReason::kLength ? "max_output_tokens" : "content_filter");
    out.end_object();
  } else {
    out.null();
  }
  out.member("model", head.model);
  out.key("output").begin_array();
  // Only the last item can have been cut off. Logprobs stand with the first text.
  bool logprobs_written = false;
  for (size_t i = 0; i < choice.parts.size(); ++i) {
    const bool cut_off = i + 1 == choice.parts.size() && !choice.parts[i].ended;
    const bool with_logprobs = choice.parts[i].kind == Part::Kind::kText && !logprobs_written;
    write_item(out, head, choice.parts[i], i, cut_off ? status : Status::kCompleted,
               Content::kWhole,
               with_logprobs ? std::span<const TokenLogprob>(choice.logprobs)
                             : std::span<const TokenLogprob>());
    logprobs_written |= with_logprobs;
  }
  out.end_array();
  write_settings(out, request);
  out.key("usage");
  if (usage != nullptr) {
    write_responses_usage(out, *usage);
  } else {
    out.null();
  }
  out.end_object();
}

class ResponsesStream : public StreamEncoder {
 public:
  ResponsesStream(const ChatRequest& request, AnswerHead head)
      : request_(request), head_(std::move(head)) {
    request_.messages.clear();  // not said again
  }

  std::string begin(const Usage&) override {
    std::string bytes = whole_event("response.created", Status::kInProgress, nullptr);
    return bytes += whole_event("response.in_progress", Status::kInProgress, nullptr);
  }

  std::string encode(const AnswerEvent& event) override {
    return std::visit(Overloaded{[&](const TextDelta& delta) { return text(event, delta); },
                                 [&](const ReasoningDelta& delta) {
                                   if (delta.text.empty()) return std::string();
                                   std::string bytes = open(Part::Kind::kReasoning);
                                   collector_.add(event);
                                   return bytes + this->event("response.reasoning_text.delta",
                                                              [&](JsonWriter& out) {
                                                                write_place(out);
                                                                out.member("delta", delta.text);
                                                              });
                                 },
                                 [&](const ToolCallStart&) {
                                   std::string bytes = close(Status::kCompleted);
                                   collector_.add(event);
                                   return bytes + added();
                                 },
                                 [&](const ToolCallArguments& arguments) {
                                   collector_.add(event);
                                   return this->event("response.function_call_arguments.delta",
                                                      [&](JsonWriter& out) {
                                                        write_item_place(out);
                                                        out.member("delta", arguments.fragment);
                                                      });
                                 },
                                 [&](const ToolCallEnd&) {
                                   collector_.add(event);
                                   return close(Status::kCompleted);
                                 },
                                 [&](const Finished& finished) {
                                   std::string bytes = close(status_of(finished.reason));
                                   collector_.add(event);
                                   return bytes;
                                 }},
                      event.what);
  }

  std::string end(const Usage& usage, const Details*) override {
    const Status status = status_of(choice().reason);
    return whole_event(status == Status::kCompleted ? "response.completed" : "response.incomplete",
                       status, &usage);
  }

  std::string fail(const ApiError& error, std::string_view) override {
    return event("error", [&](JsonWriter& out) {
      out.member("code", info(error.code).name);
      out.member("message", error.message);
      out.key("param").text_or_null(error.param);
    });
  }

 private:
  const Choice& choice() const { return collector_.choices().front(); }
  const Part& part() const { return choice().parts.back(); }
  size_t index() const { return choice().parts.size() - 1; }

  template <typename Write>
  std::string event(std::string_view type, Write write) {
    JsonWriter out;
    out.begin_object();
    out.member("type", type);
    out.member("sequence_number", sequence_number_++);
    write(out);
    out.end_object();
    return sse_event(type, out.str());
  }

  std::string whole_event(std::string_view type, Status status, const Usage* usage) {
    return event(type, [&](JsonWriter& out) {
      out.key("response");
      write_response(out, request_, head_, choice(), status, usage);
    });
  }

  std::string text(const AnswerEvent& event, const TextDelta& delta) {
    if (delta.text.empty()) {
      collector_.add(event);  // its logprobs
      return {};
    }
    std::string bytes = open(Part::Kind::kText);
    collector_.add(event);
    return bytes + this->event("response.output_text.delta", [&](JsonWriter& out) {
      write_place(out);
      out.member("delta", delta.text);
      out.key("logprobs");
      write_logprobs(out, delta.logprobs);
    });
  }

  void write_item_place(JsonWriter& out) const {
    out.member("item_id", item_id(head_, part().kind, index()));
    out.member("output_index", index());
  }
  void write_place(JsonWriter& out) const {
    write_item_place(out);
    out.member("content_index", 0);
  }

  // Of the last part, which has no text yet.
  std::string added() {
    open_ = true;
    std::string bytes = event("response.output_item.added", [&](JsonWriter& out) {
      out.member("output_index", index());
      out.key("item");
      write_item(out, head_, part(), index(), Status::kInProgress, Content::kLeftOut, {});
    });
    if (part().kind == Part::Kind::kToolCall) return bytes;
    return bytes + event("response.content_part.added", [&](JsonWriter& out) {
             write_place(out);
             out.key("part");
             write_text_part(out, part(), {});
           });
  }

  // Goes on in an item of that kind, or begins one.
  std::string open(Part::Kind kind) {
    if (open_ && part().kind == kind) return {};
    std::string bytes = close(Status::kCompleted);
    collector_.begin_part(0, kind);
    return bytes + added();
  }

  std::span<const TokenLogprob> item_logprobs() const {
    // As in write_response: with the first text.
    for (size_t i = 0; i < index(); ++i)
      if (choice().parts[i].kind == Part::Kind::kText) return {};
    return part().kind == Part::Kind::kText ? std::span<const TokenLogprob>(choice().logprobs)
                                            : std::span<const TokenLogprob>();
  }

  std::string close(Status status) {
    if (!open_) return {};
    open_ = false;
    std::string bytes;
    if (part().kind == Part::Kind::kToolCall) {
      bytes = event("response.function_call_arguments.done", [&](JsonWriter& out) {
        write_item_place(out);
        out.member("name", part().call.name);
        out.member("arguments", part().call.arguments);
      });
    } else {
      const bool reasoning = part().kind == Part::Kind::kReasoning;
      bytes = event(reasoning ? "response.reasoning_text.done" : "response.output_text.done",
                    [&](JsonWriter& out) {
                      write_place(out);
                      out.member("text", part().text);
                      if (reasoning) return;
                      out.key("logprobs");
                      write_logprobs(out, item_logprobs());
                    });
      bytes += event("response.content_part.done", [&](JsonWriter& out) {
        write_place(out);
        out.key("part");
        write_text_part(out, part(), item_logprobs());
      });
    }
    return bytes + event("response.output_item.done", [&](JsonWriter& out) {
             out.member("output_index", index());
             out.key("item");
             write_item(out, head_, part(), index(), status, Content::kWhole, item_logprobs());
           });
  }

  ChatRequest request_;
  AnswerHead head_;
  AnswerCollector collector_{1};
  uint64_t sequence_number_ = 0;
  bool open_ = false;
};

}  // namespace

std::string responses_answer(const ChatRequest& request, const AnswerHead& head,
                             std::span<const Choice> choices, const Usage& usage) {
  KVASIR_CHECK(choices.size() == 1);
  JsonWriter out;
  write_response(out, request, head, choices.front(), status_of(choices.front().reason), &usage);
  return out.take();
}

std::unique_ptr<StreamEncoder> responses_stream(const ChatRequest& request, AnswerHead head) {
  return std::make_unique<ResponsesStream>(request, std::move(head));
}

}  // namespace kvasir::api
