#include "api/routes.h"

#include <algorithm>

namespace kvasir::api {
namespace {

constexpr std::string_view kParameter = "{id}";

constexpr Route kRoutes[] = {
    {RouteId::kHealth, "GET", "/health", Access::kPublic, Family::kOpenAi},
    {RouteId::kLivez, "GET", "/livez", Access::kPublic, Family::kOpenAi},
    {RouteId::kReadyz, "GET", "/readyz", Access::kAnyKey, Family::kOpenAi},
    {RouteId::kMetrics, "GET", "/metrics", Access::kObserve, Family::kOpenAi},
    {RouteId::kModels, "GET", "/v1/models", Access::kAnyKey, Family::kOpenAi},
    {RouteId::kModel, "GET", "/v1/models/{id}", Access::kAnyKey, Family::kOpenAi},
    {RouteId::kChat, "POST", "/v1/chat/completions", Access::kInfer, Family::kOpenAi},
    {RouteId::kCompletions, "POST", "/v1/completions", Access::kInfer, Family::kOpenAi},
    {RouteId::kResponses, "POST", "/v1/responses", Access::kInfer, Family::kOpenAi},
    {RouteId::kMessages, "POST", "/v1/messages", Access::kInfer, Family::kAnthropic},
    {RouteId::kCountTokens, "POST", "/v1/messages/count_tokens", Access::kInfer,
     Family::kAnthropic},
    {RouteId::kTokenize, "POST", "/tokenize", Access::kInfer, Family::kOpenAi},
    {RouteId::kDetokenize, "POST", "/detokenize", Access::kInfer, Family::kOpenAi},
    {RouteId::kApplyTemplate, "POST", "/apply-template", Access::kInfer, Family::kOpenAi},
    {RouteId::kProps, "GET", "/props", Access::kAnyKey, Family::kOpenAi},
    {RouteId::kSwarmState, "GET", "/v1/swarm", Access::kObserve, Family::kOpenAi},
    {RouteId::kWorkerUpgrade, "GET", "/swarm", Access::kWorker, Family::kOpenAi},
    {RouteId::kEmbeddings, "POST", "/v1/embeddings", Access::kInfer, Family::kOpenAi},
};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A '%' without two digits behind it stands for itself.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high >= 0 && low >= 0) {
        decoded += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

bool matches(const Route& route, std::string_view path, std::string& parameter) {
  if (!route.path.ends_with(kParameter)) return path == route.path;
  const std::string_view stem = route.path.substr(0, route.path.size() - kParameter.size());
  if (!path.starts_with(stem) || path.size() == stem.size()) return false;
  parameter = percent_decoded(path.substr(stem.size()));
  return true;
}

bool equal_ignoring_case(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

bool scope_suffices(Access access, Scope scope) {
  switch (access) {
    case Access::kPublic:
    case Access::kWorker:
    case Access::kAnyKey:
      return true;
    case Access::kInfer:
      return scope == Scope::kInfer || scope == Scope::kAdmin;
    case Access::kObserve:
      return scope == Scope::kObserve || scope == Scope::kAdmin;
    case Access::kAdmin:
      return scope == Scope::kAdmin;
    case Access::kUndecided:
      break;
  }
  return false;
}

std::string_view needed_scope(Access access) {
  switch (access) {
    case Access::kInfer:
      return "infer";
    case Access::kObserve:
      return "observe";
    default:
      return "admin";
  }
}

}  // namespace

std::span<const Route> all_routes() {
  return kRoutes;
}

Family family_of(std::string_view path) {
  return path.starts_with("/v1/messages") ? Family::kAnthropic : Family::kOpenAi;
}

Outcome<RouteMatch> find_route(std::string_view method, std::string_view path) {
  const Route* other_method = nullptr;
  for (const Route& route : kRoutes) {
    RouteMatch match{&route, {}};
    if (!matches(route, path, match.parameter)) continue;
    if (method == route.method || (method == "HEAD" && route.method == "GET")) return match;
    other_method = &route;
  }
  if (other_method != nullptr) {
    return ApiError::of(Code::kMethodNotAllowed, "", "'{}' takes {}, not '{:.16}'",
                        other_method->path, other_method->method, method);
  }
  return ApiError::of(Code::kUnknownUrl, "", "there is no '{:.128}' here", path);
}

Outcome<void> authorize(const Route& route, const KeyRing& keys, std::optional<size_t> key) {
  // A worker's token is another kind, and is not looked at here.
  if (route.access == Access::kPublic || route.access == Access::kWorker || keys.empty()) {
    KVASIR_CHECK(route.access != Access::kUndecided);
    return {};
  }
  if (!key) {
    return ApiError::of(Code::kInvalidApiKey, "",
                        "this server needs an API key, as 'Authorization: Bearer KEY' or "
                        "'x-api-key: KEY'");
  }
  if (!scope_suffices(route.access, keys[*key].scope)) {
    return ApiError::of(Code::kKeyScope, "",
                        "the key '{}' has the scope '{}', '{}' needs '{}' (--api-key-file gives "
                        "scopes)",
                        keys[*key].name, scope_name(keys[*key].scope), route.path,
                        needed_scope(route.access));
  }
  return {};
}

Outcome<void> check_body_headers(std::string_view content_type, std::string_view content_encoding) {
  if (!content_encoding.empty() && !equal_ignoring_case(content_encoding, "identity")) {
    return ApiError::of(Code::kUnsupportedMediaType, "content-encoding",
                        "bodies are read as they are, not as '{:.64}'", content_encoding);
  }
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (equal_ignoring_case(type, "application/json")) return {};
  return ApiError::of(Code::kUnsupportedMediaType, "content-type",
                      "the body has to be 'application/json', it is '{:.64}'", content_type);
}

}  // namespace kvasir::api
