// Little-endian loads and stores, and checked size arithmetic. Every multi-byte field of a file or
// frame goes through this file.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace kvasir {

// Weight blocks and activations are used where they lie in the file, so a big-endian machine cannot
// run this code at all.
static_assert(std::endian::native == std::endian::little, "Kvasir needs a little-endian machine");

using ByteSpan = std::span<const std::byte>;

// The same memory seen as text and as bytes. (libc++ 13 cannot make a span from a string_view.)
inline ByteSpan bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view text_of(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Unaligned load of a trivially copyable little-endian value. The caller has checked the length.
template <typename T>
requires std::is_trivially_copyable_v<T>
inline T load_le(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
requires std::is_trivially_copyable_v<T>
inline void store_le(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// a * b and a + b, or nothing if the result does not fit 64 bits.
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// The smallest multiple of `alignment` (a power of two) that is >= value; nothing if it does not
// fit.
inline std::optional<uint64_t> checked_round_up(uint64_t value, uint64_t alignment) {
  auto sum = checked_add(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

}  // namespace kvasir
