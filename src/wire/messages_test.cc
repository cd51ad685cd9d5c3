// The frames that are not work: handshake, coverage, link. Each comes back as it was sent, and
// every other length, every truncation and every forbidden value is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "wire/coverage_messages.h"
#include "wire/handshake_messages.h"
#include "wire/link_messages.h"
#include "wire/test_bytes.h"

namespace kvasir::wire {
namespace {

Challenge sample_challenge() {
  Challenge challenge;
  challenge.version_max = 3;
  challenge.server_key.fill(std::byte{1});
  challenge.ephemeral.fill(std::byte{2});
  challenge.nonce.fill(std::byte{3});
  return challenge;
}

Hello sample_hello() {
  Hello hello;
  hello.capabilities = {0b101, 0b011, 64, 512};
  hello.node_key.fill(std::byte{4});
  hello.ephemeral.fill(std::byte{5});
  hello.resume_id.fill(std::byte{6});
  hello.fingerprints.resize(2);
  hello.fingerprints[1].fill(std::byte{7});
  hello.build = "kvasir 0.2";
  hello.token = "t0ken";
  hello.signature.fill(std::byte{8});
  return hello;
}

Welcome sample_welcome() {
  Welcome welcome;
  welcome.rows_max = 32;
  welcome.epoch = 99;
  welcome.build = "kvasir 0.2";
  welcome.signature.fill(std::byte{9});
  return welcome;
}

const std::vector<LeaseTerms> kTerms = {
    {{0, 0, 8}, 1, 2, 3}, {{0, 8, 9}, 1, 2, 3}, {{7, 0, 1}, 1, 2, 3}};
const std::vector<LeasedUnit> kLeased = {{{5, 8, 16}, 77}, {{6, 0, 8}, 78}};

// Decodes and encodes again; nothing if it is refused.
template <typename Decode, typename Encode>
std::function<std::optional<Bytes>(const Bytes&)> again(Decode decode, Encode encode) {
  return [=](const Bytes& body) -> std::optional<Bytes> {
    auto message = decode(body);
    if (!message) {
      EXPECT_EQ(message.error().kind, ErrorKind::kCorrupt);
      return std::nullopt;
    }
    return encode(*message);
  };
}

struct Kind {
  const char* name;
  Bytes body;
  std::function<std::optional<Bytes>(const Bytes&)> again;
};

std::vector<Kind> every_kind() {
  auto hello = [](const Bytes& body) { return decode_hello(Role::kWorker, body); };
  return {
      {"CHALLENGE", encode_challenge(sample_challenge()),
       again(decode_challenge, encode_challenge)},
      {"HELLO", encode_hello(sample_hello()), again(hello, encode_hello)},
      {"WELCOME", encode_welcome(sample_welcome()), again(decode_welcome, encode_welcome)},
      {"REFUSED", encode_refused({CloseCode::kToken, "no", "ask"}),
       again(decode_refused, encode_refused)},
      {"OFFER", encode_lease_terms(kTerms), again(decode_lease_terms, encode_lease_terms)},
      {"READY", encode_leased_units(kLeased), again(decode_leased_units, encode_leased_units)},
      {"PING", encode_echo(1), again(decode_echo, encode_echo)},
      {"CREDIT", encode_credit(UINT64_MAX), again(decode_credit, encode_credit)},
      {"PEER_HERE", encode_peer_here({1, Role::kBackbone, Key{}, 2}),
       again(decode_peer_here, encode_peer_here)},
      {"PEER_GONE", encode_peer_gone({1, 2}), again(decode_peer_gone, encode_peer_gone)},
      {"RESTARTING", encode_restarting({5, 6}), again(decode_restarting, encode_restarting)},
  };
}

TEST(Messages, ComeBackAsTheyWereSentAndInNoOtherLength) {
  for (const Kind& kind : every_kind()) {
    SCOPED_TRACE(kind.name);
    EXPECT_EQ(kind.again(kind.body), kind.body);
    for (size_t n = 0; n < kind.body.size(); ++n)
      EXPECT_FALSE(kind.again({kind.body.data(), kind.body.data() + n})) << n;
    Bytes longer = kind.body;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(kind.again(longer));
  }
}

// One form each: whatever is accepted is written again as the same bytes. Every single byte takes
// every value.
TEST(Messages, HaveOneFormOnly) {
  for (const Kind& kind : every_kind()) {
    SCOPED_TRACE(kind.name);
    size_t refused = 0;
    for (size_t at = 0; at < kind.body.size(); ++at)
      for (unsigned value = 0; value < 256; ++value) {
        const Bytes changed = with(kind.body, at, static_cast<uint8_t>(value));
        const auto written = kind.again(changed);
        if (written) {
          EXPECT_EQ(*written, changed) << at << ' ' << value;
        } else {
          ++refused;
        }
      }
    if (std::string_view(kind.name) != "PING" && std::string_view(kind.name) != "CREDIT") {
      EXPECT_GT(refused, 0U);
    }
  }
}

TEST(Messages, HelloFitsTheFirstMessageAtItsLongest) {
  Hello hello = sample_hello();
  hello.fingerprints.resize(kFingerprintsMax);
  hello.build.assign(kBuildBytesMax, 'b');
  hello.token.assign(kTokenBytesMax, 't');
  const Bytes body = encode_hello(hello);
  EXPECT_LE(1 + kHeadBytes + body.size(), 1024U);
  EXPECT_TRUE(decode_hello(Role::kWorker, body));
}

TEST(Messages, HelloHasEightFingerprintsAtMost) {
  Hello hello = sample_hello();
  hello.fingerprints.resize(kFingerprintsMax);
  Bytes body = encode_hello(hello);
  body.insert(body.begin() + 92, 32, std::byte{1});
  store_le(body.data() + 6, uint8_t{kFingerprintsMax + 1});
  EXPECT_FALSE(decode_hello(Role::kWorker, body));
}

TEST(Messages, AWorkerSaysWhatItCanDo) {
  auto refused = [](auto change, Role role = Role::kWorker) {
    Hello hello = sample_hello();
    change(hello);
    return !decode_hello(role, encode_hello(hello));
  };
  EXPECT_TRUE(refused([](Hello& hello) { hello.fingerprints.clear(); }));
  EXPECT_FALSE(refused([](Hello& hello) { hello.fingerprints.clear(); }, Role::kObserver));
  EXPECT_TRUE(refused([](Hello& hello) { hello.capabilities.rows_max = 0; }));
  EXPECT_TRUE(refused([](Hello& hello) { hello.capabilities.rows_max = 257; }));
  EXPECT_TRUE(refused([](Hello& hello) { hello.capabilities.row_formats = 0; }));
  EXPECT_TRUE(refused([](Hello& hello) { hello.capabilities.encodings = 0b1000; }));
  EXPECT_TRUE(refused([](Hello& hello) { hello.build = "line\nbreak"; }));
  EXPECT_TRUE(refused([](Hello& hello) { hello.token = "\x7F"; }));
}

TEST(Messages, TextsArePrintableAscii) {
  EXPECT_FALSE(decode_refused(encode_refused({CloseCode::kFull, "", ""})));
  EXPECT_FALSE(decode_refused(encode_refused({CloseCode::kFull, "\x1B[31m", ""})));
  EXPECT_FALSE(decode_refused(encode_refused({CloseCode::kFull, "a", "\xC3\xA9"})));
}

TEST(Messages, UnitsAreOrderedAndDoNotOverlap) {
  auto accepted = [](std::vector<LeasedUnit> units) {
    return decode_leased_units(encode_leased_units(units)).has_value();
  };
  EXPECT_TRUE(accepted({{{1, 0, 8}, 0}, {{1, 8, 16}, 0}}));
  EXPECT_FALSE(accepted({{{1, 0, 9}, 0}, {{1, 8, 16}, 0}}));
  EXPECT_FALSE(accepted({{{1, 0, 8}, 0}, {{1, 0, 8}, 0}}));
  EXPECT_FALSE(accepted({{{2, 0, 8}, 0}, {{1, 8, 16}, 0}}));
  EXPECT_FALSE(accepted({{{1, 8, 8}, 0}}));
  EXPECT_FALSE(accepted({{{1, 9, 8}, 0}}));
  EXPECT_TRUE(accepted({{{0xFFFF, 0xFFFE, 0xFFFF}, UINT64_MAX}}));
  std::vector<LeaseTerms> many(kUnitsMax);
  for (size_t i = 0; i < many.size(); ++i) many[i] = {{static_cast<uint16_t>(i), 0, 1}, 1, 1, 1};
  EXPECT_TRUE(decode_lease_terms(encode_lease_terms(many)));
  EXPECT_FALSE(decode_lease_terms(with(encode_lease_terms(many), 0, uint16_t{0})));
  EXPECT_FALSE(decode_lease_terms(with(encode_lease_terms(many), 0, uint16_t{0xFFFF})));
}

TEST(Messages, ProbesAreAsLongAsTheProtocolSays) {
  EXPECT_EQ(probe_body(0).size(), 1U);
  for (size_t i = 0; i < kProbeMessageBytes.size(); ++i)
    EXPECT_EQ(frame_bytes(probe_body(i).size(), true), kProbeMessageBytes[i]);
}

TEST(Messages, ProbesHoldTheBytesOfTheProtocolPage) {
  for (size_t i = 0; i < kProbeMessageBytes.size(); ++i) {
    const Bytes body = probe_body(i);
    for (size_t k = 0; k < body.size(); ++k)
      ASSERT_EQ(std::to_integer<size_t>(body[k]), (131 * k + k / 251 + i) % 256) << k;
  }
}

}  // namespace
}  // namespace kvasir::wire
