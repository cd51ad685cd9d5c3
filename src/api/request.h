// What every dialect of the API asks for, in one neutral form, and the parsers that produce it.
// Pure: JSON text in, a request or a typed error out. Knows no model, no context length, no clock.
// docs/api.md lists each field of each dialect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/error.h"

namespace kvasir::api {

// A conversation of the longest context there is (262,144 tokens of about 4 bytes) needs 1 MiB, and
// three times that where every character is escaped.
inline constexpr size_t kRequestBytesMax = size_t{8} * 1024 * 1024;
// Schemas of tools nest by 10 to 20. What writes JSON recurses that deep.
inline constexpr size_t kJsonDepthMax = 64;
// A prompt of token ids is one value per token, 262,144 for the longest context. A hostile body is
// all short members, of 120 bytes each here: 60 MiB.
inline constexpr size_t kJsonValuesMax = size_t{1} << 19;
inline constexpr size_t kMessagesMax = 4096;
inline constexpr size_t kPartsMax = 4096;  // of one message
inline constexpr size_t kToolsMax = 128;
inline constexpr size_t kToolNameBytesMax = 64;
inline constexpr size_t kStopsMax = 16;
inline constexpr size_t kStopBytesMax = 512;
inline constexpr uint32_t kChoicesMax = 8;
inline constexpr uint32_t kTopLogprobsMax = 20;
inline constexpr size_t kPromptsMax = 64;
inline constexpr size_t kLogitBiasMax = 1024;
inline constexpr int64_t kTokensMax = (int64_t{1} << 31) - 1;

enum class UnknownFields : uint8_t { kIgnored, kRefused };  // --strict-api

enum class Dialect : uint8_t { kChat, kCompletions, kResponses, kMessages };

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };
std::string_view role_name(Role role);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object
};

struct Message {
  Role role = Role::kUser;
  std::string text;                  // parts joined without anything between them
  std::string reasoning;             // of an assistant
  std::vector<ToolCall> tool_calls;  // of an assistant
  std::string tool_call_id;          // of a tool: which call this answers
};

struct Sampling {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<uint32_t> top_k;  // 0: off
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repeat_penalty;
  std::optional<uint64_t> seed;  // a negative one as its two's complement
  std::vector<std::pair<int32_t, double>> logit_bias;
};

struct OutputFormat {
  enum class Kind : uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string name;    // of a kJsonSchema; the rest too
  std::string schema;  // JSON text
  std::string description;
  bool strict = false;
};

struct Tool {
  std::string name;
  std::string description;
  std::string parameters;  // JSON text of a schema; "{}" if none was given
  bool strict = false;
};

struct ToolChoice {
  enum class Kind : uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  // of a kNamed
};

enum class Effort : uint8_t { kNone, kMinimal, kLow, kMedium, kHigh, kMax };
std::string_view effort_name(Effort effort);

struct StreamOptions {
  bool on = false;
  bool include_usage = false;
  bool return_progress = false;  // prefill progress as chunks, not only as comment lines
};

// What all kinds of generation share.
struct Generation {
  std::string model;
  Sampling sampling;
  std::optional<uint32_t> max_tokens;  // 1 and more; against the context it is checked later
  std::vector<std::string> stops;
  uint32_t choices = 1;                  // "n"
  std::optional<uint32_t> top_logprobs;  // set: logprobs wanted, with so many alternatives
  StreamOptions stream;
  bool details = false;  // "kvasir_details"
};

struct ChatRequest : Generation {
  Dialect dialect = Dialect::kChat;
  // At most one kSystem, and then first. At least one other.
  std::vector<Message> messages;
  // The last message is an assistant's and the answer goes on where it ends.
  bool continue_last_message = false;
  OutputFormat format;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  std::optional<bool> thinking;                 // unset: as the model's template does
  std::optional<uint32_t> thinking_tokens_max;  // Anthropic's budget_tokens
  std::optional<Effort> effort;
  std::string instructions;  // Responses: said again in the answer
  std::string metadata;      // Responses: JSON text, said again in the answer; may be empty
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;  // text or token ids

struct CompletionRequest : Generation {
  std::vector<Prompt> prompts;  // at least one; answers are prompt-major: index = prompt * n + i
  bool echo = false;
};

struct TokenizeRequest {
  std::string content;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};

struct DetokenizeRequest {
  std::vector<int32_t> tokens;
};

// Bodies may be anything. Errors: kInvalidJson, kInvalidValue, kMissingField, kUnsupportedValue,
// kInvalidMessages, kUnknownField, kRequestTooLarge.
Outcome<ChatRequest> parse_chat(std::string_view body, UnknownFields unknown);
Outcome<CompletionRequest> parse_completions(std::string_view body, UnknownFields unknown);
Outcome<ChatRequest> parse_responses(std::string_view body, UnknownFields unknown);
Outcome<ChatRequest> parse_messages(std::string_view body, UnknownFields unknown);
// /v1/messages/count_tokens: the same without max_tokens.
Outcome<ChatRequest> parse_count_tokens(std::string_view body, UnknownFields unknown);
// /apply-template: messages, tools and thinking of a chat; `model` may be missing.
Outcome<ChatRequest> parse_apply_template(std::string_view body, UnknownFields unknown);
Outcome<TokenizeRequest> parse_tokenize(std::string_view body, UnknownFields unknown);
Outcome<DetokenizeRequest> parse_detokenize(std::string_view body, UnknownFields unknown);

}  // namespace kvasir::api
