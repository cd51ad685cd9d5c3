// Every route of the HTTP API and who may use it. A route that is not in this table does not exist.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/keys.h"

namespace kvasir::api {

enum class RouteId : uint8_t {
  kHealth,
  kLivez,
  kReadyz,
  kMetrics,
  kModels,
  kModel,
  kChat,
  kCompletions,
  kResponses,
  kMessages,
  kCountTokens,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kProps,
  kSwarmState,
  kWorkerUpgrade,
  kEmbeddings,
};
inline constexpr size_t kRouteCount = static_cast<size_t>(RouteId::kEmbeddings) + 1;

enum class Access : uint8_t {
  kUndecided,  // no route may have this; a test sees to it
  kPublic,     // needs no key
  kAnyKey,
  kInfer,
  kObserve,
  kAdmin,
  kWorker,  // no API key opens it: a worker proves itself in the protocol
};

struct Route {
  RouteId id = RouteId::kHealth;
  std::string_view method;
  std::string_view path;  // "{id}" at its end stands for anything that is not empty
  Access access = Access::kUndecided;
  Family family = Family::kOpenAi;  // of its errors
};
std::span<const Route> all_routes();

struct RouteMatch {
  const Route* route = nullptr;
  std::string parameter;  // what stood for "{id}", percent-decoded
};
// path: as sent, without the query. HEAD finds what GET does. kUnknownUrl, kMethodNotAllowed.
Outcome<RouteMatch> find_route(std::string_view method, std::string_view path);
// Of errors before a route is known: a path of Anthropic's or not.
Family family_of(std::string_view path);

// Whether that key (index into `keys`, or none presented or found) may use the route.
// kInvalidApiKey, kKeyScope. Without any keys everything is open.
Outcome<void> authorize(const Route& route, const KeyRing& keys, std::optional<size_t> key);

// Of a POST: JSON, and not compressed, since a small body could become any size. Browsers send JSON
// to strangers only after a preflight. kUnsupportedMediaType; empty values are absent headers.
Outcome<void> check_body_headers(std::string_view content_type, std::string_view content_encoding);

}  // namespace kvasir::api
