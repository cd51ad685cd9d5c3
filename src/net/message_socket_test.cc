#include "net/message_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "net/http_client.h"
#include "net/test_websocket.h"

namespace kvasir::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::byte> pattern(size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(i * 7 + i / 251);
  return message;
}

// A site and one raw client on it.
class OneRawClient {
 public:
  explicit OneRawClient(const MessageLimits& limits = {}, int receive_buffer_bytes = 0)
      : site(limits), client(site.port, receive_buffer_bytes) {
    auto socket = site.sockets.take();
    EXPECT_TRUE(socket && *socket);
    if (!socket || !*socket) std::abort();
    on_loop(site.loop(), [&] { server.listen(std::move(*socket)); });
  }
  ~OneRawClient() {
    on_loop(site.loop(), [&] { server.socket.reset(); });
  }
  std::string next_event() {
    auto heard = server.heard.take();
    return heard ? heard->what : "nothing";
  }
  void expect_no_more_events() {
    on_loop(site.loop(), [] {});
    EXPECT_EQ(server.heard.size(), 0U);
  }

  WebSocketSite site;
  RawWebSocket client;
  Listening server;
};

// Two ends of the product's own, each on a loop of its own.
class Pair {
 public:
  explicit Pair(const MessageLimits& limits = {}) : site(limits) {
    DialOptions options;
    options.limits = limits;
    auto dialed = dial_and_wait(thread_.loop(), site.url(), options);
    EXPECT_TRUE(dialed) << dialed.error().message;
    auto accepted = site.sockets.take();
    if (!dialed || !accepted || !*accepted) std::abort();
    on_loop(client_loop(), [&] { client.listen(std::move(*dialed)); });
    on_loop(site.loop(), [&] { server.listen(std::move(*accepted)); });
  }
  ~Pair() {
    on_loop(client_loop(), [&] { client.socket.reset(); });
    on_loop(site.loop(), [&] { server.socket.reset(); });
  }
  EventLoop& client_loop() { return thread_.loop(); }

  WebSocketSite site;
  Listening server, client;

 private:
  LoopThread thread_;
};

TEST(MessageSocket, CarriesMessagesOfEverySizeBothWays) {
  Pair pair;
  on_loop(pair.site.loop(), [&] {
    pair.server.on_message = [&](std::span<std::byte> m) {
      EXPECT_TRUE(pair.server.socket->can_write());
      pair.server.socket->write({m.begin(), m.end()});
      EXPECT_FALSE(pair.server.socket->can_write());
    };
  });
  for (const size_t bytes : {0U, 1U, 125U, 126U, 127U, 1400U, 16384U, 65535U, 65536U, 70000U,
                             196648U, 262143U, 262144U}) {
    const auto message = pattern(bytes);
    on_loop(pair.client_loop(), [&] { pair.client.socket->write(message); });
    bool written = false, answered = false;
    while (!written || !answered) {
      auto heard = pair.client.heard.take();
      ASSERT_TRUE(heard);
      if (heard->what == "writable") {
        written = true;
      } else {
        ASSERT_EQ(heard->what, "message");
        EXPECT_TRUE(heard->message == message) << bytes;
        answered = true;
      }
    }
    EXPECT_EQ(pair.server.heard.take()->what, "message");
    EXPECT_EQ(pair.server.heard.take()->what, "writable");
  }
}

TEST(MessageSocket, KnowsItsPeersAddressAndTakesNoExtension) {
  OneRawClient one;
  EXPECT_THAT(one.client.answer, StartsWith("HTTP/1.1 101 "));
  EXPECT_THAT(one.client.answer, Not(HasSubstr("Extensions")));
  on_loop(one.site.loop(),
          [&] { EXPECT_THAT(one.server.socket->remote_address(), StartsWith("127.0.0.1:")); });
}

