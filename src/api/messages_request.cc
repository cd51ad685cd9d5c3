// Requests of Anthropic's /v1/messages and /v1/messages/count_tokens.
//
// A user's turn may hold results of tools and text in one list of blocks: results become tool
// messages, in order, and the text between and behind them user messages.
#include "api/request_parts.h"

namespace kvasir::api {
namespace {

std::string read_result_content(Fields& block) {
  const Json* content = block.find("content");
  if (content == nullptr) return "";
  return read_content(*content, block.path_of("content"), {"text"}, block.reading());
}

void read_user_block(Fields& block, const std::string& type, ChatRequest& request) {
  if (type == "text") {
    if (request.messages.back().role != Role::kUser) request.messages.emplace_back();
    request.messages.back().text += block.required_text("text");
  } else if (type == "tool_result") {
    // The empty message that this turn began with is not needed then.
    if (request.messages.back().role == Role::kUser && request.messages.back().text.empty())
      request.messages.pop_back();
    Message& result = request.messages.emplace_back();
    result.role = Role::kTool;
    result.tool_call_id = block.required_text("tool_use_id");
    result.text = read_result_content(block);
    block.ignore({"is_error"});
  } else {
    block.fail(Code::kUnsupportedValue, "type",
               fmt::format("'{}' is '{:.64}': this model reads text, so a user's blocks may be: "
                           "text, tool_result",
                           block.path_of("type"), type));
  }
}

void read_assistant_block(Fields& block, const std::string& type, Message& message) {
  if (type == "text") {
    message.text += block.required_text("text");
    block.ignore({"citations"});
  } else if (type == "thinking") {
    message.reasoning += block.required_text("thinking");
    block.ignore({"signature"});
  } else if (type == "redacted_thinking") {
    block.ignore({"data"});
  } else if (type == "tool_use") {
    ToolCall& call = message.tool_calls.emplace_back();
    call.id = block.required_text("id");
    call.name = block.required_text("name");
    if (!block.failed()) check_tool_name(call.name, block.path_of("name"), block.reading());
    call.arguments = read_schema(block, "input");
  } else {
    block.fail(Code::kUnsupportedValue, "type",
               fmt::format("'{}' is '{:.64}', an assistant's blocks may be: text, thinking, "
                           "redacted_thinking, tool_use",
                           block.path_of("type"), type));
  }
}

void read_message(const Json& value, const std::string& path, Reading& reading,
                  ChatRequest& request) {
  Fields fields(value, path, reading);
  const auto role = fields.word("role", {"user", "assistant", "system"});
  const Json* content = fields.find("content");
  if (!role || content == nullptr) {
    const std::string_view name = role ? "content" : "role";
    fields.fail(Code::kMissingField, name, fmt::format("'{}' is missing", fields.path_of(name)));
    return;
  }
  fields.done();
  Message& message = request.messages.emplace_back();
  message.role = *role == 0 ? Role::kUser : *role == 1 ? Role::kAssistant : Role::kSystem;
  if (content->is_string() || message.role == Role::kSystem) {
    message.text = read_content(*content, fields.path_of("content"), {"text"}, reading);
    return;
  }
  if (!content->is_array() || content->size() > kPartsMax) {
    fields.fail(Code::kInvalidMessages, "content",
                fmt::format("'{}' has to be a string or an array of at most {} blocks",
                            fields.path_of("content"), kPartsMax));
    return;
  }
  for (size_t i = 0; i < content->size() && !reading.error; ++i) {
    Fields block((*content)[i], fmt::format("{}[{}]", fields.path_of("content"), i), reading);
    const std::string type = block.required_text("type");
    if (reading.error) return;
    block.ignore({"cache_control"});
    if (*role == 0) {
      read_user_block(block, type, request);
    } else {
      read_assistant_block(block, type, request.messages.back());
    }
    block.done();
  }
}

void read_tools(Fields& fields, ChatRequest& request) {
  const Json* tools = fields.array("tools", kToolsMax);
  for (size_t i = 0; tools != nullptr && i < tools->size() && !fields.failed(); ++i) {
    Fields entry((*tools)[i], fmt::format("tools[{}]", i), fields.reading());
    entry.word("type", {"custom"});
    Tool& tool = request.tools.emplace_back();
    tool.name = entry.required_text("name");
    if (!fields.failed()) check_tool_name(tool.name, entry.path_of("name"), fields.reading());
    tool.description = entry.text("description").value_or("");
    tool.parameters = read_schema(entry, "input_schema");
    tool.strict = entry.flag("strict");
    entry.ignore({"cache_control", "eager_input_streaming", "input_examples"});
    entry.done();
  }
}

void read_tool_choice(Fields& fields, ChatRequest& request) {
  const Json* value = fields.object("tool_choice");
  if (value == nullptr) return;
  Fields choice(*value, "tool_choice", fields.reading());
  const auto kind = choice.word("type", {"auto", "none", "any", "tool"});
  if (!kind) {
    choice.fail(Code::kMissingField, "type", "'tool_choice.type' is missing");
    return;
  }
  request.tool_choice.kind = static_cast<ToolChoice::Kind>(*kind);
  if (request.tool_choice.kind == ToolChoice::Kind::kNamed)
    request.tool_choice.name = choice.required_text("name");
  request.parallel_tool_calls = !choice.flag("disable_parallel_tool_use");
  choice.done();
}

void read_thinking(Fields& fields, ChatRequest& request) {
  const Json* value = fields.object("thinking");
  if (value == nullptr) return;
  Fields thinking(*value, "thinking", fields.reading());
  const auto kind = thinking.word("type", {"enabled", "disabled", "adaptive"});
  if (!kind) {
    thinking.fail(Code::kMissingField, "type", "'thinking.type' is missing");
    return;
  }
  if (*kind != 2) request.thinking = *kind == 0;
  request.thinking_tokens_max = read_token_count(thinking, "budget_tokens");
  if (request.thinking_tokens_max && request.max_tokens &&
      *request.thinking_tokens_max >= *request.max_tokens) {
    thinking.fail(Code::kInvalidValue, "budget_tokens",
                  fmt::format("'thinking.budget_tokens' is {}, it has to be below 'max_tokens', "
                              "{}",
                              *request.thinking_tokens_max, *request.max_tokens));
  }
  thinking.ignore({"display"});
  thinking.done();
}

void read_output_config(Fields& fields, ChatRequest& request) {
  const Json* value = fields.object("output_config");
  if (value == nullptr) return;
  Fields config(*value, "output_config", fields.reading());
  request.effort = read_effort(config, "effort");
  if (const Json* format = config.object("format")) {
    Fields parts(*format, "output_config.format", fields.reading());
    parts.word("type", {"json_schema"});
    if (!parts.has("schema"))
      parts.fail(Code::kMissingField, "schema", "'output_config.format.schema' is missing");
    request.format.kind = OutputFormat::Kind::kJsonSchema;
    request.format.schema = read_schema(parts, "schema");
    request.format.strict = true;
    parts.done();
  }
  config.done();
}

enum class Limit : uint8_t { kRequired, kNone };

Outcome<ChatRequest> parse(std::string_view body, UnknownFields unknown, Limit limit) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  ChatRequest request;
  request.dialect = Dialect::kMessages;
  read_generation(fields, ModelField::kRequired, 1, request);
  request.max_tokens = read_token_count(fields, "max_tokens");
  if (limit == Limit::kRequired && !request.max_tokens)
    fields.fail(Code::kMissingField, "max_tokens", "'max_tokens' is missing");
  request.stops = read_stops(fields, "stop_sequences");
  if (const Json* system = fields.find("system")) {
    Message& message = request.messages.emplace_back();
    message.role = Role::kSystem;
    message.text = read_content(*system, "system", {"text"}, reading);
  }
  const Json* messages = fields.array("messages", kMessagesMax);
  if (messages == nullptr) fields.fail(Code::kMissingField, "messages", "'messages' is missing");
  for (size_t i = 0; messages != nullptr && i < messages->size() && !reading.error; ++i)
    read_message((*messages)[i], fmt::format("messages[{}]", i), reading, request);
  read_tools(fields, request);
  read_tool_choice(fields, request);
  read_thinking(fields, request);
  read_output_config(fields, request);
  fields.ignore({"metadata", "service_tier", "inference_geo", "context_management", "betas",
                 "cache_control"});
  fields.refuse("container", "this server runs no code");
  if (const Json* servers = fields.array("mcp_servers", 64);
      servers != nullptr && !servers->empty())
    fields.refuse("mcp_servers", "this server calls no others");
  fields.done();
  // An answer that the client has begun: the model goes on with it.
  request.continue_last_message = !request.messages.empty() &&
                                  request.messages.back().role == Role::kAssistant &&
                                  request.messages.back().tool_calls.empty();
  settle_messages(request, "messages", reading);
  settle_tools(request, reading);
  return finish(reading, std::move(request));
}

}  // namespace

Outcome<ChatRequest> parse_messages(std::string_view body, UnknownFields unknown) {
  return parse(body, unknown, Limit::kRequired);
}

Outcome<ChatRequest> parse_count_tokens(std::string_view body, UnknownFields unknown) {
  return parse(body, unknown, Limit::kNone);
}

}  // namespace kvasir::api
