#include "api/request_parts.h"

#include <charconv>
#include <limits>

namespace kvasir::api {
namespace {

void read_logit_bias(Fields& fields, Sampling& sampling) {
  const Json* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > kLogitBiasMax) {
    fields.fail(Code::kInvalidValue, "logit_bias",
                fmt::format("'logit_bias' names {} tokens, at most {} are taken", bias->size(),
                            kLogitBiasMax));
    return;
  }
  Fields entries(*bias, "logit_bias", fields.reading());
  for (const auto& [name, value] : bias->items()) {
    int32_t id = -1;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (fault != std::errc() || end != name.data() + name.size() || id < 0) {
      fields.fail(Code::kInvalidValue, "logit_bias",
                  fmt::format("'logit_bias': '{:.32}' is not a token id", name));
      return;
    }
    const std::optional<double> amount = entries.number(name, -100, 100);
    if (!amount) {
      if (!fields.failed())
        fields.fail(Code::kInvalidValue, "logit_bias", "'logit_bias' holds a null");
      return;
    }
    sampling.logit_bias.emplace_back(id, *amount);
  }
}

std::string_view part_word(std::initializer_list<std::string_view> types) {
  return types.size() == 0 ? std::string_view("text") : *types.begin();
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "";
}

std::string_view effort_name(Effort effort) {
  constexpr std::string_view kNames[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  return kNames[static_cast<size_t>(effort)];
}

void read_generation(Fields& fields, ModelField model, double temperature_max,
                     Generation& generation) {
  generation.model = model == ModelField::kRequired ? fields.required_text("model")
                                                    : fields.text("model").value_or("");
  if (generation.model.size() > 256)
    fields.fail(Code::kInvalidValue, "model", "'model' is longer than 256 bytes");
  Sampling& sampling = generation.sampling;
  sampling.temperature = fields.number("temperature", 0, temperature_max);
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  if (const auto top_k = fields.integer("top_k", 0, kTokensMax))
    sampling.top_k = static_cast<uint32_t>(*top_k);
  sampling.presence_penalty = fields.number("presence_penalty", -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  // The sampler divides by it: below a hundredth or above a hundred nothing else would count.
  sampling.repeat_penalty = fields.number("repeat_penalty", 0.01, 100);
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::max()))
    sampling.seed = static_cast<uint64_t>(*seed);
  read_logit_bias(fields, sampling);
  generation.stream.on = fields.flag("stream");
  generation.details = fields.flag("kvasir_details");
}

std::vector<std::string> read_stops(Fields& fields, std::string_view name) {
  std::vector<std::string> stops;
  const Json* value = fields.find(name);
  if (value == nullptr) return stops;
  const std::string path = fields.path_of(name);
  const auto add = [&](const Json& stop, const std::string& where) {
    if (!stop.is_string()) {
      fields.reading().fail(ApiError::of(
          Code::kInvalidValue, where, "'{}' has to be a string, it is {}", where, type_name(stop)));
      return;
    }
    std::string text = stop.get<std::string>();
    if (text.empty() || text.size() > kStopBytesMax) {
      fields.reading().fail(ApiError::of(Code::kInvalidValue, where,
                                         "'{}' has {} bytes, a stop may have 1 to {}", where,
                                         text.size(), kStopBytesMax));
      return;
    }
    stops.push_back(std::move(text));
  };
  if (!value->is_array()) {
    add(*value, path);
    return stops;
  }
  if (fields.array(name, kStopsMax) == nullptr) return stops;
  for (size_t i = 0; i < value->size(); ++i) add((*value)[i], fmt::format("{}[{}]", path, i));
  return stops;
}

std::optional<uint32_t> read_token_count(Fields& fields, std::string_view name) {
  const auto count = fields.integer(name, 1, kTokensMax);
  return count ? std::optional(static_cast<uint32_t>(*count)) : std::nullopt;
}

std::optional<Effort> read_effort(Fields& fields, std::string_view name) {
  const auto word = fields.word(name, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (!word) return std::nullopt;
  return static_cast<Effort>(std::min<size_t>(*word, static_cast<size_t>(Effort::kMax)));
}

void apply_effort(std::optional<Effort> effort, ChatRequest& request) {
  if (!effort) return;
  request.effort = effort;
  request.thinking = *effort != Effort::kNone;
}

std::string read_content(const Json& content, const std::string& path,
                         std::initializer_list<std::string_view> types, Reading& reading) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) {
    reading.fail(ApiError::of(Code::kInvalidMessages, path,
                              "'{}' has to be a string or an array of parts, it is {}", path,
                              type_name(content)));
    return text;
  }
  if (content.size() > kPartsMax) {
    reading.fail(ApiError::of(Code::kInvalidMessages, path,
                              "'{}' has {} parts, at most {} are taken", path, content.size(),
                              kPartsMax));
    return text;
  }
  for (size_t i = 0; i < content.size() && !reading.error; ++i) {
    Fields part(content[i], fmt::format("{}[{}]", path, i), reading);
    const std::string type = part.required_text("type");
    if (reading.error) return text;
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      part.fail(Code::kUnsupportedValue, "type",
                fmt::format("'{}' is '{:.64}': this model reads text, so only parts of type '{}' "
                            "are taken",
                            part.path_of("type"), type, part_word(types)));
      return text;
    }
    // A refusal part is text under another name.
    text += part.required_text(type == "refusal" ? "refusal" : "text");
    part.ignore({"cache_control", "annotations", "logprobs", "citations"});
    part.done();
  }
  return text;
}

