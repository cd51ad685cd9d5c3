#include "crypto/session_crypto.h"

#include "crypto/sodium.h"

namespace kvasir::crypto {
namespace {

constexpr std::string_view kKeysDomain = "kvasir session keys v1";

// A hash being made.
class Blake2b {
 public:
  Blake2b(const std::array<std::byte, 32>& key, size_t out_bytes) : out_bytes_(out_bytes) {
    crypto_generichash_init(&state_, chars(key.data()), key.size(), out_bytes);
  }
  ~Blake2b() { sodium_memzero(&state_, sizeof state_); }
  Blake2b(const Blake2b&) = delete;
  Blake2b& operator=(const Blake2b&) = delete;

  Blake2b& add(ByteSpan bytes) {
    crypto_generichash_update(&state_, chars(bytes.data()), bytes.size());
    return *this;
  }
  void finish(std::byte* out) { crypto_generichash_final(&state_, chars(out), out_bytes_); }

 private:
  crypto_generichash_state state_;
  size_t out_bytes_;
};

class SodiumCrypto final : public wire::SessionCrypto {
 public:
  SodiumCrypto(const Identity& identity, const std::optional<Seed>& ephemeral_secret)
      : identity_(identity) {
    need_sodium();
    if (ephemeral_secret)
      ephemeral_secret_ = *ephemeral_secret;
    else
      randombytes_buf(ephemeral_secret_.data(), ephemeral_secret_.size());
    crypto_scalarmult_base(chars(ephemeral_.data()), chars(ephemeral_secret_.data()));
  }
  ~SodiumCrypto() override { sodium_memzero(ephemeral_secret_.data(), ephemeral_secret_.size()); }
  SodiumCrypto(const SodiumCrypto&) = delete;
  SodiumCrypto& operator=(const SodiumCrypto&) = delete;

  const wire::Key& node_key() const override { return identity_.public_key(); }
  const wire::Key& ephemeral() const override { return ephemeral_; }
  wire::Key random_nonce() override {
    wire::Key nonce;
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
  }
  wire::Signature sign(ByteSpan message) const override { return identity_.sign(message); }
  bool verify(const wire::Key& node_key, ByteSpan message,
              const wire::Signature& signature) const override {
    return crypto::verify(node_key, message, signature);
  }

  Result<wire::SessionTaggers> derive(const wire::Key& peer_ephemeral, ByteSpan transcript,
                                      wire::End end) override {
    std::array<std::byte, 32> secret;
    if (crypto_scalarmult(chars(secret.data()), chars(ephemeral_secret_.data()),
                          chars(peer_ephemeral.data())) != 0)
      return Error::corrupt("the other end's ephemeral key is of low order");
    std::array<std::byte, 64> keys;
    const std::byte zero{0};
    Blake2b(secret, keys.size())
        .add(bytes_of(kKeysDomain))
        .add({&zero, 1})
        .add(transcript)
        .finish(keys.data());
    SessionKey to_server, to_client;
    std::copy_n(keys.begin(), 32, to_server.begin());
    std::copy_n(keys.begin() + 32, 32, to_client.begin());
    const bool client = end == wire::End::kClient;
    wire::SessionTaggers taggers;
    taggers.sending = std::make_unique<Blake2bTagger>(client ? to_server : to_client);
    taggers.receiving = std::make_unique<Blake2bTagger>(client ? to_client : to_server);
    for (std::span<std::byte> used :
         {std::span<std::byte>(secret), std::span<std::byte>(keys), std::span<std::byte>(to_server),
          std::span<std::byte>(to_client), std::span<std::byte>(ephemeral_secret_)})
      sodium_memzero(used.data(), used.size());
    return taggers;
  }

 private:
  const Identity identity_;
  Seed ephemeral_secret_{};
  wire::Key ephemeral_{};
};

}  // namespace

Blake2bTagger::~Blake2bTagger() {
  sodium_memzero(key_.data(), key_.size());
}

wire::Tag Blake2bTagger::seal(uint64_t number, ByteSpan head, std::span<std::byte> body) {
  wire::Tag tag;
  std::array<std::byte, sizeof number> number_bytes;
  store_le(number_bytes.data(), number);
  Blake2b(key_, tag.size()).add(number_bytes).add(head).add(body).finish(tag.data());
  return tag;
}

bool Blake2bTagger::open(uint64_t number, ByteSpan head, std::span<std::byte> body,
                         const wire::Tag& tag) {
  const wire::Tag expected = seal(number, head, body);
  return sodium_memcmp(expected.data(), tag.data(), tag.size()) == 0;
}

std::unique_ptr<wire::SessionCrypto> make_session_crypto(
    const Identity& identity, const std::optional<Seed>& ephemeral_secret) {
  return std::make_unique<SodiumCrypto>(identity, ephemeral_secret);
}

}  // namespace kvasir::crypto
