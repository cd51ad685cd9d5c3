#include "api/error.h"

#include "api/json_writer.h"

namespace kvasir::api {
namespace {

constexpr std::string_view kBadRequest = "invalid_request_error";
constexpr std::string_view kUnavailable = "unavailable_error";

constexpr CodeInfo kCodes[] = {
    {Code::kInvalidJson, "invalid_json", 400, kBadRequest, kBadRequest},
    {Code::kInvalidValue, "invalid_value", 400, kBadRequest, kBadRequest},
    {Code::kMissingField, "missing_field", 400, kBadRequest, kBadRequest},
    {Code::kUnsupportedValue, "unsupported_value", 400, kBadRequest, kBadRequest},
    {Code::kUnsupportedSchema, "unsupported_schema", 400, kBadRequest, kBadRequest},
    {Code::kUnknownField, "unknown_field", 400, kBadRequest, kBadRequest},
    {Code::kContextLengthExceeded, "context_length_exceeded", 400, kBadRequest, kBadRequest},
    {Code::kInvalidMessages, "invalid_messages", 400, kBadRequest, kBadRequest},
    {Code::kInvalidApiKey, "invalid_api_key", 401, "authentication_error", "authentication_error"},
    {Code::kOriginNotAllowed, "origin_not_allowed", 403, "permission_error", "permission_error"},
    {Code::kHostNotAllowed, "host_not_allowed", 403, "permission_error", "permission_error"},
    {Code::kKeyScope, "key_scope", 403, "permission_error", "permission_error"},
    {Code::kModelNotFound, "model_not_found", 404, "not_found_error", "not_found_error"},
    {Code::kUnknownUrl, "unknown_url", 404, "not_found_error", "not_found_error"},
    {Code::kMethodNotAllowed, "method_not_allowed", 405, kBadRequest, kBadRequest},
    {Code::kRequestTooLarge, "request_too_large", 413, kBadRequest, "request_too_large"},
    {Code::kUnsupportedMediaType, "unsupported_media_type", 415, kBadRequest, kBadRequest},
    {Code::kQueueFull, "queue_full", 429, "rate_limit_error", "rate_limit_error"},
    {Code::kKeyRateLimit, "key_rate_limit", 429, "rate_limit_error", "rate_limit_error"},
    {Code::kEmbeddingsNotSupported, "embeddings_not_supported", 501, "not_supported_error",
     "api_error"},
    {Code::kModelLoading, "model_loading", 503, kUnavailable, "overloaded_error"},
    {Code::kCoverageIncomplete, "coverage_incomplete", 503, kUnavailable, "overloaded_error"},
    {Code::kDraining, "draining", 503, kUnavailable, "overloaded_error"},
    {Code::kInternal, "internal", 500, "server_error", "api_error"},
};

// The row of a code stands at its own number.
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kCodes); ++i)
    if (static_cast<size_t>(kCodes[i].code) != i) return false;
  return std::size(kCodes) == static_cast<size_t>(Code::kInternal) + 1;
}
static_assert(in_order());

}  // namespace

const CodeInfo& info(Code code) {
  return kCodes[static_cast<size_t>(code)];
}

std::span<const CodeInfo> all_codes() {
  return kCodes;
}

std::string error_body(const ApiError& error, Family family, std::string_view request_id) {
  const CodeInfo& row = info(error.code);
  JsonWriter out;
  out.begin_object();
  if (family == Family::kAnthropic) {
    out.member("type", "error");
    out.key("error").begin_object();
    out.member("type", row.anthropic_type);
    out.member("message", error.message);
    out.end_object();
    out.member("request_id", request_id);
  } else {
    out.key("error").begin_object();
    out.member("message", error.message);
    out.member("type", row.type);
    out.key("param").text_or_null(error.param);
    out.member("code", row.name);
    out.member("status", row.status);
    out.end_object();
  }
  out.end_object();
  return out.take();
}

ErrorAnswer error_answer(const ApiError& error, Family family, std::string_view request_id) {
  ErrorAnswer answer;
  answer.status = info(error.code).status;
  answer.headers.push_back({"Content-Type", "application/json"});
  if (error.retry_after_s > 0)
    answer.headers.push_back({"Retry-After", fmt::format("{}", error.retry_after_s)});
  if (answer.status == 401) answer.headers.push_back({"WWW-Authenticate", "Bearer"});
  answer.body = error_body(error, family, request_id);
  return answer;
}

ApiError context_length_exceeded(std::string_view param, uint64_t prompt_tokens,
                                 uint64_t max_tokens, uint64_t context) {
  if (max_tokens == 0) {
    return ApiError::of(Code::kContextLengthExceeded, param,
                        "the prompt has {} tokens and leaves no room for an answer: the context "
                        "has {}",
                        prompt_tokens, context);
  }
  return ApiError::of(Code::kContextLengthExceeded, param,
                      "the prompt has {} tokens and the answer may have {}: the context has {}",
                      prompt_tokens, max_tokens, context);
}

ApiError from_error(const Error& error, std::string_view param) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
    case ErrorKind::kLimit:
      return {Code::kInvalidValue, error.message, std::string(param), 0};
    case ErrorKind::kUnsupported:
      return {Code::kUnsupportedValue, error.message, std::string(param), 0};
    case ErrorKind::kCorrupt:
    case ErrorKind::kNotFound:
    case ErrorKind::kIo:
    case ErrorKind::kNonFinite:
    case ErrorKind::kUntrusted:
      break;
  }
  return {Code::kInternal, "the request failed inside the server", {}, 0};
}

}  // namespace kvasir::api