void check_tool_name(std::string_view name, const std::string& path, Reading& reading) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  if (!name.empty() && name.size() <= kToolNameBytesMax &&
      std::all_of(name.begin(), name.end(), allowed))
    return;
  reading.fail(ApiError::of(Code::kInvalidValue, path,
                            "'{}' has to be 1 to {} letters, digits, '_', '-' or '.'", path,
                            kToolNameBytesMax));
}

std::string read_arguments(std::string_view arguments, const std::string& path, Reading& reading) {
  if (arguments.empty()) return "{}";
  auto value = parse_json_object(arguments);
  if (value) return std::string(arguments);
  reading.fail(ApiError::of(Code::kInvalidMessages, path,
                            "'{}' has to be the text of a JSON object: {}", path,
                            value.error().message));
  return "{}";
}

std::string read_schema(Fields& fields, std::string_view name) {
  const Json* schema = fields.object(name);
  return schema == nullptr ? "{}" : to_text(*schema);
}

void settle_messages(ChatRequest& request, std::string_view path, Reading& reading) {
  if (reading.error) return;
  std::string system;
  bool has_system = false;
  std::set<std::string_view> open_calls;
  std::vector<Message> rest;
  for (size_t i = 0; i < request.messages.size(); ++i) {
    const Message& message = request.messages[i];
    if (message.role == Role::kSystem) {
      if (has_system && !system.empty() && !message.text.empty()) system += "\n\n";
      system += message.text;
      has_system = true;
    }
    for (const ToolCall& call : message.tool_calls) open_calls.insert(call.id);
    if (message.role == Role::kTool && open_calls.count(message.tool_call_id) == 0) {
      reading.fail(ApiError::of(Code::kInvalidMessages, fmt::format("{}[{}]", path, i),
                                "'{}[{}]' answers the tool call '{:.64}', which no message "
                                "before it makes",
                                path, i, message.tool_call_id));
      return;
    }
  }
  rest.reserve(request.messages.size());
  if (has_system) {
    rest.emplace_back();
    rest.back().role = Role::kSystem;
    rest.back().text = std::move(system);
  }
  for (Message& message : request.messages)
    if (message.role != Role::kSystem) rest.push_back(std::move(message));
  if (rest.size() == (has_system ? 1U : 0U)) {
    reading.fail(ApiError::of(Code::kInvalidMessages, path,
                              "'{}' needs at least one message of a user", path));
    return;
  }
  request.messages = std::move(rest);
  const Message& last = request.messages.back();
  if (request.continue_last_message &&
      (last.role != Role::kAssistant || !last.tool_calls.empty())) {
    reading.fail(ApiError::of(Code::kInvalidMessages, path,
                              "the last of '{}' has to be an assistant's text to be continued",
                              path));
  }
}

void settle_tools(const ChatRequest& request, Reading& reading) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    if (names.insert(request.tools[i].name).second) continue;
    reading.fail(ApiError::of(Code::kInvalidValue, fmt::format("tools[{}]", i),
                              "two tools are named '{}'", request.tools[i].name));
  }
  const ToolChoice& choice = request.tool_choice;
  if (choice.kind == ToolChoice::Kind::kNamed && names.count(choice.name) == 0) {
    reading.fail(ApiError::of(Code::kInvalidValue, "tool_choice",
                              "'tool_choice' names '{:.64}', which is not one of the tools",
                              choice.name));
  }
  if (choice.kind == ToolChoice::Kind::kRequired && request.tools.empty()) {
    reading.fail(ApiError::of(Code::kInvalidValue, "tool_choice",
                              "'tool_choice' requires a tool call, and there are no tools"));
  }
}

}  // namespace kvasir::api
