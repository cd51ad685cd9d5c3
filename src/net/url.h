// The parts of a URL that Kvasir uses: scheme, host, port, path with query.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::net {

struct Url {
  std::string scheme;  // lower case: "ws", "wss", "http", "https"
  std::string host;    // without the brackets of an IPv6 address
  uint16_t port = 0;   // the scheme's own if the text names none
  std::string target;  // path and query, "/" if the text has none
};

// kInvalid for anything else, user names and fragments included.
Result<Url> parse_url(std::string_view text);
std::string url_text(const Url& url);

}  // namespace kvasir::net
