// Sessions: two of them joined by a path that the test may damage, under a clock that the test
// turns.
#include "wire/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "wire/test_bytes.h"
#include "wire/test_session.h"
#include "wire/work_messages.h"

namespace kvasir::wire {
namespace {

using testing::HasSubstr;

// What happened at one end; bodies are copied, since messages do not live on.
struct Log {
  std::optional<Hello> hello;
  std::optional<SessionOpen> open;
  std::optional<SessionClosed> closed;
  struct Arrived {
    FrameType type;
    uint64_t ticket;
    Bytes body;
    size_t wire_bytes;
  };
  std::vector<Arrived> frames;

  void add(const SessionEvents& events) {
    for (const SessionEvent& event : events) {
      EXPECT_FALSE(closed) << "an event after the end";
      if (const auto* arrived = std::get_if<HelloArrived>(&event)) hello = arrived->hello;
      if (const auto* opened = std::get_if<SessionOpen>(&event)) open = *opened;
      if (const auto* end = std::get_if<SessionClosed>(&event)) closed = *end;
      if (const auto* frame = std::get_if<FrameArrived>(&event))
        frames.push_back({frame->head.type, frame->head.ticket,
                          Bytes(frame->body.begin(), frame->body.end()), frame->wire_bytes});
    }
  }
};

struct Pair {
  explicit Pair(ServerConfig server_config = test_server_config(),
                ClientConfig client_config = test_client_config())
      : server(test_server(std::move(server_config), now)),
        client(test_client(std::move(client_config), now)) {}

  // Carries messages until nobody has one; a message for which `path` says false is dropped.
  template <typename Path>
  void carry(const Path& path) {
    for (bool moved = true; moved;) {
      moved = false;
      for (bool to_server : {false, true}) {
        Session& from = to_server ? static_cast<Session&>(*client) : *server;
        Session& to = to_server ? static_cast<Session&>(*server) : *client;
        Bytes message = from.next_message(now);
        if (message.empty()) continue;
        moved = true;
        if (path(to_server, message))
          (to_server ? at_server : at_client).add(to.on_message(message, now));
        if (admits && at_server.hello && !at_server.open) server->admit(7, {}, now);
      }
    }
  }
  void carry() {
    carry([](bool, Bytes&) { return true; });
  }
  // Lets time pass in steps at which somebody wakes.
  void pass(Time ms) {
    const Time until = now + ms;
    while (now < until) {
      now = std::min(
          {until, std::max(now + 1, server->wake_at()), std::max(now + 1, client->wake_at())});
      at_server.add(server->on_timer(now));
      at_client.add(client->on_timer(now));
      carry();
    }
  }

