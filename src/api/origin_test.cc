#include "api/origin.h"

#include <gtest/gtest.h>

namespace kvasir::api {
namespace {

std::string value(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers)
    if (header.name == name) return header.value;
  return "";
}

TEST(Cors, AllowsThisServersPagesAlone) {
  const CorsPolicy policy;
  EXPECT_TRUE(policy.check("", "localhost:8080"));
  EXPECT_TRUE(policy.check("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(policy.check("https://a.example", "a.example"));
  for (const std::string_view origin :
       {"http://localhost:8081", "http://evil.example", "null", "http://localhost:8080.evil",
        "file://", "chrome-extension://x"}) {
    const auto answer = policy.check(origin, "localhost:8080");
    ASSERT_FALSE(answer) << origin;
    EXPECT_EQ(answer.error().code, Code::kOriginNotAllowed);
    EXPECT_NE(answer.error().message.find("--cors-origin"), std::string::npos);
  }
  EXPECT_FALSE(policy.check("http://", ""));
}

TEST(Cors, AllowsOriginsFromTheListExactly) {
  const auto policy = CorsPolicy::make({"https://a.example", "http://localhost:5173"}, true);
  ASSERT_TRUE(policy);
  const auto answer = policy->check("https://a.example", "b.example");
  ASSERT_TRUE(answer);
  EXPECT_EQ(value(*answer, "Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(value(*answer, "Vary"), "Origin");
  for (const std::string_view origin :
       {"http://a.example", "https://a.example:444", "https://sub.a.example",
        "https://a.example.evil", "https://A.example"})
    EXPECT_FALSE(policy->check(origin, "b.example")) << origin;
  const auto preflight = policy->preflight("https://a.example", "b.example");
  ASSERT_TRUE(preflight);
  EXPECT_NE(value(*preflight, "Access-Control-Allow-Headers").find("authorization"),
            std::string::npos);
  EXPECT_FALSE(policy->preflight("https://evil.example", "b.example"));
}

TEST(Cors, AllowsEverybodyOnlyWithoutKeys) {
  EXPECT_FALSE(CorsPolicy::make({"*"}, true));
  const auto policy = CorsPolicy::make({"*"}, false);
  ASSERT_TRUE(policy);
  EXPECT_EQ(value(*policy->check("https://x.example", "h"), "Access-Control-Allow-Origin"), "*");
}

TEST(Cors, RefusesWhatIsNoOrigin) {
  for (const char* origin : {"", "a.example", "https://", "https://a.example/", "https://a/b",
                             "HTTPS://a", "ftp://a", "null", "https://a.example "})
    EXPECT_FALSE(CorsPolicy::make({origin}, false)) << origin;
}

TEST(Host, OnLoopbackOnlyLoopbackNamesAreAnswered) {
  for (const std::string_view host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:80",
                                      "127.1.2.3:1", "[::1]", "[::1]:8080"})
    EXPECT_TRUE(check_host(Bound::kLoopback, host)) << host;
  for (const std::string_view host :
       {"", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.0.0", "1270.0.0.1", "127.0.0.1:", "localhost:80:80", "[::1", "[::2]", "[::1]x",
        "0.0.0.0", "127.0.0.1@evil", "localhost:port", "127..0.1"})
    EXPECT_FALSE(check_host(Bound::kLoopback, host)) << host;
  EXPECT_TRUE(check_host(Bound::kNetwork, "evil.example"));
}

TEST(Listen, WithoutKeysOnlyThisMachineIsServed) {
  EXPECT_TRUE(check_listen("127.0.0.1", false, NoAuth::kNotSaid));
  EXPECT_TRUE(check_listen("::1", false, NoAuth::kNotSaid));
  for (const char* address : {"0.0.0.0", "::", "192.168.1.2", "[::]", ""}) {
    EXPECT_FALSE(check_listen(address, false, NoAuth::kNotSaid)) << address;
    EXPECT_TRUE(check_listen(address, true, NoAuth::kNotSaid));
    EXPECT_TRUE(check_listen(address, false, NoAuth::kSaid));
  }
}

}  // namespace
}  // namespace kvasir::api
