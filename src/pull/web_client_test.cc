// Redirects, tokens and addresses, against a server that lies.
#include "pull/web_client.h"

#include <gmock/gmock.h>

#include <future>

#include "pull/remote_model.h"
#include "pull/test_web_server.h"

namespace kvasir::pull {
namespace {

using ::testing::HasSubstr;

TestReply redirect(const std::string& to, int status = 302) {
  TestReply reply;
  reply.status = status;
  reply.headers = {"Location: " + to};
  return reply;
}

class Web : public ::testing::Test {
 protected:
  Web() {
    CurlOptions options;
    options.allow_private = true;
    transfer_ = make_curl_transfer(options);
    rules_.allow_private = true;
  }
  Result<std::string> get(const std::string& url) {
    WebAnswer answer;
    return WebClient(*transfer_, rules_).get_text(*parse_web_address(url), 1000, answer);
  }

  std::unique_ptr<Transfer> transfer_;
  WebRules rules_;
};

TEST_F(Web, FollowsAFewRedirects) {
  TestWebServer server([](const TestRequest& request) {
    const int left = request.target.back() - '0';
    TestReply reply;
    reply.body = "here";
    return left == 0 ? reply : redirect("/" + std::to_string(left - 1), left % 2 == 0 ? 307 : 302);
  });
  EXPECT_EQ(get(server.url("/5")).value_or("none"), "here");
  EXPECT_EQ(get(server.url("/6")).error().kind, ErrorKind::kCorrupt);
}

// Whatever the status, and also when a server asks for it by a challenge.
TEST_F(Web, ATokenGoesToItsOriginAlone) {
  TestWebServer elsewhere([](const TestRequest&) { return TestReply{}; });
  int status = 302;
  TestWebServer server([&](const TestRequest& request) {
    if (request.target == "/same") return redirect("/there");
    if (request.target == "/there") return TestReply{};
    TestReply reply = redirect(elsewhere.url("/x"), status);
    if (status == 401)
      reply.headers = {"WWW-Authenticate: Bearer realm=\"" + elsewhere.url("/x") + "\""};
    return reply;
  });
  rules_.token = "secret";
  rules_.token_origin = *parse_web_address(server.url());
  for (int each : {301, 302, 303, 307, 308, 401}) {
    status = each;
    static_cast<void>(get(server.url("/a")).has_value());
  }
  EXPECT_EQ(elsewhere.requests().size(), 5U);
  for (const TestRequest& request : elsewhere.requests())
    EXPECT_THAT(request.head, ::testing::Not(HasSubstr("secret"))) << request.head;
  server.forget_requests();
  ASSERT_TRUE(get(server.url("/same")).has_value());
  ASSERT_EQ(server.requests().size(), 2U);
  for (const TestRequest& request : server.requests())
    EXPECT_EQ(request.header("Authorization"), "Bearer secret");
}

TEST_F(Web, RedirectsLeadToWebServersOnly) {
  for (const char* location : {"file:///etc/passwd", "ftp://h/x", "", "http://u:p@127.0.0.1/",
                               "gopher://127.0.0.1/", "http://127.0.0.1:0/"}) {
    TestWebServer server([&](const TestRequest&) { return redirect(location); });
    EXPECT_FALSE(get(server.url("/")).has_value()) << location;
  }
}

TEST_F(Web, PrivateAddressesNeedLeave) {
  TestWebServer server([](const TestRequest&) { return TestReply{}; });
  rules_.allow_private = false;
  // Refused for their spelling, before anything is connected to.
  for (const char* host : {"127.0.0.1", "[::1]", "0.0.0.0", "169.254.169.254", "2130706433",
                           "0x7f.1", "localhost", "[::ffff:127.0.0.1]"}) {
    const auto result = get(fmt::format("https://{}:{}/", host, server.port()));
    ASSERT_FALSE(result.has_value()) << host;
    EXPECT_THAT(result.error().hint, HasSubstr("--allow-private")) << host;
  }
  EXPECT_THAT(get("http://example.com/").error().message, HasSubstr("https"));
  // A name that leads to one is refused when it is connected to.
  const auto strict = make_curl_transfer({});
  const auto address = *parse_web_address(fmt::format("http://localhost:{}/", server.port()));
  const auto connected = strict->get(
      {address, std::nullopt, "", "", {}}, [](const TransferHead&) { return true; },
      [](ByteSpan) { return true; });
  ASSERT_FALSE(connected.has_value());
  EXPECT_EQ(connected.error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Web, RefusesEncodingsAndEndlessAnswers) {
  std::vector<std::string> headers;
  std::string body = "x";
  TestWebServer server([&](const TestRequest& request) {
    EXPECT_EQ(request.header("Accept-Encoding"), "identity");
    TestReply reply;
    reply.headers = headers;
    reply.body = body;
    return reply;
  });
  for (const char* header :
       {"Content-Encoding: gzip", "Content-Encoding: br", "content-encoding: identity, zstd"}) {
    headers = {header};
    EXPECT_EQ(get(server.url("/")).error().kind, ErrorKind::kUnsupported) << header;
  }
  headers = {"Content-Encoding: identity"};
  EXPECT_TRUE(get(server.url("/")).has_value());
  headers = {};
  body = std::string(1001, 'x');
  EXPECT_EQ(get(server.url("/")).error().kind, ErrorKind::kLimit);
  headers = {"X: " + std::string(90'000, 'y')};
  EXPECT_FALSE(get(server.url("/")).has_value());
}

TEST_F(Web, AStopEndsAWaitingRequest) {
  std::atomic<bool> asked = false;
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  TestWebServer server([&](const TestRequest&) {
    asked = true;
    TestReply reply;
    reply.body = "late";
    reply.before_body = [is_over] { is_over.wait(); };
    return reply;
  });
  rules_.stop = [&] { return asked.load(); };
  const auto result = get(server.url("/"));
  over.set_value();
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("stopped"));
}

TEST(Token, IsVisibleAscii) {
  EXPECT_EQ(parse_token(" hf_abc\n").value_or(""), "hf_abc");
  for (const char* text : {"", " \n", "a b", "a\r\nX: y", "\xc3\xa4"})
    EXPECT_FALSE(parse_token(text).has_value()) << text;
  EXPECT_FALSE(parse_token(std::string(5000, 'a')).has_value());
}

TEST(ContentRange, IsReadStrictly) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->range.begin, 5U);
  EXPECT_EQ(range->range.end, 10U);
  EXPECT_EQ(range->total, 100U);
  for (const char* text :
       {"", "bytes", "bytes 5-9", "bytes 5-9/*", "bytes */100", "bytes 9-5/100", "bytes 5-100/100",
        "bytes 5-9/100 ", "bits 5-9/100", "bytes -9/100", "bytes 5-99999999999999999999/100"})
    EXPECT_FALSE(parse_content_range(text).has_value()) << text;
}

}  // namespace
}  // namespace kvasir::pull
