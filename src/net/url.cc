#include "net/url.h"

#include <algorithm>

namespace kvasir::net {
namespace {

bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || is_one_of(c, "-._~");
}
// IPv6 with its zone ("fe80::1%eth0").
bool is_address_char(char c) {
  return is_host_char(c) || is_one_of(c, ":%");
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

uint16_t default_port(std::string_view scheme) {
  return scheme == "wss" || scheme == "https" ? 443 : 80;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error::invalid("'{}' is no URL that can be used here: {}", text.substr(0, 200), why);
  };
  // Nothing that could end a line of HTTP.
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; }))
    return bad("blanks, control characters and letters beyond ASCII must be percent-encoded");
  if (text.find('#') != std::string_view::npos) return bad("it has a fragment");

  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos)
    return bad("no scheme").with_hint("write it as in ws://host:port/path");
  Url url;
  url.scheme = text.substr(0, scheme_end);
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(), lower);
  if (url.scheme != "ws" && url.scheme != "wss" && url.scheme != "http" && url.scheme != "https")
    return bad("the scheme is none of ws, wss, http, https");
  text.remove_prefix(scheme_end + 3);

  const size_t authority_end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, authority_end);
  url.target = text.substr(authority_end);
  if (url.target.empty() || url.target.front() == '?') url.target.insert(0, 1, '/');
  if (authority.find('@') != std::string_view::npos) return bad("it has a user name");

  if (!authority.empty() && authority.front() == '[') {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad("a bracket is not closed");
    url.host = authority.substr(1, close - 1);
    if (url.host.find(':') == std::string::npos ||
        !std::all_of(url.host.begin(), url.host.end(), is_address_char))
      return bad("what is in brackets is no IPv6 address");
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority.front() != ':') return bad("text behind the bracket");
  } else {
    const size_t host_end = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, host_end);
    if (url.host.empty() || !std::all_of(url.host.begin(), url.host.end(), is_host_char))
      return bad("the host is empty or has a character that no host has");
    authority.remove_prefix(host_end);
  }

  url.port = default_port(url.scheme);
  if (!authority.empty()) {
    authority.remove_prefix(1);
    uint32_t port = 0;
    if (authority.empty() || authority.size() > 5 ||
        !std::all_of(authority.begin(), authority.end(), is_digit))
      return bad("the port is no number");
    for (char c : authority) port = port * 10 + static_cast<uint32_t>(c - '0');
    if (port == 0 || port > 65535) return bad("the port is not in 1..65535");
    url.port = static_cast<uint16_t>(port);
  }
  return url;
}

std::string url_text(const Url& url) {
  const std::string host =
      url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  const std::string port =
      url.port == default_port(url.scheme) ? std::string() : ":" + std::to_string(url.port);
  return url.scheme + "://" + host + port + url.target;
}

}  // namespace kvasir::net
