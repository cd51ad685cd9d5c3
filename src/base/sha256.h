// SHA-256 (FIPS 180-4), by libcrypto. Not part of the portable set.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"

namespace kvasir {

// One thread.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(ByteSpan bytes);
  // 64 lower-case hex digits of everything so far; more may follow.
  std::string hex() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(ByteSpan bytes);

}  // namespace kvasir
