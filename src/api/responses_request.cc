// Requests of OpenAI's /v1/responses, without any state on the server.
//
// The input is a flat list of items. Items of one answer of the model (reasoning, message,
// function_call) that stand together become one assistant message, as templates expect.
#include "api/request_parts.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kStateless = "this server keeps no answers; send the whole conversation";

// The assistant message that the next item of the model's belongs to.
Message& open_assistant(ChatRequest& request) {
  if (request.messages.empty() || request.messages.back().role != Role::kAssistant) {
    request.messages.emplace_back();
    request.messages.back().role = Role::kAssistant;
  }
  return request.messages.back();
}

void read_message_item(Fields& item, ChatRequest& request) {
  const auto role = item.word("role", {"system", "developer", "user", "assistant"});
  if (!role) {
    item.fail(Code::kMissingField, "role", fmt::format("'{}' is missing", item.path_of("role")));
    return;
  }
  const Json* content = item.find("content");
  if (content == nullptr) {
    item.fail(Code::kMissingField, "content",
              fmt::format("'{}' is missing", item.path_of("content")));
    return;
  }
  item.ignore({"id", "status", "phase"});
  if (*role == 3) {
    std::string text =
        read_content(*content, item.path_of("content"),
                     {"output_text", "input_text", "text", "refusal"}, item.reading());
    // After a tool call the text is a new turn: a template writes calls behind the text.
    if (open_assistant(request).tool_calls.empty()) {
      open_assistant(request).text += text;
    } else {
      request.messages.emplace_back();
      request.messages.back().role = Role::kAssistant;
      request.messages.back().text = std::move(text);
    }
    return;
  }
  Message& message = request.messages.emplace_back();
  message.role = *role == 2 ? Role::kUser : Role::kSystem;
  message.text =
      read_content(*content, item.path_of("content"), {"input_text", "text"}, item.reading());
}

void read_reasoning_item(Fields& item, ChatRequest& request) {
  item.ignore({"id", "status", "encrypted_content"});
  std::string text;
  if (const Json* content = item.find("content"))
    text = read_content(*content, item.path_of("content"), {"reasoning_text"}, item.reading());
  if (const Json* summary = item.find("summary")) {
    const std::string short_text =
        read_content(*summary, item.path_of("summary"), {"summary_text"}, item.reading());
    if (text.empty()) text = short_text;
  }
  // A new thought opens a new turn, unless nothing was said yet.
  if (!request.messages.empty() && request.messages.back().role == Role::kAssistant &&
      (!request.messages.back().text.empty() || !request.messages.back().tool_calls.empty())) {
    request.messages.emplace_back();
    request.messages.back().role = Role::kAssistant;
  }
  open_assistant(request).reasoning += text;
}

void read_call_item(Fields& item, ChatRequest& request) {
  item.ignore({"id", "status"});
  ToolCall call;
  call.id = item.required_text("call_id");
  call.name = item.required_text("name");
  if (!item.failed()) check_tool_name(call.name, item.path_of("name"), item.reading());
  call.arguments = read_arguments(item.text("arguments").value_or(""), item.path_of("arguments"),
                                  item.reading());
  open_assistant(request).tool_calls.push_back(std::move(call));
}

void read_call_output_item(Fields& item, ChatRequest& request) {
  item.ignore({"id", "status"});
  Message& message = request.messages.emplace_back();
  message.role = Role::kTool;
  message.tool_call_id = item.required_text("call_id");
  if (const Json* output = item.find("output")) {
    message.text = read_content(*output, item.path_of("output"),
                                {"input_text", "output_text", "text"}, item.reading());
  } else {
    item.fail(Code::kMissingField, "output",
              fmt::format("'{}' is missing", item.path_of("output")));
  }
}

void read_input(Fields& fields, ChatRequest& request) {
  const Json* input = fields.find("input");
  if (input == nullptr) {
    fields.fail(Code::kMissingField, "input", "'input' is missing");
    return;
  }
  if (input->is_string()) {
    request.messages.emplace_back().text = input->get<std::string>();
    return;
  }
  if (fields.array("input", kMessagesMax) == nullptr) return;
  for (size_t i = 0; i < input->size() && !fields.failed(); ++i) {
    Fields item((*input)[i], fmt::format("input[{}]", i), fields.reading());
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      read_message_item(item, request);
    } else if (type == "reasoning") {
      read_reasoning_item(item, request);
    } else if (type == "function_call") {
      read_call_item(item, request);
    } else if (type == "function_call_output") {
      read_call_output_item(item, request);
    } else {
      item.fail(Code::kUnsupportedValue, "type",
                fmt::format("'{}' is '{:.64}', it may be: message, reasoning, function_call, "
                            "function_call_output",
                            item.path_of("type"), type));
    }
    item.done();
  }
}

