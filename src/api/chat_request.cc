// Requests of OpenAI's /v1/chat/completions, and /apply-template, which is the front half of one.
#include "api/request_parts.h"

namespace kvasir::api {
namespace {

std::vector<ToolCall> read_tool_calls(const Json& calls, const std::string& path,
                                      Reading& reading) {
  std::vector<ToolCall> read;
  for (size_t i = 0; i < calls.size() && !reading.error; ++i) {
    Fields call(calls[i], fmt::format("{}[{}]", path, i), reading);
    ToolCall& out = read.emplace_back();
    out.id = call.required_text("id");
    call.word("type", {"function"});
    call.ignore({"index"});
    const Json* function = call.object("function");
    if (function == nullptr) {
      call.fail(Code::kMissingField, "function",
                fmt::format("'{}' is missing", call.path_of("function")));
      break;
    }
    Fields parts(*function, call.path_of("function"), reading);
    out.name = parts.required_text("name");
    if (!reading.error) check_tool_name(out.name, parts.path_of("name"), reading);
    out.arguments =
        read_arguments(parts.text("arguments").value_or(""), parts.path_of("arguments"), reading);
    parts.done();
    call.done();
  }
  return read;
}

Message read_message(const Json& value, const std::string& path, Reading& reading) {
  Message message;
  Fields fields(value, path, reading);
  const std::string role = fields.required_text("role");
  if (reading.error) return message;
  if (role == "system" || role == "developer") {
    message.role = Role::kSystem;
  } else if (role == "user") {
    message.role = Role::kUser;
  } else if (role == "assistant") {
    message.role = Role::kAssistant;
  } else if (role == "tool") {
    message.role = Role::kTool;
  } else {
    fields.fail(Code::kInvalidMessages, "role",
                fmt::format("'{}' is '{:.64}', it may be: system, developer, user, assistant, tool",
                            fields.path_of("role"), role));
    return message;
  }
  if (const Json* content = fields.find("content")) {
    message.text =
        message.role == Role::kAssistant
            ? read_content(*content, fields.path_of("content"), {"text", "refusal"}, reading)
            : read_content(*content, fields.path_of("content"), {"text"}, reading);
  } else if (message.role != Role::kAssistant) {
    fields.fail(Code::kMissingField, "content",
                fmt::format("'{}' is missing", fields.path_of("content")));
  }
  if (message.role == Role::kAssistant) {
    message.reasoning = fields.text("reasoning_content").value_or("");
    if (const Json* calls = fields.array("tool_calls", kToolsMax))
      message.tool_calls = read_tool_calls(*calls, fields.path_of("tool_calls"), reading);
    fields.ignore({"refusal", "audio", "annotations"});
    fields.refuse("function_call", "use 'tool_calls'");
  }
  if (message.role == Role::kTool) message.tool_call_id = fields.required_text("tool_call_id");
  fields.ignore({"name"});
  fields.done();
  return message;
}

void read_messages(Fields& fields, ChatRequest& request) {
  const Json* messages = fields.array("messages", kMessagesMax);
  if (messages == nullptr) {
    fields.fail(Code::kMissingField, "messages", "'messages' is missing");
    return;
  }
  for (size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    request.messages.push_back(
        read_message((*messages)[i], fmt::format("messages[{}]", i), fields.reading()));
  }
}

void read_tools(Fields& fields, ChatRequest& request) {
  const Json* tools = fields.array("tools", kToolsMax);
  for (size_t i = 0; tools != nullptr && i < tools->size() && !fields.failed(); ++i) {
    Fields entry((*tools)[i], fmt::format("tools[{}]", i), fields.reading());
    entry.word("type", {"function"});
    const Json* function = entry.object("function");
    if (function == nullptr) {
      entry.fail(Code::kMissingField, "function",
                 fmt::format("'{}' is missing", entry.path_of("function")));
      return;
    }
    Fields parts(*function, entry.path_of("function"), fields.reading());
    Tool& tool = request.tools.emplace_back();
    tool.name = parts.required_text("name");
    if (!fields.failed()) check_tool_name(tool.name, parts.path_of("name"), fields.reading());
    tool.description = parts.text("description").value_or("");
    tool.parameters = read_schema(parts, "parameters");
    tool.strict = parts.flag("strict");
    parts.done();
    entry.done();
  }
}

void read_tool_choice(Fields& fields, ChatRequest& request) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  ToolChoice& out = request.tool_choice;
  if (choice->is_string()) {
    if (const auto word = fields.word("tool_choice", {"auto", "none", "required"}))
      out.kind = static_cast<ToolChoice::Kind>(*word);
    return;
  }
  Fields named(*choice, "tool_choice", fields.reading());
  named.word("type", {"function"});
  out.kind = ToolChoice::Kind::kNamed;
  if (const Json* function = named.object("function")) {
    Fields parts(*function, "tool_choice.function", fields.reading());
    out.name = parts.required_text("name");
    parts.done();
  } else {
    named.fail(Code::kMissingField, "function", "'tool_choice.function' is missing");
  }
  named.done();
}

void read_response_format(Fields& fields, OutputFormat& format) {
  const Json* value = fields.object("response_format");
  if (value == nullptr) return;
  Fields parts(*value, "response_format", fields.reading());
  const auto kind = parts.word("type", {"text", "json_object", "json_schema"});
  if (!kind) {
    parts.fail(Code::kMissingField, "type", "'response_format.type' is missing");
    return;
  }
  format.kind = static_cast<OutputFormat::Kind>(*kind);
  const Json* schema = parts.object("json_schema");
  if (format.kind == OutputFormat::Kind::kJsonSchema) {
    if (schema == nullptr) {
      parts.fail(Code::kMissingField, "json_schema", "'response_format.json_schema' is missing");
      return;
    }
    Fields named(*schema, "response_format.json_schema", fields.reading());
    format.name = named.text("name").value_or("");
    format.description = named.text("description").value_or("");
    format.strict = named.flag("strict");
    if (!named.has("schema"))
      named.fail(Code::kMissingField, "schema", "'response_format.json_schema.schema' is missing");
    format.schema = read_schema(named, "schema");
    named.done();
  }
  parts.done();
}

void read_thinking(Fields& fields, ChatRequest& request) {
  apply_effort(read_effort(fields, "reasoning_effort"), request);
  if (const Json* value = fields.object("chat_template_kwargs")) {
    Fields arguments(*value, "chat_template_kwargs", fields.reading());
    if (const auto on = arguments.boolean("enable_thinking")) request.thinking = on;
    arguments.done();
  }
}

void read_stream_options(Fields& fields, StreamOptions& stream) {
  if (const Json* value = fields.object("stream_options")) {
    Fields options(*value, "stream_options", fields.reading());
    stream.include_usage = options.flag("include_usage");
    options.ignore({"include_obfuscation"});
    options.done();
    if (!stream.on)
      fields.fail(Code::kInvalidValue, "stream_options",
                  "'stream_options' is for requests with 'stream': true");
  }
  stream.return_progress = fields.flag("return_progress");
}

void read_logprobs(Fields& fields, ChatRequest& request) {
  const bool wanted = fields.flag("logprobs");
  const auto top = fields.integer("top_logprobs", 0, kTopLogprobsMax);
  if (top && *top > 0 && !wanted)
    fields.fail(Code::kInvalidValue, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
  if (wanted) request.top_logprobs = static_cast<uint32_t>(top.value_or(0));
}

void read_limits(Fields& fields, ChatRequest& request) {
  const auto old_name = read_token_count(fields, "max_tokens");
  const auto new_name = read_token_count(fields, "max_completion_tokens");
  if (old_name && new_name && *old_name != *new_name)
    fields.fail(Code::kInvalidValue, "max_completion_tokens",
                "'max_tokens' and 'max_completion_tokens' differ");
  request.max_tokens = new_name ? new_name : old_name;
}

}  // namespace

Outcome<ChatRequest> parse_chat(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  ChatRequest request;
  read_generation(fields, ModelField::kRequired, 2, request);
  read_limits(fields, request);
  request.stops = read_stops(fields, "stop");
  request.choices = static_cast<uint32_t>(fields.integer("n", 1, int64_t{kChoicesMax}).value_or(1));
  read_logprobs(fields, request);
  read_stream_options(fields, request.stream);
  read_response_format(fields, request.format);
  read_messages(fields, request);
  request.continue_last_message = fields.flag("continue_final_message");
  read_tools(fields, request);
  read_tool_choice(fields, request);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  read_thinking(fields, request);
  fields.ignore({"user", "metadata", "store", "service_tier", "prompt_cache_key",
                 "prompt_cache_retention", "safety_identifier", "verbosity", "prediction"});
  fields.refuse("functions", "use 'tools'");
  fields.refuse("function_call", "use 'tool_choice'");
  fields.refuse("audio", "this server generates text");
  fields.refuse("web_search_options", "this server does not search");
  if (const Json* modalities = fields.array("modalities", 8)) {
    for (const Json& modality : *modalities)
      if (modality != "text")
        fields.fail(Code::kUnsupportedValue, "modalities",
                    "'modalities' may hold only 'text': this server generates text");
  }
  fields.done();
  settle_messages(request, "messages", reading);
  settle_tools(request, reading);
  return finish(reading, std::move(request));
}

Outcome<ChatRequest> parse_apply_template(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  ChatRequest request;
  request.model = fields.text("model").value_or("");
  read_messages(fields, request);
  request.continue_last_message = fields.flag("continue_final_message");
  read_tools(fields, request);
  read_tool_choice(fields, request);
  read_thinking(fields, request);
  fields.done();
  settle_messages(request, "messages", reading);
  settle_tools(request, reading);
  return finish(reading, std::move(request));
}

}  // namespace kvasir::api
