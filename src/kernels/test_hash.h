// For tests: one number for many results, so that a changed bit is seen.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace kvasir::kernels {

// FNV-1a, 64 bits, over the bytes of numbers.
class Hash {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void add(T value) {
    uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof value);
    for (const uint8_t byte : bytes) hash_ = (hash_ ^ byte) * 0x100000001b3u;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace kvasir::kernels
