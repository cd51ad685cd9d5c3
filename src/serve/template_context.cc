#include "serve/template_context.h"

#include <nlohmann/json.hpp>

#include "text/template_json.h"

namespace kvasir::serve {
namespace {

using Json = nlohmann::ordered_json;
using text::TemplateValue;
using Object = TemplateValue::Object;

// Parsers of requests have read it already, so that it is JSON of bounded depth.
api::Outcome<TemplateValue> value_of(const std::string& json, std::string_view param) {
  const Json parsed = Json::parse(json.empty() ? "{}" : json, nullptr, false);
  auto value = text::template_value_of(parsed);
  if (parsed.is_discarded() || !value)
    return api::ApiError::of(api::Code::kInvalidValue, param, "this is no JSON that can be used");
  return std::move(*value);
}

std::string compact(const std::string& json) {
  const Json parsed = Json::parse(json, nullptr, false);
  return parsed.is_discarded() ? json : parsed.dump();
}

bool offers_tools(const api::ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice.kind != api::ToolChoice::Kind::kNone;
}

api::Outcome<TemplateValue> tools_of(const api::ChatRequest& request) {
  TemplateValue::Array tools;
  for (const api::Tool& tool : request.tools) {
    KVASIR_TRY(TemplateValue parameters, value_of(tool.parameters, "tools"));
    Object function = {{"name", tool.name},
                       {"description", tool.description},
                       {"parameters", std::move(parameters)}};
    tools.emplace_back(Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return TemplateValue(std::move(tools));
}

api::Outcome<TemplateValue> message_value(const api::Message& message) {
  Object value = {{"role", api::role_name(message.role)}, {"content", message.text}};
  if (!message.reasoning.empty()) value.emplace_back("reasoning_content", message.reasoning);
  if (!message.tool_call_id.empty()) value.emplace_back("tool_call_id", message.tool_call_id);
  if (!message.tool_calls.empty()) {
    TemplateValue::Array calls;
    for (const api::ToolCall& call : message.tool_calls) {
      KVASIR_TRY(TemplateValue arguments, value_of(call.arguments, "messages"));
      calls.emplace_back(
          Object{{"id", call.id},
                 {"type", "function"},
                 {"function", Object{{"name", call.name}, {"arguments", std::move(arguments)}}}});
    }
    value.emplace_back("tool_calls", std::move(calls));
  }
  return TemplateValue(std::move(value));
}

// The Hermes form in words, for templates that know nothing of tools.
std::string tools_text(const api::ChatRequest& request) {
  std::string text =
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const api::Tool& tool : request.tools) {
    const Json name = tool.name, description = tool.description;
    text += "\n{\"type\": \"function\", \"function\": {\"name\": " + name.dump() +
            ", \"description\": " + description.dump() +
            ", \"parameters\": " + compact(tool.parameters) + "}}";
  }
  return text +
         "\n</tools>\n\nFor each function call, return a json object with function name and "
         "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "
         "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
}

std::string call_text(const api::ToolCall& call) {
  const Json name = call.name;
  return "<tool_call>\n{\"name\": " + name.dump() + ", \"arguments\": " + compact(call.arguments) +
         "}\n</tool_call>";
}

std::vector<api::Message> with_tools_in_words(const api::ChatRequest& request) {
  std::vector<api::Message> messages = request.messages;
  for (api::Message& message : messages) {
    for (const api::ToolCall& call : message.tool_calls)
      message.text += (message.text.empty() ? "" : "\n") + call_text(call);
    message.tool_calls.clear();
    if (message.role != api::Role::kTool) continue;
    message.role = api::Role::kUser;
    message.text = "<tool_response>\n" + message.text + "\n</tool_response>";
  }
  if (!offers_tools(request)) return messages;
  if (messages.front().role != api::Role::kSystem)
    messages.insert(messages.begin(), api::Message{api::Role::kSystem, {}, {}, {}, {}});
  std::string& system = messages.front().text;
  system += (system.empty() ? "" : "\n\n") + tools_text(request);
  return messages;
}

}  // namespace

api::Outcome<TemplateValue> template_context(const api::ChatRequest& request,
                                             const TemplateFacts& facts) {
  const std::vector<api::Message> in_words =
      facts.knows_tools ? std::vector<api::Message>() : with_tools_in_words(request);
  TemplateValue::Array messages;
  for (const api::Message& message : facts.knows_tools ? request.messages : in_words) {
    KVASIR_TRY(TemplateValue value, message_value(message));
    messages.push_back(std::move(value));
  }
  Object context = {{"messages", std::move(messages)},
                    {"add_generation_prompt", !request.continue_last_message},
                    {"bos_token", TemplateValue::special(std::string(facts.bos))},
                    {"eos_token", TemplateValue::special(std::string(facts.eos))}};
  if (facts.knows_tools && offers_tools(request)) {
    KVASIR_TRY(TemplateValue tools, tools_of(request));
    context.emplace_back("tools", std::move(tools));
  }
  if (request.thinking) context.emplace_back("enable_thinking", *request.thinking);
  if (request.effort) context.emplace_back("reasoning_effort", api::effort_name(*request.effort));
  return TemplateValue(std::move(context));
}

}  // namespace kvasir::serve
