#include "crypto/identity.h"

#include <algorithm>

#include "crypto/sodium.h"

namespace kvasir::crypto {

static_assert(sizeof(wire::Key) == crypto_sign_PUBLICKEYBYTES &&
              sizeof(wire::Signature) == crypto_sign_BYTES &&
              sizeof(Seed) == crypto_sign_SEEDBYTES && crypto_sign_SECRETKEYBYTES == 64);

Identity Identity::generate() {
  need_sodium();
  Seed seed;
  randombytes_buf(seed.data(), seed.size());
  Identity identity = from_seed(seed);
  sodium_memzero(seed.data(), seed.size());
  return identity;
}

Identity Identity::from_seed(const Seed& seed) {
  need_sodium();
  Identity identity;
  crypto_sign_seed_keypair(chars(identity.public_key_.data()), chars(identity.secret_.data()),
                           chars(seed.data()));
  return identity;
}

Identity::~Identity() {
  sodium_memzero(secret_.data(), secret_.size());
}

Seed Identity::seed() const {
  Seed seed;
  std::copy_n(secret_.begin(), seed.size(), seed.begin());
  return seed;
}

wire::Signature Identity::sign(ByteSpan message) const {
  wire::Signature signature;
  crypto_sign_detached(chars(signature.data()), nullptr, chars(message.data()), message.size(),
                       chars(secret_.data()));
  return signature;
}

bool verify(const wire::Key& public_key, ByteSpan message, const wire::Signature& signature) {
  need_sodium();
  return crypto_sign_verify_detached(chars(signature.data()), chars(message.data()), message.size(),
                                     chars(public_key.data())) == 0;
}

}  // namespace kvasir::crypto
