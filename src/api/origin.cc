#include "api/origin.h"

#include <algorithm>

namespace kvasir::api {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// scheme "://" host [":" port], nothing behind, no capitals: the form browsers send.
bool is_origin(std::string_view origin) {
  if (origin.starts_with("http://")) {
    origin.remove_prefix(7);
  } else if (origin.starts_with("https://")) {
    origin.remove_prefix(8);
  } else {
    return false;
  }
  if (origin.empty() || origin.size() > 256) return false;
  return std::all_of(origin.begin(), origin.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':' ||
           c == '[' || c == ']' || c == '_';
  });
}

// "name:80" and "[::1]:80" without the port; empty if it is none of these.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
    return host.substr(0, end + 1);
  }
  const size_t colon = host.find(':');
  if (colon == std::string_view::npos) return host;
  return is_port(host.substr(colon + 1)) ? host.substr(0, colon) : std::string_view();
}

// 127.x.y.z in decimals, as people write it.
bool is_loopback_ipv4(std::string_view text) {
  if (!text.starts_with("127.")) return false;
  int dots = 0;
  size_t digits = 0;
  for (const char c : text) {
    if (c == '.') {
      if (digits == 0) return false;
      ++dots;
      digits = 0;
    } else if (c < '0' || c > '9' || ++digits > 3) {
      return false;
    }
  }
  return dots == 3 && digits > 0;
}

}  // namespace

Result<CorsPolicy> CorsPolicy::make(const std::vector<std::string>& origins, bool keys_set) {
  CorsPolicy policy;
  for (const std::string& origin : origins) {
    if (origin == "*") {
      if (keys_set) {
        return Error::invalid("--cors-origin '*' together with API keys")
            .with_hint("name the origins: --cors-origin https://a.example");
      }
      policy.any_ = true;
    } else if (is_origin(origin)) {
      policy.origins_.push_back(origin);
    } else {
      return Error::invalid("--cors-origin '{}' is not an origin", origin)
          .with_hint("scheme and host, lower case, without a path: https://a.example");
    }
  }
  return policy;
}

Outcome<std::vector<Header>> CorsPolicy::check(std::string_view origin,
                                               std::string_view host) const {
  // Caches have to keep answers for different pages apart.
  std::vector<Header> headers = {{"Vary", "Origin"}};
  if (origin.empty()) return headers;
  const bool own = !host.empty() && (origin == fmt::format("http://{}", host) ||
                                     origin == fmt::format("https://{}", host));
  if (own) return headers;
  if (any_) {
    headers.push_back({"Access-Control-Allow-Origin", "*"});
  } else if (std::find(origins_.begin(), origins_.end(), origin) != origins_.end()) {
    headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  } else {
    return ApiError::of(Code::kOriginNotAllowed, "",
                        "pages of '{:.128}' may not use this server; it allows them with "
                        "--cors-origin {:.128}",
                        origin, origin);
  }
  headers.push_back({"Access-Control-Expose-Headers", "x-request-id, retry-after"});
  return headers;
}

Outcome<std::vector<Header>> CorsPolicy::preflight(std::string_view origin,
                                                   std::string_view host) const {
  KVASIR_TRY(std::vector<Header> headers, check(origin, host));
  headers.push_back({"Access-Control-Allow-Methods", "GET, POST, OPTIONS"});
  headers.push_back(
      {"Access-Control-Allow-Headers",
       "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, "
       "anthropic-dangerous-direct-browser-access, x-request-id, openai-organization, "
       "openai-project, x-stainless-arch, x-stainless-lang, x-stainless-os, "
       "x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, "
       "x-stainless-runtime-version, x-stainless-timeout, "
       "x-stainless-helper-method"});
  headers.push_back({"Access-Control-Max-Age", "600"});
  return headers;
}

bool is_loopback_name(std::string_view host) {
  return equal_ignoring_case(host, "localhost") || host == "::1" || host == "[::1]" ||
         is_loopback_ipv4(host);
}

Outcome<void> check_host(Bound bound, std::string_view host) {
  if (bound == Bound::kNetwork || is_loopback_name(without_port(host))) return {};
  return ApiError::of(Code::kHostNotAllowed, "host",
                      "this server listens on loopback and answers to 'localhost', not to "
                      "'{:.128}'; --listen gives it another address",
                      host);
}

Result<void> check_listen(std::string_view address, bool keys_set, NoAuth no_auth) {
  if (keys_set || no_auth == NoAuth::kSaid || is_loopback_name(address)) return {};
  return Error::invalid("--listen {} opens the API to other machines, and no API key is set",
                        address)
      .with_hint("give keys with --api-key-file, or say --no-auth");
}

}  // namespace kvasir::api
