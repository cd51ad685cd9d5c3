// A web address, read by the same parser that dials it: what is checked is what is connected to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::pull {

// Longer ones are refused; signed addresses of real stores stay below 2 KiB.
inline constexpr size_t kAddressBytesMax = 8192;

struct WebAddress {
  std::string text;    // the whole, normalised
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case; numeric IPv4 in its usual form; IPv6 in brackets
  uint16_t port = 0;
  std::string path;  // percent-encoded, begins with '/'
};

// kInvalid for other schemes, user names, white space and control characters. A fragment is
// dropped.
Result<WebAddress> parse_web_address(std::string_view text);
// `location` as a server at `base` means it: absolute or relative.
Result<WebAddress> resolve_web_address(const WebAddress& base, std::string_view location);

// Scheme, host and port: what a token is for.
bool same_origin(const WebAddress& a, const WebAddress& b);
std::string origin_text(const WebAddress& address);

// The name of a folder for what comes from there: "host", or "host~8080" (a colon means something
// to some file systems).
std::string origin_folder(const WebAddress& address);

// A path for an address: everything but unreserved characters and '/' as %XX.
std::string encoded_path(std::string_view path);
std::string encoded_part(std::string_view part);  // its slashes, too
// The last part of the path, decoded; empty if there is none. Not yet checked to be a file name.
std::string last_path_part(const WebAddress& address);

}  // namespace kvasir::pull
