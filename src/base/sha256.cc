#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace kvasir {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  KVASIR_CHECK(context_->evp != nullptr);
  KVASIR_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::update(ByteSpan bytes) {
  KVASIR_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
  Context copy;
  KVASIR_CHECK(copy.evp != nullptr && EVP_MD_CTX_copy_ex(copy.evp, context_->evp) == 1);
  unsigned char digest[32];
  unsigned int length = 0;
  KVASIR_CHECK(EVP_DigestFinal_ex(copy.evp, digest, &length) == 1 && length == sizeof digest);
  std::string text;
  for (unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(ByteSpan bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace kvasir
