#include "api/routes.h"

#include <gtest/gtest.h>

#include <set>

namespace kvasir::api {
namespace {

TEST(Routes, EachHasAnAccessClassAndAllAreThere) {
  std::set<RouteId> ids;
  std::set<std::string> names;
  for (const Route& route : all_routes()) {
    EXPECT_NE(route.access, Access::kUndecided) << route.path;
    EXPECT_TRUE(ids.insert(route.id).second) << route.path;
    EXPECT_TRUE(names.insert(std::string(route.method) + std::string(route.path)).second);
    EXPECT_EQ(route.family, family_of(route.path)) << route.path;
  }
  EXPECT_EQ(ids.size(), kRouteCount);
}

// What a stranger may do on a server with keys. A new route belongs here only on purpose.
TEST(Routes, OnlyTheseNeedNoKey) {
  const KeyRing keys({{"a", "hash", Scope::kAdmin, std::nullopt}});
  std::set<std::string_view> open;
  for (const Route& route : all_routes())
    if (authorize(route, keys, std::nullopt)) open.insert(route.path);
  EXPECT_EQ(open, (std::set<std::string_view>{"/health", "/livez", "/swarm"}));
}

TEST(Routes, LookAtTheScopeOfAKey) {
  const KeyRing keys({{"infer", "1", Scope::kInfer, std::nullopt},
                      {"observe", "2", Scope::kObserve, std::nullopt},
                      {"admin", "3", Scope::kAdmin, std::nullopt}});
  const auto allowed = [&](std::string_view method, std::string_view path, size_t key) {
    const auto match = find_route(method, path);
    EXPECT_TRUE(match) << path;
    const auto answer = authorize(*match->route, keys, key);
    if (!answer) {
      EXPECT_EQ(answer.error().code, Code::kKeyScope);
    }
    return answer.has_value();
  };
  EXPECT_TRUE(allowed("POST", "/v1/chat/completions", 0));
  EXPECT_FALSE(allowed("POST", "/v1/chat/completions", 1));
  EXPECT_TRUE(allowed("POST", "/v1/chat/completions", 2));
  EXPECT_FALSE(allowed("GET", "/metrics", 0));
  EXPECT_TRUE(allowed("GET", "/metrics", 1));
  EXPECT_TRUE(allowed("GET", "/v1/swarm", 2));
  for (const size_t key : {0U, 1U, 2U}) EXPECT_TRUE(allowed("GET", "/v1/models", key));
}

TEST(Routes, AreOpenWithoutAnyKeys) {
  for (const Route& route : all_routes())
    EXPECT_TRUE(authorize(route, KeyRing({}), std::nullopt)) << route.path;
}

TEST(Routes, AreFoundByMethodAndPath) {
  const auto code = [](std::string_view method, std::string_view path) {
    const auto match = find_route(method, path);
    return match ? std::string_view("found") : info(match.error().code).name;
  };
  EXPECT_EQ(code("POST", "/v1/chat/completions"), "found");
  EXPECT_EQ(code("HEAD", "/health"), "found");
  EXPECT_EQ(code("GET", "/v1/chat/completions"), "method_not_allowed");
  EXPECT_EQ(code("DELETE", "/v1/models/x"), "method_not_allowed");
  for (const std::string_view path :
       {"", "/", "/v1", "/v1/chat/completions/", "/V1/models", "/v1/models/", "//health",
        "/health/../metrics", "/v1%2Fmodels"})
    EXPECT_EQ(code("GET", path), "unknown_url") << path;
  EXPECT_EQ(find_route("GET", "/v1/models/org%2Fmodel%20x%")->parameter, "org/model x%");
  EXPECT_EQ(find_route("GET", "/v1/models/org/model")->parameter, "org/model");
}

TEST(BodyHeaders, HaveToSayPlainJson) {
  for (const std::string_view type :
       {"application/json", "Application/JSON; charset=utf-8", "application/json ;x"})
    EXPECT_TRUE(check_body_headers(type, "")) << type;
  EXPECT_TRUE(check_body_headers("application/json", "Identity"));
  for (const std::string_view type :
       {"", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"})
    EXPECT_EQ(check_body_headers(type, "").error().code, Code::kUnsupportedMediaType) << type;
  EXPECT_FALSE(check_body_headers("application/json", "gzip"));
}

}  // namespace
}  // namespace kvasir::api
