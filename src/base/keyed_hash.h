// A hash for tables whose keys a stranger chose: with an unknown key nobody can make them collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvasir {

struct HashKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

// SipHash-2-4.
uint64_t sip_hash(HashKey key, std::string_view text);

// With a key that is random in every process: for tables in memory alone, never for a file or for
// anything that decides a result.
uint64_t keyed_hash(std::string_view text);

// For std::unordered_map and its like.
struct KeyedHash {
  size_t operator()(std::string_view text) const { return static_cast<size_t>(keyed_hash(text)); }
};

}  // namespace kvasir
