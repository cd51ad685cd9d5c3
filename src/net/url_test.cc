#include "net/url.h"

#include <gtest/gtest.h>

namespace kvasir::net {
namespace {

TEST(Url, PartsOfGoodOnes) {
  struct Case {
    const char *text, *scheme, *host;
    int port;
    const char* target;
  };
  for (const Case& c :
       {Case{"ws://10.0.0.5:8443", "ws", "10.0.0.5", 8443, "/"},
        Case{"WSS://Relay.example/swarm?x=1", "wss", "Relay.example", 443, "/swarm?x=1"},
        Case{"http://localhost/", "http", "localhost", 80, "/"},
        Case{"https://a?b=c", "https", "a", 443, "/?b=c"},
        Case{"ws://[::1]:65535/a/b", "ws", "::1", 65535, "/a/b"},
        Case{"http://[fe80::1%25eth0]/", "http", "fe80::1%25eth0", 80, "/"}}) {
    SCOPED_TRACE(c.text);
    auto url = parse_url(c.text);
    ASSERT_TRUE(url) << url.error().message;
    EXPECT_EQ(url->scheme, c.scheme);
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->target, c.target);
    // Text and back.
    auto again = parse_url(url_text(*url));
    ASSERT_TRUE(again);
    EXPECT_EQ(url_text(*again), url_text(*url));
  }
}

TEST(Url, EverythingElseIsRefused) {
  for (const char* text : {"",
                           "ws",
                           "ws:",
                           "ws:/",
                           "ws://",
                           "://a",
                           "ftp://a/",
                           "10.0.0.5:80",
                           "ws://:80",
                           "ws://a:",
                           "ws://a:0",
                           "ws://a:65536",
                           "ws://a:080000",
                           "ws://a:8x",
                           "ws://a:-1",
                           "ws://user@a/",
                           "ws://user:pw@a/",
                           "ws://a/#x",
                           "ws://a b/",
                           "ws://a/\r\nX: y",
                           "ws://a/\x7f",
                           "ws://a/\xc3",
                           "ws://[::1",
                           "ws://[]/",
                           "ws://[a]/",
                           "ws://[::1]x/",
                           "ws://a]/",
                           "ws://a\\b/"}) {
    auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().kind, ErrorKind::kInvalid) << text;
  }
  EXPECT_FALSE(parse_url(std::string_view("ws://a\0b/", 9)));
}

}  // namespace
}  // namespace kvasir::net
