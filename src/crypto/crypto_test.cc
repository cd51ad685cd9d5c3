// Real cryptography: the values of other implementations, and whole sessions under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "crypto/identity.h"
#include "crypto/session_crypto.h"
#include "wire/client_session.h"
#include "wire/server_session.h"

namespace kvasir::crypto {
namespace {

using Bytes = std::vector<std::byte>;

std::string hex(ByteSpan bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

Seed seed_of(int value) {
  Seed seed;
  seed.fill(static_cast<std::byte>(value));
  return seed;
}

// Expected values here are those of Python's cryptography and hashlib; docs/protocol.md has them,
// too.
TEST(Identity, SignsAsEd25519) {
  const Identity identity = Identity::from_seed(seed_of(3));
  EXPECT_EQ(hex(identity.public_key()),
            "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1");
  wire::Transcript transcript;
  transcript.add(bytes_of("transcript"));
  const Bytes body(64);
  const Bytes message = transcript.signed_bytes(wire::kHelloDomain, body);
  EXPECT_EQ(hex(identity.sign(message)),
            "9ffa54e025b0d954401ddd8835c4039c06d953b28fdffb4c17b535d0a38e0007"
            "33027fc51021ca5380c62aee996dee2d189f5109c334d78fe02c5721757dcc01");
}

TEST(Identity, BelievesOnlyItsOwnSignatures) {
  const Identity one = Identity::generate(), two = Identity::generate();
  EXPECT_NE(one.public_key(), two.public_key());
  EXPECT_EQ(Identity::from_seed(one.seed()).public_key(), one.public_key());
  const ByteSpan message = bytes_of("message");
  wire::Signature signature = one.sign(message);
  EXPECT_TRUE(verify(one.public_key(), message, signature));
  EXPECT_FALSE(verify(two.public_key(), message, signature));
  EXPECT_FALSE(verify(one.public_key(), bytes_of("messagf"), signature));
  EXPECT_FALSE(verify(wire::Key{}, message, signature));
  for (size_t bit = 0; bit < signature.size() * 8; ++bit) {
    signature[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(verify(one.public_key(), message, signature)) << bit;
    signature[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(SessionKeys, AreThoseOfTheProtocolPage) {
  const Identity identity = Identity::generate();
  auto client = make_session_crypto(identity, seed_of(1));
  auto server = make_session_crypto(identity, seed_of(2));
  EXPECT_EQ(hex(client->ephemeral()),
            "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209");
  EXPECT_EQ(hex(server->ephemeral()),
            "ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59");
  auto client_taggers =
      client->derive(server->ephemeral(), bytes_of("transcript"), wire::End::kClient);
  auto server_taggers =
      server->derive(client->ephemeral(), bytes_of("transcript"), wire::End::kServer);
  ASSERT_TRUE(client_taggers && server_taggers);

  wire::FrameSealer sealer(*client_taggers->sending);
  wire::MessageWriter writer(&sealer);
  wire::FrameHead head;
  head.type = wire::FrameType::kPing;
  const Bytes body = wire::encode_echo(0x0807060504030201U);
  writer.add(head, body);
  Bytes message = writer.take();
  EXPECT_EQ(hex(message),
            "30020000080000000000000000000000"
            "0102030405060708"
            "0100000000000000d06300c23b981b0c9f2607fa83f39f3c");
  wire::FrameOpener opener(*server_taggers->receiving);
  EXPECT_EQ(opener.open(message), wire::Opened::kGood);

  // The other direction has another key.
  wire::FrameOpener echo(*client_taggers->receiving);
  EXPECT_EQ(echo.open(message), wire::Opened::kDamaged);
}

TEST(SessionKeys, DependOnTheTranscript) {
  const Identity identity = Identity::generate();
  auto client = make_session_crypto(identity, seed_of(1));
  auto server = make_session_crypto(identity, seed_of(2));
  auto client_taggers = client->derive(server->ephemeral(), bytes_of("a"), wire::End::kClient);
  auto server_taggers = server->derive(client->ephemeral(), bytes_of("b"), wire::End::kServer);
  ASSERT_TRUE(client_taggers && server_taggers);
  Bytes frame(wire::kHeadBytes + wire::kTrailerBytes);
  wire::FrameSealer(*client_taggers->sending).seal(frame);
  EXPECT_EQ(wire::FrameOpener(*server_taggers->receiving).open(frame), wire::Opened::kDamaged);
}

TEST(SessionKeys, AreNotMadeWithAKeyOfLowOrder) {
  auto crypto = make_session_crypto(Identity::generate());
  wire::Key one{};
  one[0] = std::byte{1};
  for (const wire::Key& key : {wire::Key{}, one}) {
    auto taggers = crypto->derive(key, {}, wire::End::kServer);
    ASSERT_FALSE(taggers);
    EXPECT_EQ(taggers.error().kind, ErrorKind::kCorrupt);
  }
}

TEST(Blake2bTagger, EveryBitCounts) {
  SessionKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  Bytes head(16), body{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  for (size_t i = 0; i < head.size(); ++i) head[i] = static_cast<std::byte>(i);
  Blake2bTagger tagger(key);
  wire::Tag tag = tagger.seal(5, head, body);
  EXPECT_EQ(hex(tag), "61c5c8802aff7519d42b3e4084c75144");
  EXPECT_TRUE(tagger.open(5, head, body, tag));
  EXPECT_FALSE(tagger.open(6, head, body, tag));
  for (std::span<std::byte> part :
       {std::span<std::byte>(head), std::span<std::byte>(body), std::span<std::byte>(tag)})
    for (size_t bit = 0; bit < part.size() * 8; ++bit) {
      part[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      EXPECT_FALSE(tagger.open(5, head, body, tag));
      part[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    }
}

TEST(Session, OpensUnderRealKeys) {
  const Identity server_identity = Identity::generate(), client_identity = Identity::generate();
  wire::ServerConfig server_config;
  server_config.fingerprints.resize(1);
  wire::ClientConfig client_config;
  client_config.capabilities = {1, 1, 8, 0};
  client_config.fingerprints.resize(1);
  client_config.server_key = server_identity.public_key();
  wire::ServerSession server(server_config, make_session_crypto(server_identity), 0);
  wire::ClientSession client(client_config, make_session_crypto(client_identity), 0);
  for (bool moved = true; moved;) {
    moved = false;
    if (Bytes message = server.next_message(0); !message.empty()) {
      client.on_message(message, 0);
      moved = true;
    }
    if (Bytes message = client.next_message(0); !message.empty()) {
      for (const auto& event : server.on_message(message, 0))
        if (const auto* arrived = std::get_if<wire::HelloArrived>(&event)) {
          EXPECT_EQ(arrived->hello.node_key, client_identity.public_key());
          server.admit(1, {}, 0);
        }
      moved = true;
    }
  }
  EXPECT_TRUE(server.is_open());
  EXPECT_TRUE(client.is_open());
}

}  // namespace
}  // namespace kvasir::crypto