TEST(MessageSocket, JoinsFragmentsAndAnswersPingsBetweenThem) {
  OneRawClient one;
  ASSERT_TRUE(one.client.send(frame(kBinary, "ab", Fin::kNo) + frame(kPingFrame, "?") +
                              frame(kContinuation, "", Fin::kNo) + frame(kContinuation, "cd") +
                              frame(kBinary, "e")));
  EXPECT_EQ(one.client.read_frame(), std::pair(kPongFrame, std::string("?")));
  EXPECT_EQ(text_of(one.server.heard.take()->message), "abcd");
  EXPECT_EQ(text_of(one.server.heard.take()->message), "e");
}

TEST(MessageSocket, AMessageMayBeAsLongAsItsLimitAndNoLonger) {
  MessageLimits limits;
  limits.message_bytes = 1000;
  for (const bool fragments : {false, true}) {
    OneRawClient one(limits);
    const std::string most(1000, 'x');
    ASSERT_TRUE(one.client.send(fragments
                                    ? frame(kBinary, most, Fin::kNo) + frame(kContinuation, "")
                                    : frame(kBinary, most)));
    EXPECT_EQ(one.server.heard.take()->message.size(), 1000U);
    ASSERT_TRUE(one.client.send(fragments
                                    ? frame(kBinary, most, Fin::kNo) + frame(kContinuation, "y")
                                    : frame_head(kBinary, 1001)));
    EXPECT_EQ(one.client.read_close_code(), 1009);
    EXPECT_THAT(one.next_event(), StartsWith("closed 0"));
    one.expect_no_more_events();
  }
  // Lengths that no memory has.
  for (const uint64_t bytes : {uint64_t{1} << 24, uint64_t{1} << 40, (uint64_t{1} << 63) - 1}) {
    OneRawClient one(limits);
    ASSERT_TRUE(one.client.send(frame_head(kBinary, bytes)));
    EXPECT_EQ(one.client.read_close_code(), 1009);
    EXPECT_THAT(one.next_event(), StartsWith("closed 0"));
  }
}

TEST(MessageSocket, ClosesOnWhatIsNotAllowed) {
  struct Case {
    const char* what;
    std::string bytes;
    int code;
  };
  for (const Case& c : {
           Case{"text", frame(kText, "hello"), 1003},
           Case{"text that never ends", frame(kText, "hello", Fin::kNo), 1003},
           Case{"no mask", frame_head(kBinary, 1, Fin::kYes, Mask::kNo) + "x", 1002},
           Case{"reserved opcode", frame(3, "x"), 1002},
           Case{"reserved bit", std::string("\xC2\x81\0\0\0\0x", 7), 1002},
           Case{"nothing to continue", frame(kContinuation, "x"), 1002},
           Case{"a message within a message", frame(kBinary, "x", Fin::kNo) + frame(kBinary, "y"),
                1002},
           Case{"long ping", frame(kPingFrame, std::string(126, 'x')), 1002},
           Case{"ping in pieces", frame(kPingFrame, "x", Fin::kNo), 1002},
           Case{"length longer than it must be",
                std::string("\x82\xFE\x00\x01\x00\x00\x00\x00x", 9), 1002},
           Case{"garbage", std::string(64, '\xFF'), 1002},
       }) {
    OneRawClient one;
    ASSERT_TRUE(one.client.send(c.bytes)) << c.what;
    EXPECT_EQ(one.client.read_close_code(), c.code) << c.what;
    one.client.close();
    EXPECT_THAT(one.next_event(), StartsWith("closed 0")) << c.what;
    one.expect_no_more_events();
    EXPECT_TRUE(one.site.eventually_connections(0)) << c.what;
  }
}

