// What an answer has to look like, as a grammar of bytes: response formats and tool calls. The part
// of JSON Schema that can be enforced while generating is compiled; the rest is refused by name,
// never dropped (docs/api.md lists it).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "api/request.h"
#include "text/json_grammar.h"

namespace kvasir::api {

inline constexpr size_t kSchemaBytesMax = 256 * 1024;
inline constexpr size_t kDefinitionsMax = 512;
inline constexpr size_t kEnumValuesMax = 512;
inline constexpr size_t kBranchesMax = 64;  // of anyOf and oneOf; every two are compared

using SharedGrammar = std::shared_ptr<const text::JsonGrammar>;

// kUnsupportedSchema, with the place in the schema behind `param`.
Outcome<SharedGrammar> compile_schema(std::string_view schema, std::string_view param);
// Null for text: nothing is constrained.
Outcome<SharedGrammar> compile_format(const OutputFormat& format);

// A call of one of the tools, as models of the Hermes form write it:
//   prefix {"name": "f", "arguments": {...}} suffix
// For "required" and named tool choices (then `tools` holds that one), and strict tools.
struct Envelope {
  std::string_view prefix = "<tool_call>\n";
  std::string_view suffix = "\n</tool_call>";
};
Outcome<SharedGrammar> compile_tool_calls(std::span<const Tool> tools, const Envelope& envelope);

}  // namespace kvasir::api
