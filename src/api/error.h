// Errors of the HTTP API: one closed list of codes, each with its status and type, and the bodies
// that the two families of clients expect.
//
//   OpenAI:     {"error":{"message","type","param","code","status"}}
//   Anthropic:  {"type":"error","error":{"type","message"},"request_id"}
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

namespace kvasir::api {

// Each is a `code` of docs/api.md and may be a metric label.
enum class Code : uint8_t {
  kInvalidJson,
  kInvalidValue,
  kMissingField,
  kUnsupportedValue,
  kUnsupportedSchema,
  kUnknownField,
  kContextLengthExceeded,
  kInvalidMessages,
  kInvalidApiKey,
  kOriginNotAllowed,
  kHostNotAllowed,
  kKeyScope,
  kModelNotFound,
  kUnknownUrl,
  kMethodNotAllowed,
  kRequestTooLarge,
  kUnsupportedMediaType,
  kQueueFull,
  kKeyRateLimit,
  kEmbeddingsNotSupported,
  kModelLoading,
  kCoverageIncomplete,
  kDraining,
  kInternal,
};

struct CodeInfo {
  Code code;
  std::string_view name;            // "invalid_json"
  int status;                       // HTTP
  std::string_view type;            // of the OpenAI family
  std::string_view anthropic_type;  // of the Anthropic family
};
// The row of `code`; all rows in the order of the enumeration.
const CodeInfo& info(Code code);
std::span<const CodeInfo> all_codes();

struct ApiError {
  Code code = Code::kInternal;
  std::string message;
  std::string param;           // "messages[2].content"; may be empty
  uint32_t retry_after_s = 0;  // 0: no Retry-After

  template <typename... Args>
  static ApiError of(Code code, std::string_view param, fmt::format_string<Args...> format,
                     Args&&... args) {
    return {code, fmt::format(format, std::forward<Args>(args)...), std::string(param), 0};
  }
  ApiError retry_after(uint32_t seconds) && {
    retry_after_s = seconds;
    return std::move(*this);
  }
};

// A value or an ApiError; KVASIR_TRY works with it.
template <typename T>
class [[nodiscard]] Outcome : public tl::expected<T, ApiError> {
 public:
  using tl::expected<T, ApiError>::expected;
  Outcome(ApiError error) : tl::expected<T, ApiError>(tl::unexpect, std::move(error)) {}
};

enum class Family : uint8_t { kOpenAi, kAnthropic };

// The body, one JSON object. Texts that are not UTF-8 come out with U+FFFD in their place.
std::string error_body(const ApiError& error, Family family, std::string_view request_id);

struct Header {
  std::string name;
  std::string value;
};
// Everything an HTTP server needs to answer with an error: adds Retry-After and WWW-Authenticate
// where they belong.
struct ErrorAnswer {
  int status = 500;
  std::vector<Header> headers;
  std::string body;
};
ErrorAnswer error_answer(const ApiError& error, Family family, std::string_view request_id);

// What is said when prompt and answer do not fit: all numbers are in the text. max_tokens: 0 if the
// request did not limit the answer. param: "messages", "prompt" or "input".
ApiError context_length_exceeded(std::string_view param, uint64_t prompt_tokens,
                                 uint64_t max_tokens, uint64_t context);

// An error of the modules below. kInvalid, kUnsupported and kLimit are the client's fault here;
// everything else is ours and its text stays inside: the caller logs it.
ApiError from_error(const Error& error, std::string_view param);

}  // namespace kvasir::api
