// The cryptography of a session: Ed25519 signatures, X25519 key agreement, tags by keyed BLAKE2b.
// docs/protocol.md has every byte of it.
#pragma once

#include <memory>
#include <optional>

#include "crypto/identity.h"
#include "wire/session_crypto.h"

namespace kvasir::crypto {

using SessionKey = std::array<std::byte, 32>;

// Tags of 128 bits: BLAKE2b with a 32-byte key over number, head, body. Bodies stay readable.
class Blake2bTagger final : public wire::FrameTagger {
 public:
  explicit Blake2bTagger(const SessionKey& key) : key_(key) {}
  ~Blake2bTagger() override;
  Blake2bTagger(const Blake2bTagger&) = delete;
  Blake2bTagger& operator=(const Blake2bTagger&) = delete;

  wire::Tag seal(uint64_t number, ByteSpan head, std::span<std::byte> body) override;
  bool open(uint64_t number, ByteSpan head, std::span<std::byte> body,
            const wire::Tag& tag) override;

 private:
  SessionKey key_;
};

// For one connection. ephemeral_secret: for tests; random otherwise.
std::unique_ptr<wire::SessionCrypto> make_session_crypto(
    const Identity& identity, const std::optional<Seed>& ephemeral_secret = std::nullopt);

}  // namespace kvasir::crypto
