// Parts of requests that several dialects share.
#pragma once

#include "api/json_reader.h"

namespace kvasir::api {

// model (required unless said otherwise), temperature, top_p, top_k, min_p, penalties, seed,
// logit_bias, stream, kvasir_details.
enum class ModelField : uint8_t { kRequired, kOptional };
void read_generation(Fields& fields, ModelField model, double temperature_max,
                     Generation& generation);

// A string or up to kStopsMax of them, none empty.
std::vector<std::string> read_stops(Fields& fields, std::string_view name);

// 1 and more.
std::optional<uint32_t> read_token_count(Fields& fields, std::string_view name);

std::optional<Effort> read_effort(Fields& fields, std::string_view name);
// What an effort says about thinking.
void apply_effort(std::optional<Effort> effort, ChatRequest& request);

// The text of a content that is a string or an array of parts, each {"type", "text"} with a type
// of `types`. Others are kUnsupportedValue by name: "messages[2].content[0].type".
std::string read_content(const Json& content, const std::string& path,
                         std::initializer_list<std::string_view> types, Reading& reading);

// Letters, digits, '_', '-' and '.', 1 to kToolNameBytesMax bytes: goes into prompts and JSON.
void check_tool_name(std::string_view name, const std::string& path, Reading& reading);
// JSON text of an object, in `arguments` or in quotes; anything else fails.
std::string read_arguments(std::string_view arguments, const std::string& path, Reading& reading);
// An object; "{}" if it is absent.
std::string read_schema(Fields& fields, std::string_view name);

// Makes a conversation that templates understand, or says which message is wrong:
// system messages wherever they stand become one at the front, joined by an empty line; a tool
// message has to answer a call made before it; something has to be said besides the system's.
void settle_messages(ChatRequest& request, std::string_view path, Reading& reading);
// A named choice has to be one of the tools; required needs at least one.
void settle_tools(const ChatRequest& request, Reading& reading);

// The parser's end: the first error or the value.
template <typename T>
Outcome<T> finish(Reading& reading, T value) {
  if (reading.error) return std::move(*reading.error);
  return value;
}

}  // namespace kvasir::api