  Time now = 1'000;
  bool admits = true;
  std::unique_ptr<ServerSession> server;
  std::unique_ptr<ClientSession> client;
  Log at_server, at_client;
};

Pair open_pair() {
  Pair pair;
  pair.carry();
  EXPECT_TRUE(pair.server->is_open() && pair.client->is_open());
  return pair;
}

// Handshake --------------------------------------------------------------------------------------

TEST(Handshake, OpensBothEndsAndTellsEachWhoTheOtherIs) {
  Pair pair = open_pair();
  ASSERT_TRUE(pair.at_server.hello && pair.at_server.open && pair.at_client.open);
  EXPECT_EQ(pair.at_server.hello->token, "token");
  EXPECT_EQ(pair.at_server.open->peer_role, Role::kWorker);
  EXPECT_EQ(pair.at_server.open->peer_key, ToyCrypto(kClientNode, Toy::kChecks).node_key());
  EXPECT_EQ(pair.at_client.open->peer_role, Role::kBackbone);
  EXPECT_EQ(pair.at_client.open->peer_key, ToyCrypto(kServerNode, Toy::kChecks).node_key());
  EXPECT_EQ(pair.at_client.open->welcome.epoch, 7U);
  EXPECT_EQ(pair.at_client.open->welcome.rows_max, 32);
  EXPECT_EQ(pair.at_client.open->welcome.fingerprint, test_fingerprint(0xAB));
}

TEST(Handshake, ProbesGoBothWaysInMessagesOfTheirSizes) {
  Pair pair;
  std::vector<size_t> to_server, to_client;
  pair.carry([&](bool up, Bytes& message) {
    (up ? to_server : to_client).push_back(message.size());
    return true;
  });
  // CHALLENGE and WELCOME, HELLO are before them.
  EXPECT_EQ(std::vector<size_t>(to_server.begin() + 1, to_server.end()),
            std::vector<size_t>(kProbeMessageBytes.begin(), kProbeMessageBytes.end()));
  EXPECT_EQ(std::vector<size_t>(to_client.begin() + 2, to_client.end()),
            std::vector<size_t>(kProbeMessageBytes.begin(), kProbeMessageBytes.end()));
}

struct Unequal {
  const char* name;
  std::function<void(ServerConfig&, ClientConfig&)> change;
  CloseCode code;
  std::vector<std::string> reasons;
};

TEST(Handshake, EndsThatDoNotFitPartWithAReason) {
  const std::vector<Unequal> cases = {
      {"fingerprints",
       [](ServerConfig& server, ClientConfig&) { server.fingerprints = {test_fingerprint(0xCD)}; },
       CloseCode::kFingerprint,
       {hex(test_fingerprint(0xAB)), hex(test_fingerprint(0xCD))}},
      {"no fingerprint here",
       [](ServerConfig& server, ClientConfig&) { server.fingerprints.clear(); },
       CloseCode::kFingerprint,
       {hex(test_fingerprint(0xAB)), "none"}},
      {"role",
       [](ServerConfig&, ClientConfig& client) { client.role = Role::kObserver; },
       CloseCode::kRole,
       {"backbone", "observer"}},
      {"old client",
       [](ServerConfig& server, ClientConfig&) { server.version_min = server.version_max = 2; },
       CloseCode::kVersion,
       {"2 to 2", "1 to 1"}},
      {"old server",
       [](ServerConfig&, ClientConfig& client) { client.version_min = client.version_max = 2; },
       CloseCode::kVersion,
       {"2 to 2", "1 to 1"}},
      {"another server",
       [](ServerConfig&, ClientConfig& client) { client.server_key = Key{}; },
       CloseCode::kIdentity,
       {hex(Key{}), hex(ToyCrypto(kServerNode, Toy::kChecks).node_key())}},
  };
  for (const Unequal& c : cases) {
    SCOPED_TRACE(c.name);
    ServerConfig server = test_server_config();
    ClientConfig client = test_client_config();
    c.change(server, client);
    Pair pair(server, client);
    pair.carry();
    ASSERT_TRUE(pair.at_client.closed);
    EXPECT_EQ(pair.at_client.closed->code, c.code);
    for (const std::string& reason : c.reasons)
      EXPECT_THAT(pair.at_client.closed->reason, HasSubstr(reason));
    EXPECT_FALSE(pair.at_client.open || pair.at_server.open);
  }
}

TEST(Handshake, CommonVersionIsTheHighest) {
  ServerConfig server = test_server_config();
  server.version_max = 5;
  ClientConfig client = test_client_config();
  client.version_max = 3;
  Pair pair(server, client);
  pair.carry();
  ASSERT_TRUE(pair.at_client.open);
  EXPECT_EQ(pair.at_client.open->welcome.version, 3);
}

TEST(Handshake, AnyOfTheWorkersFingerprintsMayFit) {
  ClientConfig client = test_client_config();
  client.fingerprints = {test_fingerprint(1), test_fingerprint(0xAB), test_fingerprint(2)};
  Pair pair(test_server_config(), client);
  pair.carry();
  ASSERT_TRUE(pair.at_client.open);
  EXPECT_EQ(pair.at_client.open->welcome.fingerprint, test_fingerprint(0xAB));
}

TEST(Handshake, TheApplicationMayRefuse) {
  Pair pair;
  pair.admits = false;
  pair.carry();
  ASSERT_TRUE(pair.at_server.hello);
  pair.server->refuse(CloseCode::kToken, "this token was revoked", "ask for a new one");
  EXPECT_TRUE(pair.server->closed());
  pair.carry();
  ASSERT_TRUE(pair.at_client.closed);
  EXPECT_EQ(pair.at_client.closed->code, CloseCode::kToken);
  EXPECT_EQ(pair.at_client.closed->reason, "this token was revoked");
  EXPECT_EQ(pair.at_client.closed->hint, "ask for a new one");
}

// Every bit of every handshake message: the two ends never open with different ideas of each other.
TEST(Handshake, AFlippedBitNeverOpensBothEnds) {
  for (size_t target = 0; target < 3; ++target)
    for (size_t bit = 0;; ++bit) {
      Pair pair;
      size_t seen = 0;
      bool flipped = false, beyond = false;
      pair.carry([&](bool, Bytes& message) {
        if (seen++ != target) return true;
        beyond = bit / 8 >= message.size();
        if (beyond) return true;
        message[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        return flipped = true;
      });
      if (beyond) break;
      ASSERT_TRUE(flipped);
      // Two bits mean nothing here: the `optional` flag of a known type, and the ticket.
      const size_t at = bit / 8 - (target == 1 ? 1 : 0);
      const bool harmless =
          bit / 8 >= (target == 1 ? 1U : 0U) && ((at == 1 && bit % 8 == 0) || (at >= 8 && at < 16));
      EXPECT_EQ(pair.client->is_open(), harmless) << target << ' ' << bit;
      EXPECT_EQ(pair.server->is_open(), harmless) << target << ' ' << bit;
    }
}

// Both ends make the same keys with whoever has the ephemeral keys; only signatures say who that
// is.
TEST(Handshake, WhoDoesNotHaveTheKeyIsFoundOut) {
  for (bool server_lies : {false, true}) {
    Pair pair;
    if (server_lies)
      pair.server = std::make_unique<ServerSession>(
          test_server_config(), std::make_unique<ToyCrypto>(kServerNode, Toy::kChecks, 9),
          pair.now);
    else
      pair.client = std::make_unique<ClientSession>(
          test_client_config(), std::make_unique<ToyCrypto>(kClientNode, Toy::kChecks, 9),
          pair.now);
    pair.carry();
    ASSERT_TRUE(pair.at_client.closed);
    EXPECT_EQ(pair.at_client.closed->code, CloseCode::kIdentity);
    EXPECT_FALSE(pair.at_client.open || pair.at_server.open);
  }
}

TEST(Handshake, AVersionOutsideTheServersRangeIsRefused) {
  for (uint16_t version : {0, 1, 2, 3, 4, 0xFFFF}) {
    ServerConfig config = test_server_config();
    config.version_min = 2;
    config.version_max = 3;
    ClientConfig client = test_client_config();
    client.version_max = 9;
    auto server = test_server(config, 0, Toy::kBelievesAll);
    auto node = test_client(client, 0, Toy::kBelievesAll);
    Bytes challenge = server->next_message(0);
    node->on_message(challenge, 0);
    Bytes hello = with(node->next_message(0), 1 + kHeadBytes, version);
    Log log;
    log.add(server->on_message(hello, 0));
    EXPECT_EQ(log.hello.has_value(), version == 2 || version == 3) << version;
    if (log.closed) {
      EXPECT_EQ(log.closed->code, CloseCode::kVersion);
    }
  }
}

TEST(Handshake, DeadlinesEndIt) {
  struct Case {
    size_t messages;  // that arrive before silence
    Time server_after, client_after;
    CloseCode server_code, client_code;
  };
  for (const Case& c : {Case{0, 3'000, 5'000, CloseCode::kTooSlow, CloseCode::kTooSlow},
                        Case{1, 3'000, 15'000, CloseCode::kTooSlow, CloseCode::kTooSlow},
                        Case{2, 20'000, 15'000, CloseCode::kPath, CloseCode::kTooSlow},
                        Case{3, 20'000, 5'000, CloseCode::kPath, CloseCode::kPath},
                        Case{6, 20'000, 5'000, CloseCode::kPath, CloseCode::kPath}}) {
    SCOPED_TRACE(c.messages);
    Pair pair;
    size_t seen = 0;
    pair.carry([&](bool, Bytes&) { return seen++ < c.messages; });
    EXPECT_EQ(pair.server->wake_at(), pair.now + c.server_after);
    EXPECT_EQ(pair.client->wake_at(), pair.now + c.client_after);
    EXPECT_TRUE(pair.server->on_timer(pair.now + c.server_after - 1).empty());
    EXPECT_TRUE(pair.client->on_timer(pair.now + c.client_after - 1).empty());
    pair.at_server.add(pair.server->on_timer(pair.now + c.server_after));
    pair.at_client.add(pair.client->on_timer(pair.now + c.client_after));
    ASSERT_TRUE(pair.at_server.closed && pair.at_client.closed);
    EXPECT_EQ(pair.at_server.closed->code, c.server_code);
    EXPECT_EQ(pair.at_client.closed->code, c.client_code);
    EXPECT_EQ(pair.server->wake_at(), kNever);
  }
}

TEST(Handshake, AnApplicationThatDoesNotDecideEndsItToo) {
  Pair pair;
  pair.admits = false;
  pair.carry();
  pair.at_server.add(pair.server->on_timer(pair.now + kAdmissionWithinMs));
  ASSERT_TRUE(pair.at_server.closed);
  pair.server->admit(1, {}, pair.now);
  EXPECT_FALSE(pair.server->is_open());
}

TEST(Handshake, FirstMessagesThatAreNoHelloEndIt) {
  const auto hello = [] {
    Pair pair;
    Bytes first;
    pair.carry([&](bool up, Bytes& message) {
      if (up) first = message;
      return !up;
    });
    return first;
  }();
  std::vector<Bytes> cases = {{},          bytes({1}),  bytes({0x47, 0x45, 0x54}),
                              Bytes(1024), Bytes(1025), Bytes(kMessageMax + 1)};
  for (int role : {0, 5, 6, 255}) cases.push_back(with(hello, 0, static_cast<uint8_t>(role)));
  for (size_t n = 1; n < hello.size(); ++n) cases.push_back({hello.data(), hello.data() + n});
  Bytes twice = hello;
  twice.insert(twice.end(), hello.begin() + 1, hello.end());
  cases.push_back(twice);
  for (Bytes& first : cases) {
    Log log;
    auto server = test_server(test_server_config(), 0);
    log.add(server->on_message(first, 1));
    EXPECT_TRUE(log.closed) << first.size();
    EXPECT_FALSE(log.hello);
  }
  // And the same bytes unchanged are taken, but only once.
  Log log;
  auto server = test_server(test_server_config(), 0);
  Bytes first = hello;
  log.add(server->on_message(first, 1));
  EXPECT_TRUE(log.hello && !log.closed);
  log.add(server->on_message(first, 1));
  ASSERT_TRUE(log.closed);
  EXPECT_EQ(log.closed->code, CloseCode::kUnexpected);
}

// Open sessions ----------------------------------------------------------------------------------

TEST(OpenSession, CarriesFramesBothWays) {
  Pair pair = open_pair();
  EXPECT_EQ(pair.server->send(FrameType::kCompute, 1, bytes({1, 2}), pair.now), Send::kQueued);
  EXPECT_EQ(pair.server->send(FrameType::kCancel, 1, {}, pair.now), Send::kQueued);
  EXPECT_EQ(pair.client->send(FrameType::kFailed, 1, encode_failed({}), pair.now), Send::kQueued);
  pair.carry();
  ASSERT_EQ(pair.at_client.frames.size(), 2U);
  // Control goes first.
  EXPECT_EQ(pair.at_client.frames[0].type, FrameType::kCancel);
  EXPECT_EQ(pair.at_client.frames[1].type, FrameType::kCompute);
  EXPECT_EQ(pair.at_client.frames[1].body, bytes({1, 2}));
  ASSERT_EQ(pair.at_server.frames.size(), 1U);
  EXPECT_EQ(pair.at_server.frames[0].ticket, 1U);
}

TEST(OpenSession, ControlFramesPassBulkThatWaits) {
  Pair pair = open_pair();
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(40'000), pair.now), Send::kQueued);
  EXPECT_EQ(pair.server->next_message(pair.now).size(), frame_bytes(40'000, true));
  ASSERT_EQ(pair.server->send(FrameType::kCancel, 9, {}, pair.now), Send::kQueued);
  Bytes message = pair.server->next_message(pair.now);
  EXPECT_EQ(message[0], std::byte{static_cast<uint8_t>(FrameType::kCancel)});
}

TEST(OpenSession, BulkWaitsForControlFramesThatDoNotFit) {
  Pair pair = open_pair();
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(pair.server->send(FrameType::kOffer, 0, Bytes(kControlBodyMax), pair.now),
              Send::kQueued);
  ASSERT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10), pair.now), Send::kQueued);
  EXPECT_EQ(pair.server->next_message(pair.now).size(), 3 * frame_bytes(kControlBodyMax, true));
  EXPECT_EQ(pair.server->next_message(pair.now).size(),
            2 * frame_bytes(kControlBodyMax, true) + frame_bytes(10, true));
}

// The server is open before the last echo has left; nothing may overtake it or travel with it.
TEST(OpenSession, BeginsBehindTheLastEcho) {
  Pair pair;
  std::vector<Bytes> probes;
  pair.carry([&](bool up, Bytes& message) {
    const bool last = up && message.size() == kProbeMessageBytes.back();
    if (last) probes.push_back(message);
    return !last;
  });
  ASSERT_EQ(probes.size(), 1U);
  pair.at_server.add(pair.server->on_message(probes[0], pair.now));
  ASSERT_EQ(pair.server->send(FrameType::kCancel, 1, {}, pair.now), Send::kQueued);
  Bytes echo = pair.server->next_message(pair.now);
  EXPECT_EQ(echo.size(), kProbeMessageBytes.back());
  pair.at_client.add(pair.client->on_message(echo, pair.now));
  pair.carry();
  EXPECT_TRUE(pair.client->is_open());
  EXPECT_EQ(pair.at_client.frames.size(), 1U);
}

TEST(OpenSession, AFrameForAnotherPeerIsLost) {
  Pair pair = open_pair();
  ASSERT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10), pair.now), Send::kQueued);
  pair.carry([](bool up, Bytes& message) {
    if (!up) message[2] = std::byte{1};
    return true;
  });
  EXPECT_TRUE(pair.at_client.frames.empty());
  EXPECT_EQ(pair.client->stats().frames_damaged, 1U);
  EXPECT_FALSE(pair.client->closed());
}

