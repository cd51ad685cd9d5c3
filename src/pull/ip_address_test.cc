#include "pull/ip_address.h"

#include <gtest/gtest.h>

#include "pull/proxy.h"
#include "pull/web_address.h"

namespace kvasir::pull {
namespace {

TEST(IpAddress, KnowsWhatIsNotPublic) {
  for (const char* host : {"127.0.0.1",
                           "0.0.0.0",
                           "10.1.2.3",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.0.1",
                           "169.254.169.254",
                           "100.64.0.1",
                           "192.0.2.1",
                           "198.18.0.1",
                           "224.0.0.1",
                           "255.255.255.255",
                           "[::]",
                           "[::1]",
                           "[fe80::1]",
                           "[fe80::1%eth0]",
                           "[fc00::1]",
                           "[fd12::1]",
                           "[ff02::1]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:10.0.0.1]",
                           "[64:ff9b::7f00:1]",
                           "[2002:7f00:1::]",
                           "[2001:db8::1]",
                           "[2001::1]",
                           "[::127.0.0.1]"})
    EXPECT_EQ(is_public_literal(host), false) << host;
  for (const char* host : {"1.1.1.1", "172.32.0.1", "100.128.0.1", "192.167.255.255",
                           "[2606:4700::1111]", "[64:ff9b::101:101]", "[::ffff:1.1.1.1]"})
    EXPECT_EQ(is_public_literal(host), true) << host;
  EXPECT_EQ(is_public_literal("example.com"), std::nullopt);
}

// The parser that dials turns them into the usual form, so that the check sees what is dialled.
TEST(WebAddress, SpellsNumbersOutBeforeTheyAreChecked) {
  for (const char* host : {"2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1"}) {
    const auto address = parse_web_address(fmt::format("http://{}/x.gguf", host));
    ASSERT_TRUE(address.has_value()) << host;
    EXPECT_EQ(is_public_literal(address->host), false) << host << " " << address->host;
  }
}

TEST(WebAddress, RefusesWhatIsNoPlainAddress) {
  for (const char* text :
       {"", "host/x", "ftp://h/x", "file:///etc/passwd", "https://", "https://u@h/x",
        "https://u:p@h/x", "https://h/a b", "https://h/a\nb", "https://h:0/x", "https://h:99999/x",
        "https://h\\x", "gopher://h/", "https://h%00/x"})
    EXPECT_FALSE(parse_web_address(text).has_value()) << text;
}

TEST(WebAddress, ResolvesRedirects) {
  const auto base = parse_web_address("https://a.example/dir/x?y=1");
  ASSERT_TRUE(base.has_value());
  EXPECT_EQ(resolve_web_address(*base, "z.gguf")->text, "https://a.example/dir/z.gguf");
  EXPECT_EQ(resolve_web_address(*base, "/z?s=%2F")->text, "https://a.example/z?s=%2F");
  EXPECT_EQ(resolve_web_address(*base, "//b.example/z")->host, "b.example");
  EXPECT_FALSE(resolve_web_address(*base, "file:///etc/passwd").has_value());
  EXPECT_FALSE(resolve_web_address(*base, "https://u:p@b.example/").has_value());
  EXPECT_FALSE(resolve_web_address(*base, "").has_value());
}

TEST(WebAddress, AnOriginIsSchemeHostAndPort) {
  const auto a = *parse_web_address("https://a.example/x");
  EXPECT_TRUE(same_origin(a, *parse_web_address("https://A.example:443/y")));
  EXPECT_FALSE(same_origin(a, *parse_web_address("http://a.example/x")));
  EXPECT_FALSE(same_origin(a, *parse_web_address("https://a.example:444/x")));
  EXPECT_FALSE(same_origin(a, *parse_web_address("https://a.example.evil/x")));
}

TEST(Proxy, IsChosenByTheUsualVariables) {
  std::map<std::string, std::string> set;
  const Environment environment = [&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
  const auto secure = *parse_web_address("https://hub.example/x");
  const auto plain = *parse_web_address("http://hub.example/x");
  EXPECT_EQ(proxy_for(secure, environment), "");
  set["HTTP_PROXY"] = "http://upper:1";  // a header in CGI: not read
  set["all_proxy"] = "http://all:1";
  EXPECT_EQ(proxy_for(plain, environment), "http://all:1");
  set["http_proxy"] = "http://p:1";
  set["HTTPS_PROXY"] = "http://s:1";
  EXPECT_EQ(proxy_for(plain, environment), "http://p:1");
  EXPECT_EQ(proxy_for(secure, environment), "http://s:1");
  for (const char* list : {"*", "hub.example", ".example", "a.b, HUB.example", "x,example"}) {
    set["no_proxy"] = list;
    EXPECT_EQ(proxy_for(secure, environment), "") << list;
  }
  for (const char* list : {"", "b.example", "ub.example", "hub.example.org"}) {
    set["no_proxy"] = list;
    EXPECT_EQ(proxy_for(secure, environment), "http://s:1") << list;
  }
}

}  // namespace
}  // namespace kvasir::pull
