// A server and a client joined by a path that a test controls, with cryptography that is fast,
// repeatable and worthless: for tests and fuzzers.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "wire/client_session.h"
#include "wire/server_session.h"

namespace kvasir::wire {

// What the toy cryptography believes.
enum class Toy : uint8_t { kChecks, kBelievesAll };

// FNV-1a in four lanes, over `key` first.
template <size_t N>
std::array<std::byte, N> toy_hash(uint64_t key, std::initializer_list<ByteSpan> parts) {
  std::array<std::byte, N> out{};
  for (size_t lane = 0; lane < N / 8; ++lane) {
    uint64_t hash = 0xcbf29ce484222325U + key * 31 + lane;
    for (ByteSpan part : parts)
      for (std::byte byte : part) hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3U;
    store_le(out.data() + lane * 8, hash);
  }
  return out;
}

class ToyTagger final : public FrameTagger {
 public:
  ToyTagger(uint64_t key, Toy toy) : key_(key), toy_(toy) {}
  Tag seal(uint64_t number, ByteSpan head, std::span<std::byte> body) override {
    if (toy_ == Toy::kBelievesAll) return {};  // fuzzers have no time for it
    return toy_hash<kTagBytes>(key_ + number * 1'000'003, {head, body});
  }
  bool open(uint64_t number, ByteSpan head, std::span<std::byte> body, const Tag& tag) override {
    return toy_ == Toy::kBelievesAll || tag == seal(number, head, body);
  }

 private:
  uint64_t key_;
  Toy toy_;
};

class ToyCrypto final : public SessionCrypto {
 public:
  ToyCrypto(uint8_t node, Toy toy) : ToyCrypto(node, toy, node) {}
  // Says that it is `node` and has the key of `signer`.
  ToyCrypto(uint8_t node, Toy toy, uint8_t signer) : toy_(toy) {
    key_.fill(std::byte{node});
    signing_key_.fill(std::byte{signer});
    ephemeral_.fill(std::byte{static_cast<uint8_t>(node ^ 0xA5)});
  }
  const Key& node_key() const override { return key_; }
  const Key& ephemeral() const override { return ephemeral_; }
  Key random_nonce() override { return toy_hash<32>(7, {key_}); }
  Signature sign(ByteSpan message) const override {
    return toy_hash<64>(1, {signing_key_, message});
  }
  bool verify(const Key& node_key, ByteSpan message, const Signature& signature) const override {
    return toy_ == Toy::kBelievesAll || signature == toy_hash<64>(1, {node_key, message});
  }
  Result<SessionTaggers> derive(const Key& peer_ephemeral, ByteSpan transcript, End end) override {
    if (peer_ephemeral == Key{}) return Error::corrupt("the ephemeral key is zero");
    const auto hash = toy_hash<8>(2, {transcript});
    const auto secret = load_le<uint64_t>(hash.data());
    const bool client = end == End::kClient;
    SessionTaggers taggers;
    taggers.sending = std::make_unique<ToyTagger>(secret + (client ? 1 : 2), toy_);
    taggers.receiving = std::make_unique<ToyTagger>(secret + (client ? 2 : 1), toy_);
    return taggers;
  }

 private:
  Toy toy_;
  Key key_{}, signing_key_{}, ephemeral_{};
};

inline Fingerprint test_fingerprint(uint8_t value) {
  Fingerprint fingerprint;
  fingerprint.fill(std::byte{value});
  return fingerprint;
}

inline ServerConfig test_server_config() {
  ServerConfig config;
  config.fingerprints = {test_fingerprint(0xAB)};
  config.build = "kvasir test";
  return config;
}

inline ClientConfig test_client_config() {
  ClientConfig config;
  config.capabilities = {0b111, 0b111, 32, 512};
  config.fingerprints = {test_fingerprint(0xAB)};
  config.build = "kvasir test";
  config.token = "token";
  return config;
}

inline constexpr uint8_t kServerNode = 1, kClientNode = 2;

inline std::unique_ptr<ServerSession> test_server(ServerConfig config, Time now,
                                                  Toy toy = Toy::kChecks) {
  return std::make_unique<ServerSession>(std::move(config),
                                         std::make_unique<ToyCrypto>(kServerNode, toy), now);
}
inline std::unique_ptr<ClientSession> test_client(ClientConfig config, Time now,
                                                  Toy toy = Toy::kChecks) {
  return std::make_unique<ClientSession>(std::move(config),
                                         std::make_unique<ToyCrypto>(kClientNode, toy), now);
}

}  // namespace kvasir::wire