TEST(OpenSession, SendsNothingBeyondItsCredit) {
  Pair pair = open_pair();
  size_t sent = 0;
  while (pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now) == Send::kQueued)
    ++sent;
  EXPECT_EQ(sent, kCreditStart / frame_bytes(10'000, true));
  EXPECT_EQ(pair.server->send(FrameType::kCancel, 1, {}, pair.now), Send::kQueued);
  pair.carry();
  EXPECT_EQ(pair.at_client.frames.size(), sent + 1);
  EXPECT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now), Send::kNoCredit);
  for (const auto& frame : pair.at_client.frames)
    if (is_data(frame.type)) pair.client->consumed(frame.wire_bytes, pair.now);
  pair.carry();
  EXPECT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now), Send::kQueued);
  EXPECT_FALSE(pair.client->closed() || pair.server->closed());
}

TEST(OpenSession, APeerThatNeverReadsIsLeft) {
  Pair pair = open_pair();
  while (pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now) == Send::kQueued) {
  }
  pair.pass(kStalledAfterMs - 1);
  EXPECT_FALSE(pair.server->closed());
  pair.pass(1);
  ASSERT_TRUE(pair.at_server.closed);
  EXPECT_EQ(pair.at_server.closed->code, CloseCode::kStalled);
}

TEST(OpenSession, ALostCreditIsMadeGood) {
  Pair pair = open_pair();
  while (pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now) == Send::kQueued) {
  }
  pair.carry();
  for (const auto& frame : pair.at_client.frames) pair.client->consumed(frame.wire_bytes, pair.now);
  pair.carry([](bool, Bytes&) { return false; });
  EXPECT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now), Send::kNoCredit);
  pair.pass(23'000);
  EXPECT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(10'000), pair.now), Send::kQueued);
}

TEST(OpenSession, TooManyControlFramesAreRefusedNotKept) {
  Pair pair = open_pair();
  size_t queued = 0;
  while (pair.server->send(FrameType::kOffer, 0, Bytes(kControlBodyMax), pair.now) == Send::kQueued)
    ASSERT_LT(++queued, 100U);
  EXPECT_EQ(pair.server->send(FrameType::kOffer, 0, Bytes(kControlBodyMax), pair.now), Send::kFull);
  pair.carry();
  EXPECT_EQ(pair.at_client.frames.size(), queued);
  EXPECT_EQ(pair.server->send(FrameType::kOffer, 0, Bytes(kControlBodyMax), pair.now),
            Send::kQueued);
}

TEST(OpenSession, StaysOpenForAnHourWithoutWork) {
  Pair pair = open_pair();
  pair.pass(3'600'000);
  EXPECT_TRUE(pair.server->is_open() && pair.client->is_open());
  EXPECT_EQ(pair.server->stats().round_trip_ms, Time{0});
}

TEST(OpenSession, SilenceEndsIt) {
  Pair pair = open_pair();
  const Time begin = pair.now;
  while (!pair.server->closed()) {
    pair.now = pair.server->wake_at();
    ASSERT_LE(pair.now, begin + kGoneAfterMs);
    pair.at_server.add(pair.server->on_timer(pair.now));
    pair.server->next_message(pair.now);
  }
  EXPECT_EQ(pair.now, begin + kGoneAfterMs);
  EXPECT_EQ(pair.at_server.closed->code, CloseCode::kSilent);
}

TEST(OpenSession, FramesThatTheOtherEndMayNotSendEndIt) {
  // Every type to both ends: taken only from who may send it.
  for (unsigned code = 0; code < 256; ++code) {
    const FrameRule* rule = find_rule(static_cast<FrameType>(code));
    if (rule == nullptr) continue;
    for (bool to_server : {false, true}) {
      const Role from = to_server ? Role::kWorker : Role::kBackbone;
      const bool handshake = rule->type <= FrameType::kRefused || rule->type == FrameType::kProbe ||
                             rule->type == FrameType::kProbeEcho;
      // The frame's type is changed on the way, and the ends believe every tag.
      auto server = test_server(test_server_config(), 0, Toy::kBelievesAll);
      auto client = test_client(test_client_config(), 0, Toy::kBelievesAll);
      Log server_log, client_log;
      for (bool moved = true; moved;) {
        moved = false;
        if (Bytes m = server->next_message(0); !m.empty())
          client_log.add(client->on_message(m, 0)), moved = true;
        if (Bytes m = client->next_message(0); !m.empty())
          server_log.add(server->on_message(m, 0)), moved = true;
        if (server_log.hello && !server_log.open) server->admit(1, {}, 0);
      }
      ASSERT_TRUE(server->is_open() && client->is_open());
      Session& sender = to_server ? static_cast<Session&>(*client) : *server;
      Session& receiver = to_server ? static_cast<Session&>(*server) : *client;
      ASSERT_EQ(sender.send(FrameType::kDrain, 0, encode_echo(0), 0), Send::kQueued);
      Bytes message = sender.next_message(0);
      message[0] = static_cast<std::byte>(code);
      Log log;
      log.add(receiver.on_message(message, 0));
      const bool welcome = rule->senders.contains(from) && !handshake;
      EXPECT_EQ(log.closed.has_value(), !welcome) << rule->name << ' ' << to_server;
      if (log.closed) {
        EXPECT_EQ(log.closed->code, CloseCode::kUnexpected);
      }
    }
  }
}

// A path that drops, damages, repeats and reorders messages. Whatever arrives was sent, in order
// and once, and the sessions live on.
TEST(OpenSession, AHostilePathLosesFramesButNeverChangesThem) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Pair pair = open_pair();
    std::vector<Bytes> sent;
    Bytes held;
    size_t whole = 0;
    for (uint64_t ticket = 1; ticket <= 300; ++ticket) {
      sent.push_back(random_bytes(random, random() % 3'000));
      if (pair.server->send(FrameType::kCompute, ticket, sent.back(), pair.now) != Send::kQueued)
        continue;
      const size_t before = pair.at_client.frames.size();
      pair.carry([&](bool up, Bytes& message) {
        if (up) return true;  // CREDIT comes through
        switch (random() % 10) {
          case 0:
            return false;
          case 1:
            message[random() % message.size()] ^= static_cast<std::byte>(1U << random() % 8);
            return true;
          case 2:
            message.resize(random() % message.size() + 1);
            return true;
          case 3: {
            Bytes copy = message;
            pair.at_client.add(pair.client->on_message(copy, pair.now));
            return true;
          }
          case 4:
            std::swap(held, message);
            return !message.empty();
          default:
            ++whole;
            return true;
        }
      });
      for (size_t i = before; i < pair.at_client.frames.size(); ++i)
        pair.client->consumed(pair.at_client.frames[i].wire_bytes, pair.now);
    }
    ASSERT_FALSE(pair.client->closed() || pair.server->closed());
    EXPECT_GT(pair.at_client.frames.size(), 100U);
    uint64_t last = 0;
    for (const auto& frame : pair.at_client.frames) {
      EXPECT_GT(frame.ticket, last);
      last = frame.ticket;
      EXPECT_EQ(frame.body, sent[frame.ticket - 1]);
    }
    const SessionStats stats = pair.client->stats();
    EXPECT_GT(stats.frames_damaged, 0U);
    EXPECT_GT(stats.frames_replayed, 0U);
    EXPECT_GT(stats.frames_missing, 0U);
  }
}

TEST(OpenSession, APathThatDamagesEverythingIsLeft) {
  Pair pair = open_pair();
  for (int i = 0; i < 64; ++i) {
    ASSERT_FALSE(pair.client->closed()) << i;
    ASSERT_EQ(pair.server->send(FrameType::kCancel, 1, {}, pair.now), Send::kQueued);
    pair.carry([](bool up, Bytes& message) {
      if (!up) message.back() ^= std::byte{1};
      return true;
    });
  }
  ASSERT_TRUE(pair.at_client.closed);
  EXPECT_EQ(pair.at_client.closed->code, CloseCode::kPath);
}

TEST(OpenSession, AFloodOfPingsIsAnsweredOnlyAsFarAsAnswersLeave) {
  auto sender = test_client(test_client_config(), 0, Toy::kBelievesAll);
  auto receiver = test_server(test_server_config(), 0, Toy::kBelievesAll);
  Log log;
  for (bool moved = true; moved;) {
    moved = false;
    if (Bytes m = receiver->next_message(0); !m.empty()) sender->on_message(m, 0), moved = true;
    if (Bytes m = sender->next_message(0); !m.empty())
      log.add(receiver->on_message(m, 0)), moved = true;
    if (log.hello && !log.open) receiver->admit(1, {}, 0);
  }
  for (uint64_t number = 100; number < 10'100; ++number) {
    MessageWriter writer;
    FrameHead head;
    head.type = FrameType::kPing;
    writer.add(head, encode_echo(number));
    Bytes ping = writer.take();
    ping[1] = std::byte{kFlagTagged};
    ping.resize(ping.size() + kTrailerBytes);
    store_le(ping.data() + kHeadBytes + 8, number);
    ASSERT_TRUE(receiver->on_message(ping, 0).empty());
  }
  EXPECT_LE(receiver->next_message(0).size(), 20 * frame_bytes(8, true));
  EXPECT_TRUE(receiver->next_message(0).empty());
}

TEST(OpenSession, EndsForNewKeysWhenNumbersAreUsedUp) {
  ServerConfig config = test_server_config();
  config.link.frames_max = 20;  // 5 of them for the echoes of probes
  Pair pair(config);
  pair.carry();
  for (int i = 0; i < 30; ++i)
    ASSERT_EQ(pair.server->send(FrameType::kCancel, 1, {}, pair.now), Send::kQueued);
  pair.carry();
  EXPECT_EQ(pair.at_client.frames.size(), 15U);
  EXPECT_LE(pair.server->wake_at(), pair.now);
  pair.at_server.add(pair.server->on_timer(pair.now));
  ASSERT_TRUE(pair.at_server.closed);
  EXPECT_EQ(pair.at_server.closed->code, CloseCode::kRenew);
}

TEST(OpenSession, NothingHappensAfterTheEnd) {
  Pair pair = open_pair();
  ASSERT_EQ(pair.server->send(FrameType::kCompute, 1, Bytes(100), pair.now), Send::kQueued);
  Bytes message = pair.server->next_message(pair.now);
  pair.client->close(CloseCode::kGoodbye, "done");
  EXPECT_TRUE(pair.client->on_message(message, pair.now).empty());
  EXPECT_TRUE(pair.client->on_timer(kNever).empty());
  EXPECT_TRUE(pair.client->on_disconnected(1006, pair.now).empty());
  EXPECT_TRUE(pair.client->next_message(pair.now).empty());
  EXPECT_EQ(pair.client->send(FrameType::kFailed, 1, {}, pair.now), Send::kClosed);
  EXPECT_EQ(pair.client->closed()->code, CloseCode::kGoodbye);
}

TEST(OpenSession, SaysWhyTheOtherEndClosed) {
  Pair pair = open_pair();
  pair.at_client.add(pair.client->on_disconnected(4013, pair.now));
  EXPECT_EQ(pair.at_client.closed->code, CloseCode::kSuperseded);
  pair.at_server.add(pair.server->on_disconnected(1006, pair.now));
  EXPECT_EQ(pair.at_server.closed->code, CloseCode::kConnection);
}

}  // namespace
}  // namespace kvasir::wire
