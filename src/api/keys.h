// API keys: the key file, who a presented key belongs to, and how often it may ask. Keys are kept
// as SHA-256 only. No clock: callers pass the time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"

namespace kvasir::api {

enum class Scope : uint8_t { kInfer, kObserve, kAdmin };  // kAdmin may do what the others may
std::string_view scope_name(Scope scope);

struct ApiKey {
  std::string name;  // what logs say; never the key
  std::string hash;  // SHA-256 of the key, 64 hex digits
  Scope scope = Scope::kInfer;
  std::optional<uint32_t> requests_per_minute;
};

// A key that is shorter could be guessed.
inline constexpr size_t kKeyBytesMin = 16;
inline constexpr size_t kKeyBytesMax = 256;
inline constexpr size_t kKeysMax = 1024;

// One key a line, `name:key[:scope[:requests per minute]]`; empty lines and those that begin with
// '#' are skipped. kInvalid with the line's number; a text never holds a key.
Result<std::vector<ApiKey>> parse_key_file(std::string_view text);
// A key of its own, from the environment: scope kAdmin, named "environment".
Result<ApiKey> parse_key(std::string_view key);

// Of the headers Authorization ("Bearer ...") and x-api-key; the first wins. Empty if neither holds
// one.
std::string_view presented_key(std::string_view authorization, std::string_view x_api_key);

// Immutable; thread-safe.
class KeyRing {
 public:
  explicit KeyRing(std::vector<ApiKey> keys) : keys_(std::move(keys)) {}
  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  const ApiKey& operator[](size_t index) const { return keys_[index]; }
  // Index of the key. Takes as long whether and where one is found.
  std::optional<size_t> find(std::string_view presented) const;

 private:
  std::vector<ApiKey> keys_;
};

// A bucket for each key that has a rate: full it lets a minute's requests through at once, and it
// refills steadily. One thread, or guarded by its owner.
class KeyRates {
 public:
  explicit KeyRates(const KeyRing& keys);
  // kKeyRateLimit with Retry-After. now_ms: of a steady clock.
  Outcome<void> admit(size_t key, uint64_t now_ms);

 private:
  struct Bucket {
    uint64_t per_minute = 0;  // 0: no limit
    uint64_t level = 0;       // in units of 1/60,000 request, so that a millisecond adds per_minute
    uint64_t at_ms = 0;
    bool used = false;
  };
  std::vector<Bucket> buckets_;
};

}  // namespace kvasir::api
