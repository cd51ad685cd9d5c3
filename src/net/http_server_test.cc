#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "net/http_client.h"
#include "net/test_sockets.h"

namespace kvasir::net {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

// A server on a loop of its own. Without a handler, exchanges wait in `exchanges`.
class Site {
 public:
  explicit Site(const HttpLimits& limits = {}, HttpServer::Handler handler = {}) {
    on_loop(loop(), [&] {
      auto made = HttpServer::listen(
          loop(), "127.0.0.1", 0, limits,
          handler ? handler
                  : [this](std::shared_ptr<HttpExchange> e) { exchanges.put(std::move(e)); });
      ASSERT_TRUE(made) << made.error().message;
      server = std::move(*made);
    });
    port = server->port();
  }
  ~Site() {
    on_loop(loop(), [&] {
      server.reset();
      while (exchanges.size() > 0) exchanges.take();
    });
  }

  EventLoop& loop() { return thread_.loop(); }
  bool eventually_connections(size_t n) {
    return eventually(loop(), [&] { return server->connections() == n; });
  }
  // Drops the pointer on the loop's thread, as its owner must.
  void drop(std::shared_ptr<HttpExchange>& exchange) {
    on_loop(loop(), [&] { exchange.reset(); });
  }

  Mailbox<std::shared_ptr<HttpExchange>> exchanges;
  std::unique_ptr<HttpServer> server;
  uint16_t port = 0;

 private:
  LoopThread thread_;
};

// Answers with what was asked.
void echo(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  exchange->respond({200,
                     {{"Content-Type", "text/plain"}},
                     request.method + " " + request.path + " " + request.body});
}

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  Site site({}, echo);
  RawClient client(site.port);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
    const std::string answer = client.read_response();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
    EXPECT_THAT(answer,
                HasSubstr(" GMT\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n"));
    EXPECT_THAT(answer, EndsWith("POST /p hi"));
    EXPECT_THAT(answer, Not(HasSubstr("Content-Encoding")));
  }
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.read_all(), HasSubstr("Connection: close\r\n\r\nGET / "));
  client.close();
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInTheirOrder) {
  Site site({}, echo);
  RawClient client(site.port);
  std::string all;
  for (int i = 0; i < 500; ++i) all += fmt::format("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", i);
  std::thread sender([&] { EXPECT_TRUE(client.send(all)); });
  for (int i = 0; i < 500; ++i)
    ASSERT_THAT(client.read_response(), EndsWith(fmt::format("GET /{} ", i)));
  sender.join();
  // Who says that it asks no more still hears the answers.
  ASSERT_TRUE(client.send(kGet + kGet));
  client.end_of_input();
  EXPECT_THAT(client.read_response(), EndsWith("GET / "));
  EXPECT_THAT(client.read_response(), EndsWith("GET / "));
  EXPECT_EQ(client.read_all(), "");
}