void read_tools(Fields& fields, ChatRequest& request) {
  const Json* tools = fields.array("tools", kToolsMax);
  for (size_t i = 0; tools != nullptr && i < tools->size() && !fields.failed(); ++i) {
    Fields entry((*tools)[i], fmt::format("tools[{}]", i), fields.reading());
    entry.word("type", {"function"});
    Tool& tool = request.tools.emplace_back();
    tool.name = entry.required_text("name");
    if (!fields.failed()) check_tool_name(tool.name, entry.path_of("name"), fields.reading());
    tool.description = entry.text("description").value_or("");
    tool.parameters = read_schema(entry, "parameters");
    tool.strict = entry.flag("strict");
    entry.done();
  }
}

void read_tool_choice(Fields& fields, ChatRequest& request) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    if (const auto word = fields.word("tool_choice", {"auto", "none", "required"}))
      request.tool_choice.kind = static_cast<ToolChoice::Kind>(*word);
    return;
  }
  Fields named(*choice, "tool_choice", fields.reading());
  named.word("type", {"function"});
  request.tool_choice = {ToolChoice::Kind::kNamed, named.required_text("name")};
  named.done();
}

void read_text_options(Fields& fields, OutputFormat& format) {
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  Fields options(*text, "text", fields.reading());
  options.ignore({"verbosity"});
  if (const Json* value = options.object("format")) {
    Fields parts(*value, "text.format", fields.reading());
    if (const auto kind = parts.word("type", {"text", "json_object", "json_schema"}))
      format.kind = static_cast<OutputFormat::Kind>(*kind);
    if (format.kind == OutputFormat::Kind::kJsonSchema) {
      format.name = parts.text("name").value_or("");
      format.description = parts.text("description").value_or("");
      format.strict = parts.flag("strict");
      if (!parts.has("schema"))
        parts.fail(Code::kMissingField, "schema", "'text.format.schema' is missing");
      format.schema = read_schema(parts, "schema");
    }
    parts.done();
  }
  options.done();
}

void read_reasoning(Fields& fields, ChatRequest& request) {
  const Json* value = fields.object("reasoning");
  if (value == nullptr) return;
  Fields options(*value, "reasoning", fields.reading());
  apply_effort(read_effort(options, "effort"), request);
  options.ignore({"summary", "generate_summary"});
  options.done();
}

void read_include(Fields& fields, ChatRequest& request) {
  const auto top = fields.integer("top_logprobs", 0, kTopLogprobsMax);
  if (top && *top > 0) request.top_logprobs = static_cast<uint32_t>(*top);
  const Json* include = fields.array("include", 16);
  if (include == nullptr) return;
  for (const Json& name : *include) {
    if (name == "message.output_text.logprobs") {
      request.top_logprobs = static_cast<uint32_t>(top.value_or(0));
    } else if (name != "reasoning.encrypted_content") {
      fields.fail(Code::kUnsupportedValue, "include",
                  "'include' may hold: message.output_text.logprobs, "
                  "reasoning.encrypted_content");
    }
  }
}

}  // namespace

Outcome<ChatRequest> parse_responses(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  ChatRequest request;
  request.dialect = Dialect::kResponses;
  read_generation(fields, ModelField::kRequired, 2, request);
  request.max_tokens = read_token_count(fields, "max_output_tokens");
  request.instructions = fields.text("instructions").value_or("");
  if (!request.instructions.empty()) {
    Message& system = request.messages.emplace_back();
    system.role = Role::kSystem;
    system.text = request.instructions;
  }
  read_input(fields, request);
  read_tools(fields, request);
  read_tool_choice(fields, request);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  read_text_options(fields, request.format);
  read_reasoning(fields, request);
  read_include(fields, request);
  fields.word("truncation", {"disabled"});
  if (const Json* metadata = fields.object("metadata")) request.metadata = to_text(*metadata);
  if (const Json* value = fields.object("stream_options")) {
    Fields options(*value, "stream_options", reading);
    options.ignore({"include_obfuscation"});
    options.done();
  }
  fields.ignore({"user", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
                 "safety_identifier", "max_tool_calls"});
  fields.refuse("previous_response_id", kStateless);
  fields.refuse("conversation", kStateless);
  fields.refuse("background", kStateless);
  fields.refuse("prompt", "this server keeps no prompts; send 'instructions' and 'input'");
  fields.done();
  settle_messages(request, "input", reading);
  settle_tools(request, reading);
  return finish(reading, std::move(request));
}

}  // namespace kvasir::api
