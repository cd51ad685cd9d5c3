#include "api/keys.h"

#include <algorithm>
#include <charconv>

#include "base/sha256.h"

namespace kvasir::api {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr uint64_t kUnitsPerRequest = 60'000;
constexpr uint32_t kRateMax = 1'000'000;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

// Printable ASCII: what a header can carry.
bool is_key(std::string_view key) {
  return key.size() >= kKeyBytesMin && key.size() <= kKeyBytesMax &&
         std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

std::optional<Scope> scope_of(std::string_view word) {
  for (const Scope scope : {Scope::kInfer, Scope::kObserve, Scope::kAdmin})
    if (word == scope_name(scope)) return scope;
  return std::nullopt;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t colon = line.find(':');
    parts.push_back(line.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    line.remove_prefix(colon + 1);
  }
}

Result<ApiKey> parse_line(std::string_view line) {
  const std::vector<std::string_view> parts = split(line);
  if (parts.size() < 2 || parts.size() > 4)
    return Error::invalid("a line is name:key[:scope[:requests per minute]]");
  ApiKey key;
  if (!is_name(parts[0])) {
    return Error::invalid("a name is 1 to {} letters, digits, '_', '-' or '.'", kNameBytesMax);
  }
  key.name = parts[0];
  if (!is_key(parts[1])) {
    return Error::invalid("the key of '{}' has to be {} to {} printable characters without ':'",
                          key.name, kKeyBytesMin, kKeyBytesMax);
  }
  key.hash = sha256_hex(bytes_of(parts[1]));
  if (parts.size() > 2) {
    const auto scope = scope_of(parts[2]);
    if (!scope)
      return Error::invalid("the scope of '{}' has to be infer, observe or admin", key.name);
    key.scope = *scope;
  }
  if (parts.size() > 3) {
    uint32_t rate = 0;
    const char* end = parts[3].data() + parts[3].size();
    const auto [stopped, fault] = std::from_chars(parts[3].data(), end, rate);
    if (fault != std::errc() || stopped != end || rate == 0 || rate > kRateMax) {
      return Error::invalid("the rate of '{}' has to be 1 to {} requests per minute", key.name,
                            kRateMax);
    }
    key.requests_per_minute = rate;
  }
  return key;
}

// In a time that depends on nothing but the length.
bool equal_hashes(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return difference == 0;
}

}  // namespace

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::kInfer:
      return "infer";
    case Scope::kObserve:
      return "observe";
    case Scope::kAdmin:
      return "admin";
  }
  return "";
}

Result<std::vector<ApiKey>> parse_key_file(std::string_view text) {
  std::vector<ApiKey> keys;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::string place = fmt::format("line {}", number);
    auto key = parse_line(line);
    if (!key) return std::move(key.error()).in(place);
    for (const ApiKey& other : keys) {
      if (other.name == key->name || other.hash == key->hash) {
        return Error::invalid("'{}' has the name or the key of '{}'", key->name, other.name)
            .in(place);
      }
    }
    if (keys.size() == kKeysMax) return Error::limit("more than {} keys", kKeysMax).in(place);
    keys.push_back(std::move(*key));
  }
  return keys;
}

Result<ApiKey> parse_key(std::string_view key) {
  if (!is_key(key)) {
    return Error::invalid("the key has to be {} to {} printable characters", kKeyBytesMin,
                          kKeyBytesMax);
  }
  return ApiKey{"environment", sha256_hex(bytes_of(key)), Scope::kAdmin, std::nullopt};
}

std::string_view presented_key(std::string_view authorization, std::string_view x_api_key) {
  constexpr std::string_view kBearer = "bearer ";
  const bool bearer =
      authorization.size() > kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                 [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  if (!bearer) return x_api_key;
  authorization.remove_prefix(kBearer.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

std::optional<size_t> KeyRing::find(std::string_view presented) const {
  if (presented.size() > kKeyBytesMax) return std::nullopt;
  const std::string hash = sha256_hex(bytes_of(presented));
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (equal_hashes(keys_[i].hash, hash)) found = i;
  return found;
}

KeyRates::KeyRates(const KeyRing& keys) {
  for (size_t i = 0; i < keys.size(); ++i) {
    Bucket& bucket = buckets_.emplace_back();
    bucket.per_minute = keys[i].requests_per_minute.value_or(0);
  }
}

Outcome<void> KeyRates::admit(size_t key, uint64_t now_ms) {
  KVASIR_CHECK(key < buckets_.size());
  Bucket& bucket = buckets_[key];
  if (bucket.per_minute == 0) return {};
  const uint64_t full = bucket.per_minute * kUnitsPerRequest;
  // Longer than a minute it is full anyway; a clock that stands still adds nothing.
  const uint64_t passed_ms =
      now_ms > bucket.at_ms ? std::min(now_ms - bucket.at_ms, kUnitsPerRequest) : 0;
  bucket.level = bucket.used ? std::min(full, bucket.level + passed_ms * bucket.per_minute) : full;
  bucket.used = true;
  bucket.at_ms = std::max(bucket.at_ms, now_ms);
  if (bucket.level >= kUnitsPerRequest) {
    bucket.level -= kUnitsPerRequest;
    return {};
  }
  const uint64_t units_per_second = bucket.per_minute * 1'000;
  const uint64_t wait_s =
      (kUnitsPerRequest - bucket.level + units_per_second - 1) / units_per_second;
  return ApiError::of(Code::kKeyRateLimit, "", "this key may ask {} times a minute",
                      bucket.per_minute)
      .retry_after(static_cast<uint32_t>(std::max<uint64_t>(wait_s, 1)));
}

}  // namespace kvasir::api
