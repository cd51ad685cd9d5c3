// Upgrades that come later than their request, while the server already reads on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/test_websocket.h"

namespace kvasir::net {
namespace {

// Keeps every request until the test decides.
class HesitantSite {
 public:
  HesitantSite() {
    on_loop(loop(), [&] {
      auto made = HttpServer::listen(
          loop(), "127.0.0.1", 0, {},
          [this](std::shared_ptr<HttpExchange> exchange) { exchanges.put(std::move(exchange)); });
      ASSERT_TRUE(made) << made.error().message;
      server = std::move(*made);
    });
    port = server->port();
  }
  ~HesitantSite() {
    on_loop(loop(), [&] { server.reset(); });
  }
  EventLoop& loop() { return thread_.loop(); }
  void upgrade(std::shared_ptr<HttpExchange> exchange) {
    on_loop(loop(), [&] {
      exchange->upgrade(
          {}, [this](std::unique_ptr<MessageSocket> socket) { sockets.put(std::move(socket)); });
      exchange.reset();
    });
  }

  Mailbox<std::shared_ptr<HttpExchange>> exchanges;
  Mailbox<std::unique_ptr<MessageSocket>> sockets;
  std::unique_ptr<HttpServer> server;
  uint16_t port = 0;

 private:
  LoopThread thread_;
};

constexpr const char* kUpgrade =
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

TEST(HttpServer, UpgradesLaterAndLosesNoFrame) {
  HesitantSite site;
  for (int round = 0; round < 20; ++round) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(kUpgrade));
    auto exchange = site.exchanges.take();
    ASSERT_TRUE(exchange);
    site.upgrade(std::move(*exchange));
    EXPECT_THAT(client.read_to("\r\n\r\n"), ::testing::StartsWith("HTTP/1.1 101 "));
    ASSERT_TRUE(client.send(frame(kBinary, "first") + frame(kBinary, "second")));
    auto socket = site.sockets.take();
    ASSERT_TRUE(socket && *socket);
    Listening server;
    on_loop(site.loop(), [&] { server.listen(std::move(*socket)); });
    EXPECT_EQ(text_of(server.heard.take()->message), "first");
    EXPECT_EQ(text_of(server.heard.take()->message), "second");
    on_loop(site.loop(), [&] { server.socket.reset(); });
  }
}

TEST(HttpServer, AnUpgradeOfWhoIsGoneGivesNoSocket) {
  HesitantSite site;
  for (const char* how : {"gone before", "frames before the answer"}) {
    RawClient client(site.port);
    ASSERT_TRUE(client.send(kUpgrade));
    auto exchange = site.exchanges.take();
    ASSERT_TRUE(exchange);
    if (how == std::string("gone before")) {
      client.reset();
      EXPECT_TRUE(eventually(site.loop(), [&] { return (*exchange)->gone(); }));
      site.upgrade(std::move(*exchange));
    } else {
      ASSERT_TRUE(client.send(frame(kBinary, "too early")));
      on_loop(site.loop(), [] {});
      site.upgrade(std::move(*exchange));
      // Read by whom it reached first: as a breach of the protocol, or as a frame.
      client.close();
    }
    auto socket = site.sockets.take();
    ASSERT_TRUE(socket);
    if (how == std::string("gone before")) {
      EXPECT_FALSE(*socket);
    }
    on_loop(site.loop(), [&] { socket->reset(); });
  }
  EXPECT_TRUE(eventually(site.loop(), [&] { return site.server->connections() == 0; }));
}

// Whoever destroys the server hears of no connection any more.
TEST(HttpServer, DestroyedWithUpgradesUnderWay) {
  for (int round = 0; round < 10; ++round) {
    HesitantSite site;
    RawClient client(site.port);
    ASSERT_TRUE(client.send(kUpgrade));
    auto exchange = site.exchanges.take();
    ASSERT_TRUE(exchange);
    on_loop(site.loop(), [&] {
      (*exchange)->upgrade({}, [](std::unique_ptr<MessageSocket>) { ADD_FAILURE(); });
      exchange->reset();
      site.server.reset();
    });
    client.read_all();
  }
}

}  // namespace
}  // namespace kvasir::net
