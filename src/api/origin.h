// Which web pages may use the API, by Origin and Host. Pure decisions over header values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"

namespace kvasir::api {

// Immutable; thread-safe.
class CorsPolicy {
 public:
  // Pages of this server alone.
  CorsPolicy() = default;
  // origins: "https://a.example" or "http://localhost:5173", exactly as browsers send them; "*" for
  // every page, which is refused where keys are set. kInvalid says what is wrong.
  static Result<CorsPolicy> make(const std::vector<std::string>& origins, bool keys_set);

  // origin, host: header values, empty if absent. Headers to add to whatever is answered;
  // kOriginNotAllowed if a page of a strange origin asks.
  Outcome<std::vector<Header>> check(std::string_view origin, std::string_view host) const;
  // The whole answer to OPTIONS with Access-Control-Request-Method, before any key is looked at.
  Outcome<std::vector<Header>> preflight(std::string_view origin, std::string_view host) const;

 private:
  bool any_ = false;
  std::vector<std::string> origins_;
};

// "127.0.0.1", "::1", "[::1]", "localhost" and the rest of 127/8.
bool is_loopback_name(std::string_view host);

// A server bound to loopback answers only to loopback names: otherwise a page could point its own
// name at 127.0.0.1 and read (DNS rebinding). kHostNotAllowed.
enum class Bound : uint8_t { kLoopback, kNetwork };
Outcome<void> check_host(Bound bound, std::string_view host);

// Without keys only this machine may ask, unless that is wanted. kInvalid with a hint.
enum class NoAuth : uint8_t { kNotSaid, kSaid };  // --no-auth
Result<void> check_listen(std::string_view address, bool keys_set, NoAuth no_auth);

}  // namespace kvasir::api