TEST(MessageSocket, AMessageThatHasBegunMustEnd) {
  MessageLimits limits;
  limits.message_within_ms = 50;
  for (const std::string& start : {frame_head(kBinary, 100) + "x", frame(kBinary, "x", Fin::kNo)}) {
    OneRawClient one(limits);
    ASSERT_TRUE(one.client.send(frame(kBinary, "whole") + start));
    EXPECT_EQ(one.next_event(), "message");
    EXPECT_EQ(one.client.read_close_code(), 1008);
    one.client.close();
    EXPECT_EQ(one.next_event(), "closed 0");
  }
  // Bytes now and then do not help.
  OneRawClient one(limits);
  ASSERT_TRUE(one.client.send(frame_head(kBinary, 100'000)));
  pollfd answered{one.client.fd(), POLLIN, 0};
  while (one.client.send("x") && ::poll(&answered, 1, 5) == 0) {
  }
  EXPECT_EQ(one.client.read_close_code(), 1008);
}

TEST(MessageSocket, AFloodOfPingsCloses) {
  OneRawClient one;
  std::string flood;
  for (int i = 0; i < 100; ++i) flood += frame(kPingFrame, "");
  ASSERT_TRUE(one.client.send(flood));
  std::pair<unsigned, std::string> next;
  do next = one.client.read_frame();
  while (next.first == kPongFrame);
  ASSERT_EQ(next.first, kCloseFrame);
  EXPECT_EQ(next.second.substr(0, 2), "\x03\xF0");  // 1008
  one.client.close();
  EXPECT_EQ(one.next_event(), "closed 0");
}

TEST(MessageSocket, SaysOnceThatThePeerIsGone) {
  for (const char* how : {"close", "reset", "in a message", "end of input"}) {
    OneRawClient one;
    if (how == std::string("in a message")) {
      ASSERT_TRUE(one.client.send(frame_head(kBinary, 100) + "x"));
    }
    if (how == std::string("reset"))
      one.client.reset();
    else if (how == std::string("end of input"))
      one.client.end_of_input();
    else
      one.client.close();
    EXPECT_EQ(one.next_event(), "closed 0") << how;
    one.expect_no_more_events();
    EXPECT_TRUE(one.site.eventually_connections(0)) << how;
  }
}

TEST(MessageSocket, TellsTheCloseCodeOfTheOtherEnd) {
  Pair pair;
  const auto message = pattern(50'000);
  on_loop(pair.client_loop(), [&] {
    pair.client.socket->write(message);
    // Comes after the message, with as much of the reason as fits.
    pair.client.socket->close(4005, fmt::format("{:r>200}", ""));
    EXPECT_FALSE(pair.client.socket->can_write());
    pair.client.socket->close(4006, "again");
  });
  auto heard = pair.server.heard.take();
  ASSERT_EQ(heard->what, "message");
  EXPECT_TRUE(heard->message == message);
  EXPECT_EQ(pair.server.heard.take()->what, fmt::format("closed 4005 {:r>123}", ""));
  EXPECT_THAT(pair.client.heard.take()->what, StartsWith("closed 4005"));
  on_loop(pair.client_loop(), [] {});
  on_loop(pair.site.loop(), [] {});
  EXPECT_EQ(pair.server.heard.size() + pair.client.heard.size(), 0U);
  EXPECT_TRUE(pair.site.eventually_connections(0));
}

TEST(MessageSocket, BothEndsMayCloseAtOnce) {
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    pair.client_loop().post([&] { pair.client.socket->close(4001, "client"); });
    pair.site.loop().post([&] { pair.server.socket->close(4002, "server"); });
    EXPECT_THAT(pair.server.heard.take()->what, StartsWith("closed 400"));
    EXPECT_THAT(pair.client.heard.take()->what, StartsWith("closed 400"));
    EXPECT_TRUE(pair.site.eventually_connections(0));
  }
}

// The other end reads our close frame and says nothing, or does not even read.
TEST(MessageSocket, DoesNotWaitForeverForTheOthersFarewell) {
  OneRawClient one;
  on_loop(one.site.loop(), [&] { one.server.socket->close(4000, "bye"); });
  EXPECT_EQ(one.client.read_close_code(), 4000);
  EXPECT_EQ(one.next_event(), "closed 0");
  EXPECT_EQ(one.client.read_all(), "");
  EXPECT_TRUE(one.site.eventually_connections(0));

  OneRawClient deaf({}, 4096);
  const std::vector<std::byte> piece(256 * 1024);
  EXPECT_TRUE(eventually(deaf.site.loop(), [&] {
    // Until the system takes no more; a write that stands still while the loop goes round a few
    // times could be slow, so the close has to wait for it in any case.
    if (deaf.server.socket->can_write()) deaf.server.socket->write(piece);
    return deaf.server.heard.size() >= 16 || !deaf.server.socket->can_write();
  }));
  on_loop(deaf.site.loop(), [&] { deaf.server.socket->close(4000, "bye"); });
  std::string event;
  do event = deaf.next_event();
  while (event == "writable");
  EXPECT_EQ(event, "closed 0");
}

TEST(MessageSocket, AWriteThatNobodyTakesEnds) {
  MessageLimits limits;
  limits.write_within_ms = 100;
  OneRawClient deaf(limits, 4096);
  const std::vector<std::byte> piece(256 * 1024);
  std::string event;
  while (true) {
    on_loop(deaf.site.loop(), [&] {
      if (deaf.server.socket->can_write()) deaf.server.socket->write(piece);
    });
    event = deaf.next_event();
    if (event != "writable") break;
  }
  EXPECT_EQ(event, "closed 0");
  EXPECT_TRUE(deaf.site.eventually_connections(0));
}

TEST(MessageSocket, MayBeDestroyedFromWithinAnyEvent) {
  for (const char* where : {"message", "writable", "closed"}) {
    WebSocketSite site;
    RawWebSocket client(site.port);
    auto socket = std::move(*site.sockets.take());
    Mailbox<std::string> heard;
    on_loop(site.loop(), [&] {
      const auto note = [&](std::string what) {
        heard.put(what);
        if (what == where) socket.reset();
      };
      MessageEvents events;
      events.on_message = [note](std::span<std::byte>) { note("message"); };
      events.on_writable = [note] { note("writable"); };
      events.on_closed = [note](uint16_t, std::string_view) { note("closed"); };
      socket->start(std::move(events));
      if (where == std::string("writable")) socket->write(pattern(10));
    });
    if (where == std::string("message")) {
      ASSERT_TRUE(client.send(frame(kBinary, "a") + frame(kBinary, "b")));
    }
    if (where == std::string("closed")) client.close();
    EXPECT_EQ(heard.take(), where);
    EXPECT_TRUE(site.eventually_connections(0));
    EXPECT_EQ(heard.size(), 0U);
    on_loop(site.loop(), [&] { EXPECT_FALSE(socket); });
  }
}

TEST(MessageSocket, OutlivesStrangersOfEveryKind) {
  WebSocketSite site;
  std::vector<std::unique_ptr<Listening>> all;
  const std::string good = frame(kBinary, std::string(300, 'x')) + frame(kPingFrame, "p") +
                           frame(kBinary, "a", Fin::kNo) + frame(kContinuation, "b") +
                           frame(kCloseFrame, "\x0F\xA0");
  uint64_t state = 11;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>((state >> 33) % below);
  };
  for (int i = 0; i < 200; ++i) {
    RawWebSocket stranger(site.port);
    auto socket = site.sockets.take();
    ASSERT_TRUE(socket && *socket);
    all.push_back(std::make_unique<Listening>());
    on_loop(site.loop(), [&] { all.back()->listen(std::move(*socket)); });
    std::string text = good.substr(0, random(good.size() + 1));
    for (size_t n = random(4); n > 0 && !text.empty(); --n)
      text[random(text.size())] = static_cast<char>(random(256));
    stranger.send(text);
    if (random(2) == 0) stranger.reset();
  }
  for (const auto& one : all) {
    size_t ends = 0;
    while (ends == 0) {
      auto heard = one->heard.take();
      ASSERT_TRUE(heard);
      if (heard->what.starts_with("closed")) ++ends;
    }
    on_loop(site.loop(), [&] { one->socket.reset(); });
    EXPECT_EQ(one->heard.size(), 0U) << "nothing after the end";
  }
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(HttpServer, RefusesUpgradesThatAreWrong) {
  WebSocketSite site;
  const std::string upgrade =
      "GET /swarm HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
  const std::string key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
                    version = "Sec-WebSocket-Version: 13\r\n";
  for (const std::string& text : {upgrade + version + "\r\n", upgrade + key + "\r\n",
                                  upgrade + key + "Sec-WebSocket-Version: 8\r\n\r\n"}) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(text));
    EXPECT_THAT(client.read_to("\r\n\r\n"), StartsWith("HTTP/1.1 4"));
    auto socket = site.sockets.take();
    ASSERT_TRUE(socket);
    EXPECT_FALSE(*socket);
  }
  {
    // Frames before the upgrade is granted.
    RawClient client(site.port);
    ASSERT_TRUE(client.send(upgrade + key + version + "\r\n" + frame(kBinary, "x")));
    EXPECT_EQ(client.read_all(), "");
    EXPECT_FALSE(*site.sockets.take());
  }
  EXPECT_TRUE(site.eventually_connections(0));
}

TEST(Dial, SaysWhatWentWrong) {
  LoopThread thread;
  WebSocketSite site;
  const auto kind = [&](const Url& url, const DialOptions& options = {}) {
    auto result = dial_and_wait(thread.loop(), url, options);
    EXPECT_FALSE(result);
    if (result) {
      on_loop(thread.loop(), [&] { result->reset(); });
      return ErrorKind::kLimit;
    }
    EXPECT_NE(result.error().message, "");
    return result.error().kind;
  };
  EXPECT_EQ(kind({"wss", "127.0.0.1", 1, "/"}), ErrorKind::kUnsupported);
  EXPECT_EQ(kind({"http", "127.0.0.1", 1, "/"}), ErrorKind::kUnsupported);
  EXPECT_EQ(kind({"ws", "no.such.host.invalid", 80, "/"}), ErrorKind::kIo);
  uint16_t port = 0;
  {
    WebSocketSite gone;
    port = gone.port;
  }
  EXPECT_EQ(kind({"ws", "127.0.0.1", port, "/"}), ErrorKind::kIo);

  // A web server, but nothing behind this path.
  std::unique_ptr<HttpServer> plain;
  std::shared_ptr<HttpExchange> unanswered;
  on_loop(thread.loop(), [&] {
    plain = std::move(*HttpServer::listen(thread.loop(), "127.0.0.1", 0, {},
                                          [&](std::shared_ptr<HttpExchange> exchange) {
                                            if (exchange->request().path == "/silent")
                                              unanswered = exchange;
                                            else
                                              exchange->respond({404, {}, "no"});
                                          }));
  });
  EXPECT_EQ(kind({"ws", "127.0.0.1", plain->port(), "/"}), ErrorKind::kCorrupt);
  DialOptions hurried;
  hurried.within_ms = 50;
  EXPECT_EQ(kind({"ws", "127.0.0.1", plain->port(), "/silent"}, hurried), ErrorKind::kIo);
  on_loop(thread.loop(), [&] {
    unanswered.reset();
    plain.reset();
  });
}

TEST(Dial, FindsAHostByItsName) {
  LoopThread thread;
  WebSocketSite site;
  Url url = site.url();
  url.host = "localhost";
  auto socket = dial_and_wait(thread.loop(), url);
  ASSERT_TRUE(socket) << socket.error().message;
  on_loop(thread.loop(), [&] { socket->reset(); });
}

}  // namespace
}  // namespace kvasir::net
