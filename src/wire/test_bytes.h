// Bytes for tests of codecs.
#pragma once

#include <initializer_list>
#include <random>
#include <vector>

#include "base/bytes.h"

namespace kvasir::wire {

using Bytes = std::vector<std::byte>;

inline Bytes bytes(std::initializer_list<int> values) {
  Bytes result;
  for (int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

inline Bytes random_bytes(std::mt19937_64& random, size_t n) {
  Bytes result(n);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random() & 0xFF);
  return result;
}

template <typename T>
Bytes with(Bytes bytes, size_t at, T value) {
  store_le(bytes.data() + at, value);
  return bytes;
}

}  // namespace kvasir::wire
