#include "net/session_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crypto/session_crypto.h"
#include "net/test_websocket.h"
#include "wire/client_session.h"
#include "wire/server_session.h"

namespace kvasir::net {
namespace {

using ::testing::HasSubstr;
using wire::CloseCode;

// An event without pointers into messages.
struct Seen {
  std::string what;  // "hello", "open", "frame", "closed"
  wire::FrameHead head;
  std::vector<std::byte> body;
  size_t wire_bytes = 0;
  CloseCode code = CloseCode::kGoodbye;
  std::string reason, hint;
};

Seen seen_of(const wire::SessionEvent& event) {
  Seen seen;
  if (std::holds_alternative<wire::HelloArrived>(event)) {
    seen.what = "hello";
  } else if (std::holds_alternative<wire::SessionOpen>(event)) {
    seen.what = "open";
  } else if (const auto* frame = std::get_if<wire::FrameArrived>(&event)) {
    seen.what = "frame";
    seen.head = frame->head;
    seen.body.assign(frame->body.begin(), frame->body.end());
    seen.wire_bytes = frame->wire_bytes;
  } else {
    const auto& closed = std::get<wire::SessionClosed>(event);
    seen.what = "closed";
    seen.code = closed.code;
    seen.reason = closed.reason;
    seen.hint = closed.hint;
  }
  return seen;
}

// One end: a driver, what it saw, and what it does about it.
struct End {
  std::unique_ptr<SessionDriver> driver;
  Mailbox<Seen> seen;
  std::function<void(const Seen&)> react;

  SessionDriver::Handler handler() {
    return [this](wire::SessionEvent& event) {
      Seen one = seen_of(event);
      if (react) react(one);
      seen.put(std::move(one));
    };
  }
  Seen next() {
    auto one = seen.take();
    return one ? *one : Seen{};
  }
};

wire::Fingerprint fingerprint() {
  wire::Fingerprint f{};
  f[0] = std::byte{7};
  return f;
}

// A backbone's and a worker's session with real keys over a real connection.
class Link {
 public:
  explicit Link(bool admit = true) {
    server.react = [this, admit](const Seen& seen) {
      if (seen.what != "hello") return;
      auto& session = static_cast<wire::ServerSession&>(server.driver->session());
      if (admit)
        session.admit(1, {}, EventLoop::now());
      else
        session.refuse(CloseCode::kToken, "the token is not known", "ask for a new one");
    };
  }
  ~Link() {
    on_loop(site.loop(), [&] { server.driver.reset(); });
    on_loop(thread.loop(), [&] { client.driver.reset(); });
  }

  void connect() {
    auto dialed = dial_and_wait(thread.loop(), site.url());
    ASSERT_TRUE(dialed) << dialed.error().message;
    auto accepted = site.sockets.take();
    ASSERT_TRUE(accepted && *accepted);
    on_loop(site.loop(), [&] { serve(std::move(*accepted)); });
    on_loop(thread.loop(), [&] {
      wire::ClientConfig config;
      config.capabilities = {0x7, 0x7, 64, 1000};
      config.fingerprints = {fingerprint()};
      config.build = "test";
      client.driver = std::make_unique<SessionDriver>(
          thread.loop(), std::move(*dialed),
          std::make_unique<wire::ClientSession>(
              config, crypto::make_session_crypto(client_identity), EventLoop::now()),
          client.handler());
    });
  }
  void serve(std::unique_ptr<MessageSocket> socket) {
    wire::ServerConfig config;
    config.fingerprints = {fingerprint()};
    config.build = "test";
    server.driver = std::make_unique<SessionDriver>(
        site.loop(), std::move(socket),
        std::make_unique<wire::ServerSession>(config, crypto::make_session_crypto(server_identity),
                                              EventLoop::now()),
        server.handler());
  }
  void expect_open() {
    EXPECT_EQ(server.next().what, "hello");
    EXPECT_EQ(server.next().what, "open");
    EXPECT_EQ(client.next().what, "open");
  }
  wire::Send send(EventLoop& loop, End& end, wire::FrameType type, uint64_t ticket, size_t bytes) {
    return on_loop(loop, [&] {
      const auto sent = end.driver->session().send(
          type, ticket, std::vector<std::byte>(bytes, std::byte{9}), EventLoop::now());
      end.driver->pump();
      return sent;
    });
  }

