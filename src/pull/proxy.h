// Which proxy a connection takes, by the variables that other programs read, too. Pure.
//
// Decided here rather than by the library, because the address that is connected to is checked, and
// a proxy's own address may well be private.
#pragma once

#include <functional>
#include <string>

#include "pull/web_address.h"

namespace kvasir::pull {

// A variable's value; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// https_proxy, HTTPS_PROXY, http_proxy (lower case only: the other one is a header in CGI), then
// all_proxy and ALL_PROXY; empty for none, and for hosts that no_proxy or NO_PROXY names ("*", a
// host, or a domain with everything below it).
std::string proxy_for(const WebAddress& address, const Environment& environment);

}  // namespace kvasir::pull