TEST(HttpServer, HeadHasNoBodyAndOldClientsNoChunks) {
  Site site({}, [](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path == "/whole") {
      exchange->respond({200, {}, "12345"});
    } else if (exchange->request().path == "/none") {
      exchange->respond({204, {}, ""});
    } else {
      HttpHeaders headers;
      if (exchange->request().path == "/sized") headers = {{"Content-Length", "4"}};
      exchange->start(200, headers);
      exchange->write("ab");
      exchange->write("");
      exchange->write("cd");
      exchange->finish();
    }
  });
  RawClient client(site.port);
  const auto ask = [&](const char* method, const char* path, const char* version) {
    EXPECT_TRUE(client.send(fmt::format("{} {} {}\r\nHost: h\r\n\r\n", method, path, version)));
    return client.read_to("\r\n\r\n");
  };
  EXPECT_THAT(ask("HEAD", "/whole", "HTTP/1.1"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(ask("HEAD", "/stream", "HTTP/1.1"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(ask("HEAD", "/sized", "HTTP/1.1"), HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(ask("GET", "/none", "HTTP/1.1"), Not(HasSubstr("Content-Length")));
  EXPECT_THAT(ask("GET", "/sized", "HTTP/1.1"), Not(HasSubstr("chunked")));
  EXPECT_EQ(client.read_bytes(4), "abcd");
  EXPECT_THAT(ask("GET", "/stream", "HTTP/1.1"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(client.read_to("0\r\n\r\n").substr(0, 3), "2\r\n");
  EXPECT_THAT(ask("GET", "/stream", "HTTP/1.0"), HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(client.read_all(), "abcd");
}

TEST(HttpServer, StreamsAsItGoes) {
  Site site;
  RawClient client(site.port);
  ASSERT_TRUE(client.send(kGet));
  auto exchange = site.exchanges.take().value();
  on_loop(site.loop(), [&] { exchange->start(200, {{"Content-Type", "text/event-stream"}}); });
  EXPECT_THAT(client.read_to("\r\n\r\n"), HasSubstr("chunked"));
  for (const char* piece : {"one", "two", "three"}) {
    on_loop(site.loop(), [&] { exchange->write(piece); });
    EXPECT_EQ(client.read_to("\r\n"), fmt::format("{:x}\r\n", std::strlen(piece)));
    EXPECT_EQ(client.read_to("\r\n"), std::string(piece) + "\r\n");
  }
  on_loop(site.loop(), [&] { exchange->finish(); });
  EXPECT_EQ(client.read_to("\r\n\r\n"), "0\r\n\r\n");
  site.drop(exchange);
  ASSERT_TRUE(client.send(kGet)) << "and the connection goes on";
  exchange = site.exchanges.take().value();
  on_loop(site.loop(), [&] { exchange->respond({404, {}, "no"}); });
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  site.drop(exchange);
}

// Each piece is written when the one before is taken; nothing piles up.
TEST(HttpServer, WritesAFileAtItsReadersPace) {
  constexpr size_t kPiece = 256 * 1024, kPieces = 64;
  HttpLimits limits;
  limits.unsent_bytes = 2 * kPiece;
  Site site(limits);
  RawClient client(site.port);
  ASSERT_TRUE(client.send(kGet));
  auto exchange = site.exchanges.take().value();
  size_t written = 0;
  std::function<void()> next = [&] {
    EXPECT_EQ(exchange->unsent_bytes(), 0U);
    if (written++ == kPieces) {
      exchange->finish();
      return;
    }
    exchange->write(std::string(kPiece, 'x'));
    exchange->when_sent(next);
  };
  on_loop(site.loop(), [&] {
    exchange->start(200, {{"Content-Length", std::to_string(kPiece * kPieces)}});
    exchange->when_sent(next);
  });
  client.read_to("\r\n\r\n");
  EXPECT_EQ(client.read_bytes(kPiece * kPieces).size(), kPiece * kPieces);
  site.drop(exchange);
}

TEST(HttpServer, SaysContinueToWhoAsks) {
  Site site({}, echo);
  RawClient client(site.port);
  ASSERT_TRUE(client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
  EXPECT_EQ(client.read_to("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send("hi"));
  EXPECT_THAT(client.read_response(), EndsWith("POST / hi"));
  ASSERT_TRUE(client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, AnswersAndClosesWhatItCannotTake) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  Site site(limits, echo);
  RawClient bystander(site.port);
  for (const auto& [text, status] : std::initializer_list<std::pair<std::string, const char*>>{
           {"\x16\x03\x01 TLS", "400"},
           {"GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(8192, 'x'), "431"},
           {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x'),
            "413"},
           {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: "
            "chunked\r\n\r\n0",
            "400"},
           {"GET / HTTP/9.9\r\nHost: h\r\n\r\n", "505"}}) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(text));
    const std::string answer = client.read_all();
    EXPECT_THAT(answer, StartsWith(std::string("HTTP/1.1 ") + status)) << text.substr(0, 80);
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    // The others never notice.
    ASSERT_TRUE(bystander.send(kGet));
    EXPECT_THAT(bystander.read_response(), EndsWith("GET / "));
  }
}

TEST(HttpServer, CutsOffWhoTakesTooLong) {
  HttpLimits limits;
  limits.request_within_ms = 100;
  limits.body_within_ms = 100;
  limits.idle_ms = 100;
  Site site(limits, echo);
  {
    RawClient silent(site.port);
    EXPECT_EQ(silent.read_all(), "") << "who says nothing is told nothing";
  }
  for (const char* started :
       {"G", "GET / HTTP/1.1\r\nHost: h\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5"}) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(started));
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 408 Request Timeout\r\n")) << started;
  }
  {
    RawClient idle(site.port);
    ASSERT_TRUE(idle.send(kGet));
    EXPECT_THAT(idle.read_response(), StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(idle.read_all(), "");
  }
  {
    RawClient second(site.port);
    ASSERT_TRUE(second.send(kGet + "GET"));
    EXPECT_THAT(second.read_response(), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(second.read_all(), StartsWith("HTTP/1.1 408"));
  }
  EXPECT_TRUE(site.eventually_connections(0));
}

// A byte now and then keeps nothing alive.
TEST(HttpServer, ATrickleIsCutOffToo) {
  HttpLimits limits;
  limits.request_within_ms = 100;
  Site site(limits, echo);
  RawClient client(site.port);
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
  bool taken = client.send(head);
  pollfd answered{client.fd(), POLLIN, 0};
  for (int i = 0; i < 8000 && taken && ::poll(&answered, 1, 5) == 0; ++i) taken = client.send("x");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 408"));
}

TEST(HttpServer, ClosesWhatIsOneTooManyAtOnce) {
  HttpLimits limits;
  limits.connections = 3;
  Site site(limits, echo);
  RawClient first(site.port), second(site.port), third(site.port);
  EXPECT_TRUE(site.eventually_connections(3));
  {
    RawClient fourth(site.port);
    EXPECT_EQ(fourth.read_all(), "") << "no more than three at all";
  }
  first.close();
  EXPECT_TRUE(site.eventually_connections(2));
  RawClient fifth(site.port);
  ASSERT_TRUE(fifth.send(kGet));
  EXPECT_THAT(fifth.read_response(), StartsWith("HTTP/1.1 200")) << "there is room again";
}

// Connections that say nothing are cheap to open: they must not keep out those that ask.
TEST(HttpServer, WhoAsksTakesThePlaceOfTheOldestThatSaysNothing) {
  HttpLimits limits;
  limits.connections_without_request = 2;
  Site site(limits, echo);
  RawClient asked(site.port);
  ASSERT_TRUE(asked.send(kGet));
  EXPECT_THAT(asked.read_response(), StartsWith("HTTP/1.1 200"));
  RawClient oldest(site.port), silent(site.port);
  EXPECT_TRUE(site.eventually_connections(3));
  RawClient honest(site.port);
  ASSERT_TRUE(honest.send(kGet));
  EXPECT_THAT(honest.read_response(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(oldest.read_all(), "");
  for (RawClient* client : {&asked, &silent}) {
    ASSERT_TRUE(client->send(kGet));
    EXPECT_THAT(client->read_response(), StartsWith("HTTP/1.1 200"));
  }
}

TEST(HttpServer, TellsWhenTheClientGoesAwayBeforeTheFirstByte) {
  Site site;
  for (const bool crash : {false, true}) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(kGet));
    auto exchange = site.exchanges.take().value();
    Mailbox<bool> gone;
    on_loop(site.loop(), [&] {
      EXPECT_FALSE(exchange->gone());
      exchange->on_gone([&] { gone.put(exchange->gone()); });
    });
    crash ? client.reset() : client.close();
    EXPECT_EQ(gone.take(), true);
    on_loop(site.loop(), [&] {
      exchange->respond({200, {}, "nobody hears this"});
      exchange.reset();
    });
    EXPECT_EQ(gone.size(), 0U) << "once";
  }
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, TellsWhenTheClientGoesAwayWhileAnAnswerStreams) {
  Site site;
  RawClient client(site.port);
  ASSERT_TRUE(client.send(kGet));
  auto exchange = site.exchanges.take().value();
  Mailbox<bool> gone;
  on_loop(site.loop(), [&] {
    exchange->start(200, {});
    exchange->write("x");
    exchange->on_gone([&] {
      exchange->write("more");
      exchange.reset();  // from within its own event
      gone.put(true);
    });
  });
  client.read_to("x\r\n");
  client.close();
  EXPECT_EQ(gone.take(), true);
  EXPECT_TRUE(site.eventually_connections(0));
}

// Not read by its client, a stream grows until its limit and is cut.
TEST(HttpServer, CutsOffWhoDoesNotReadAStream) {
  HttpLimits limits;
  limits.unsent_bytes = 1 << 20;
  Site site(limits);
  RawClient client(site.port, 4096);
  ASSERT_TRUE(client.send(kGet));
  auto exchange = site.exchanges.take().value();
  Mailbox<bool> gone;
  on_loop(site.loop(), [&] {
    exchange->start(200, {});
    exchange->on_gone([&] { gone.put(true); });
  });
  size_t unsent = 0;
  const std::string piece(64 * 1024, 'x');
  EXPECT_TRUE(eventually(site.loop(), [&] {
    exchange->write(piece);
    unsent = std::max(unsent, exchange->unsent_bytes());
    return exchange->gone();
  }));
  EXPECT_EQ(gone.take(), true);
  EXPECT_GT(unsent, limits.unsent_bytes - 2 * piece.size());
  EXPECT_LE(unsent, limits.unsent_bytes);
  site.drop(exchange);
}

TEST(HttpServer, CutsOffWhoTakesNoByteForTooLong) {
  HttpLimits limits;
  limits.unsent_within_ms = 100;
  Mailbox<bool> asked;
  Site site(limits, [&](std::shared_ptr<HttpExchange> exchange) {
    exchange->respond({200, {}, std::string(32 << 20, 'x')});
    asked.put(true);
  });
  RawClient client(site.port, 4096);
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(asked.take(), true);
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, ADroppedExchangeIsAnError) {
  Site site;
  RawClient client(site.port);
  ASSERT_TRUE(client.send(kGet));
  auto exchange = site.exchanges.take().value();
  site.drop(exchange);
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 500 "));
  // A stream that was dropped must not look complete.
  ASSERT_TRUE(client.send(kGet));
  exchange = site.exchanges.take().value();
  on_loop(site.loop(), [&] {
    exchange->start(200, {});
    exchange->write("half");
  });
  client.read_to("half\r\n");
  site.drop(exchange);
  EXPECT_EQ(client.read_all(), "");
}

TEST(HttpServer, AHeaderStaysOneHeader) {
  Site site({}, [](std::shared_ptr<HttpExchange> exchange) {
    exchange->respond({200, {{"X-Said", "a\r\nSet-Cookie: b\r\n\r\n<html>"}}, ""});
  });
  RawClient client(site.port);
  ASSERT_TRUE(client.send(kGet));
  EXPECT_THAT(client.read_response(), HasSubstr("X-Said: a  Set-Cookie: b    <html>\r\n"));
}

TEST(HttpServer, StopsWithTheAnswersUnderWay) {
  Site site;
  RawClient busy(site.port), idle(site.port);
  ASSERT_TRUE(idle.send(kGet));
  auto first = site.exchanges.take().value();
  on_loop(site.loop(), [&] { first->respond({200, {}, ""}); });
  site.drop(first);
  idle.read_response();
  ASSERT_TRUE(busy.send(kGet));
  auto exchange = site.exchanges.take().value();
  on_loop(site.loop(), [&] { site.server->stop_accepting(); });
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_FALSE(RawClient(site.port).connected());
  on_loop(site.loop(), [&] { exchange->respond({200, {}, "done"}); });
  site.drop(exchange);
  EXPECT_THAT(busy.read_all(), EndsWith("Connection: close\r\n\r\ndone"));
  busy.close();
  idle.close();
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, MayBeDestroyedByItsOwnHandler) {
  LoopThread thread;
  std::unique_ptr<HttpServer> server;
  std::shared_ptr<HttpExchange> kept;
  on_loop(thread.loop(), [&] {
    server = std::move(*HttpServer::listen(thread.loop(), "127.0.0.1", 0, {},
                                           [&](std::shared_ptr<HttpExchange> exchange) {
                                             exchange->on_gone([] { ADD_FAILURE(); });
                                             kept = std::move(exchange);
                                             server.reset();
                                             EXPECT_TRUE(kept->gone());
                                           }));
  });
  RawClient client(server->port());
  ASSERT_TRUE(client.send(kGet));
  EXPECT_EQ(client.read_all(), "");
  on_loop(thread.loop(), [&] {
    kept->respond({200, {}, "too late"});
    kept.reset();
  });
}

// What a stranger may say: bits of good requests, garbage, sudden ends. The server goes on.
TEST(HttpServer, OutlivesAThousandStrangers) {
  Site site({}, echo);
  RawClient bystander(site.port);
  const std::string good = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" + kGet;
  uint64_t state = 42;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>((state >> 33) % below);
  };
  for (int i = 0; i < 1000; ++i) {
    RawClient stranger(site.port);
    std::string text = good.substr(0, random(good.size() + 1));
    if (!text.empty() && random(2) == 0) text[random(text.size())] = static_cast<char>(random(256));
    stranger.send(text);
    if (random(2) == 0) stranger.reset();
  }
  ASSERT_TRUE(bystander.send(kGet));
  EXPECT_THAT(bystander.read_response(), EndsWith("GET / "));
  bystander.close();
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, SaysWhyItCannotListen) {
  Site site;
  LoopThread other;
  auto taken = HttpServer::listen(other.loop(), "127.0.0.1", site.port, {}, echo);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::kIo);
  EXPECT_THAT(taken.error().message, HasSubstr(std::to_string(site.port)));
  auto foreign = HttpServer::listen(other.loop(), "192.0.2.1", 0, {}, echo);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::kIo);
  auto no_address = HttpServer::listen(other.loop(), "somewhere", 0, {}, echo);
  ASSERT_FALSE(no_address);
  EXPECT_EQ(no_address.error().kind, ErrorKind::kInvalid);
}

Url site_url(const Site& site, const std::string& target) {
  return {"http", "127.0.0.1", site.port, target};
}

TEST(HttpClient, FetchesWholeAndStreamedAnswers) {
  Site site({}, [](std::shared_ptr<HttpExchange> exchange) {
    if (exchange->request().path != "/stream") {
      echo(exchange);
      return;
    }
    exchange->start(200, {});
    for (int i = 0; i < 100; ++i) exchange->write(std::string(1000, 'x'));
    exchange->finish();
  });
  HttpCall post;
  post.method = "POST";
  post.body = std::string(1 << 20, 'b');
  auto answer = fetch(site_url(site, "/a?b"), post);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "POST /a " + post.body);
  answer = fetch(site_url(site, "/stream"));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, std::string(100'000, 'x'));
  HttpCall head;
  head.method = "HEAD";
  answer = fetch(site_url(site, "/a"), head);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "");

  HttpCall small;
  small.body_bytes_max = 99'999;
  answer = fetch(site_url(site, "/stream"), small);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kLimit);
}

// A refusal that comes before the body was taken is still an answer.
TEST(HttpClient, HearsARefusal) {
  HttpLimits limits;
  limits.body_bytes = 10;
  Site site(limits, echo);
  HttpCall post;
  post.method = "POST";
  post.body = std::string(100'000, 'b');
  auto answer = fetch(site_url(site, "/"), post);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 413);
}

TEST(HttpClient, ErrorsHaveTheirKinds) {
  Site site;
  HttpCall hurried;
  hurried.within_ms = 50;
  auto answer = fetch(site_url(site, "/never"), hurried);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kIo);
  EXPECT_THAT(answer.error().message, HasSubstr("50 ms"));
  EXPECT_EQ(fetch({"https", "127.0.0.1", 1, "/"}).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(fetch({"ws", "127.0.0.1", 1, "/"}).error().kind, ErrorKind::kInvalid);
  // Nobody listens on a port that was just given back.
  uint16_t port = 0;
  {
    Site gone;
    port = gone.port;
  }
  EXPECT_EQ(fetch({"http", "127.0.0.1", port, "/"}).error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace kvasir::net