  const crypto::Identity server_identity = crypto::Identity::generate();
  const crypto::Identity client_identity = crypto::Identity::generate();
  End server, client;
  WebSocketSite site;
  LoopThread thread;
};

TEST(SessionDriver, MeetsProbesThePathAndExchangesWork) {
  Link link;
  // The worker answers each COMPUTE with a RESULT of 12 KiB at once.
  link.client.react = [&](const Seen& seen) {
    if (seen.what != "frame") return;
    wire::Session& session = link.client.driver->session();
    session.consumed(seen.wire_bytes, EventLoop::now());
    EXPECT_EQ(session.send(wire::FrameType::kResult, seen.head.ticket,
                           std::vector<std::byte>(12 * 1024, std::byte{5}), EventLoop::now()),
              wire::Send::kQueued);
  };
  link.connect();
  link.expect_open();
  // Many more bytes than the credit at the start.
  for (uint64_t ticket = 1; ticket <= 200; ++ticket) {
    ASSERT_EQ(link.send(link.site.loop(), link.server, wire::FrameType::kCompute, ticket, 3000),
              wire::Send::kQueued);
    const Seen result = link.server.next();
    ASSERT_EQ(result.what, "frame");
    EXPECT_EQ(result.head.ticket, ticket);
    EXPECT_EQ(result.body.size(), 12U * 1024);
    on_loop(link.site.loop(), [&] {
      link.server.driver->session().consumed(result.wire_bytes, EventLoop::now());
      link.server.driver->pump();
    });
  }
  EXPECT_EQ(link.client.seen.size(), 200U);
}

// A burst that fills socket and queue leaves in order and without loss.
TEST(SessionDriver, ABurstLeavesInOrder) {
  Link link;
  link.connect();
  link.expect_open();
  uint64_t sent = 0;
  on_loop(link.site.loop(), [&] {
    while (link.server.driver->session().send(wire::FrameType::kCompute, sent + 1,
                                              std::vector<std::byte>(3000),
                                              EventLoop::now()) == wire::Send::kQueued)
      ++sent;
    link.server.driver->pump();
  });
  EXPECT_GT(sent, 50U);
  for (uint64_t ticket = 1; ticket <= sent; ++ticket)
    ASSERT_EQ(link.client.next().head.ticket, ticket);
}

TEST(SessionDriver, ACutConnectionIsAnEventOnBothEnds) {
  Link link;
  link.connect();
  link.expect_open();
  on_loop(link.site.loop(), [&] { link.server.driver.reset(); });
  Seen seen = link.client.next();
  EXPECT_EQ(seen.what, "closed");
  EXPECT_EQ(seen.code, CloseCode::kConnection);

  link.connect();
  link.expect_open();
  on_loop(link.thread.loop(), [&] { link.client.driver.reset(); });
  seen = link.server.next();
  EXPECT_EQ(seen.what, "closed");
  EXPECT_EQ(seen.code, CloseCode::kConnection);
  EXPECT_EQ(link.send(link.site.loop(), link.server, wire::FrameType::kCompute, 1, 10),
            wire::Send::kClosed);
  EXPECT_TRUE(link.site.eventually_connections(0));
}

// In the middle of handshake and path probe, too: each time one typed end.
TEST(SessionDriver, ACutAtAnyMessageOfTheHandshakeIsOneEvent) {
  for (int messages = 0; messages < 8; ++messages) {
    Link link;
    // A client that counts what it hears and then drops the connection.
    auto dialed = dial_and_wait(link.thread.loop(), link.site.url());
    ASSERT_TRUE(dialed) << dialed.error().message;
    auto accepted = link.site.sockets.take();
    ASSERT_TRUE(accepted && *accepted);
    std::unique_ptr<MessageSocket> socket = std::move(*dialed);
    std::unique_ptr<wire::Session> session;
    int heard = 0;
    on_loop(link.thread.loop(), [&] {
      wire::ClientConfig config;
      config.capabilities = {0x7, 0x7, 64, 1000};
      config.fingerprints = {fingerprint()};
      config.build = "test";
      session = std::make_unique<wire::ClientSession>(
          config, crypto::make_session_crypto(link.client_identity), EventLoop::now());
      MessageEvents events;
      const auto pump = [&] {
        if (!socket || !socket->can_write()) return;
        auto message = session->next_message(EventLoop::now());
        if (!message.empty()) socket->write(std::move(message));
      };
      events.on_message = [&, pump](std::span<std::byte> message) {
        session->on_message(message, EventLoop::now());
        if (heard++ == messages)
          socket.reset();
        else
          pump();
      };
      events.on_writable = pump;
      events.on_closed = [](uint16_t, std::string_view) {};
      socket->start(std::move(events));
      if (messages == 7) socket.reset();  // before anything
    });
    on_loop(link.site.loop(), [&] { link.serve(std::move(*accepted)); });
    Seen seen;
    do seen = link.server.next();
    while (seen.what == "hello" || seen.what == "open");
    EXPECT_EQ(seen.what, "closed") << messages;
    EXPECT_EQ(seen.code, CloseCode::kConnection) << messages;
    on_loop(link.thread.loop(), [&] { socket.reset(); });
  }
}

TEST(SessionDriver, ARefusalArrivesWithItsReason) {
  for (const bool destroy_at_once : {false, true}) {
    Link link(/*admit=*/false);
    if (destroy_at_once)
      link.server.react = [&](const Seen& seen) {
        if (seen.what != "hello") return;
        auto& session = static_cast<wire::ServerSession&>(link.server.driver->session());
        session.refuse(CloseCode::kToken, "the token is not known", "ask for a new one");
        link.server.driver.reset();  // and still the client hears why
      };
    link.connect();
    EXPECT_EQ(link.server.next().what, "hello");
    const Seen seen = link.client.next();
    EXPECT_EQ(seen.what, "closed");
    EXPECT_EQ(seen.code, CloseCode::kToken);
    EXPECT_EQ(seen.reason, "the token is not known");
    EXPECT_EQ(seen.hint, "ask for a new one");
    EXPECT_TRUE(link.site.eventually_connections(0));
  }
}

TEST(SessionDriver, AClosedSessionTellsItsCode) {
  Link link;
  link.connect();
  link.expect_open();
  on_loop(link.site.loop(), [&] {
    link.server.driver->session().close(CloseCode::kRestarting, std::string(200, 'r'));
    link.server.driver->pump();
  });
  const Seen seen = link.client.next();
  EXPECT_EQ(seen.what, "closed");
  EXPECT_EQ(seen.code, CloseCode::kRestarting);
  EXPECT_TRUE(link.site.eventually_connections(0));
  EXPECT_EQ(link.server.seen.size(), 0U) << "who closed needs no event";
}

TEST(SessionDriver, MayBeDestroyedFromWithinAnyEvent) {
  for (const char* where : {"hello", "open", "frame", "closed"}) {
    Link link;
    const auto admit = link.server.react;
    link.server.react = [&, admit](const Seen& seen) {
      admit(seen);
      if (seen.what == where) link.server.driver.reset();
    };
    link.connect();
    if (where == std::string("frame") || where == std::string("closed")) {
      link.expect_open();
      if (where == std::string("frame")) {
        // Two at once: the second is never seen.
        on_loop(link.thread.loop(), [&] {
          for (uint64_t ticket : {1, 2})
            (void)link.client.driver->session().send(wire::FrameType::kResult, ticket, {},
                                                     EventLoop::now());
          link.client.driver->pump();
        });
      } else {
        on_loop(link.thread.loop(), [&] { link.client.driver.reset(); });
      }
    }
    Seen seen;
    do seen = link.server.next();
    while (seen.what != where && !seen.what.empty());
    EXPECT_EQ(seen.what, where);
    EXPECT_TRUE(link.site.eventually_connections(0)) << where;
    EXPECT_EQ(link.server.seen.size(), 0U);
  }
}

// A message that breaks the protocol ends the session with its code, seen by the stranger.
TEST(SessionDriver, AStrangerIsToldWhy) {
  Link link;
  RawWebSocket stranger(link.site.port);
  auto accepted = link.site.sockets.take();
  ASSERT_TRUE(accepted && *accepted);
  on_loop(link.site.loop(), [&] { link.serve(std::move(*accepted)); });
  EXPECT_EQ(stranger.read_frame().first, kBinary) << "the challenge";
  ASSERT_TRUE(stranger.send(frame(kBinary, "nonsense")));
  std::pair<unsigned, std::string> got;
  do got = stranger.read_frame();
  while (got.first == kBinary);
  ASSERT_EQ(got.first, kCloseFrame);
  EXPECT_EQ(got.second.substr(0, 2), "\x0F\xA1");  // 4001
  EXPECT_GT(got.second.size(), 2U);
  EXPECT_EQ(link.server.next().code, CloseCode::kMalformed);
}

// The session's own deadlines are kept: a client that never answers is closed.
TEST(SessionDriver, WakesTheSessionInTime) {
  Link link;
  RawWebSocket silent(link.site.port);
  auto accepted = link.site.sockets.take();
  ASSERT_TRUE(accepted && *accepted);
  on_loop(link.site.loop(), [&] { link.serve(std::move(*accepted)); });
  const Seen seen = link.server.next();
  EXPECT_EQ(seen.what, "closed");
  EXPECT_EQ(seen.code, CloseCode::kTooSlow);
}

}  // namespace
}  // namespace kvasir::net
