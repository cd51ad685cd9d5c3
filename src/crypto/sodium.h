// libsodium with bytes instead of characters. Only for crypto/*.cc.
#pragma once

#include <sodium.h>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir::crypto {

inline unsigned char* chars(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
inline const unsigned char* chars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// Before anything else of libsodium; cheap when repeated.
inline void need_sodium() {
  KVASIR_CHECK(sodium_init() >= 0);
}

}  // namespace kvasir::crypto
