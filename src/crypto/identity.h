// Who a node is: an Ed25519 key pair that it made itself. The seed is the secret; it is wiped from
// memory with the object.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"
#include "wire/handshake_messages.h"

namespace kvasir::crypto {

using Seed = std::array<std::byte, 32>;

// Immutable once made, so any number of threads may use it.
class Identity {
 public:
  static Identity generate();
  static Identity from_seed(const Seed& seed);
  ~Identity();
  Identity(const Identity&) = default;
  Identity& operator=(const Identity&) = default;

  const wire::Key& public_key() const { return public_key_; }
  Seed seed() const;
  wire::Signature sign(ByteSpan message) const;

 private:
  Identity() = default;

  wire::Key public_key_{};
  std::array<std::byte, 64> secret_{};  // libsodium's form: seed, public key
};

bool verify(const wire::Key& public_key, ByteSpan message, const wire::Signature& signature);

}  // namespace kvasir::crypto
