#include "pull/web_address.h"

#include <curl/curl.h>

#include <memory>

#include "gguf/text_check.h"

namespace kvasir::pull {
namespace {

struct CurlText {
  char* text = nullptr;
  ~CurlText() { ::curl_free(text); }
};
using UrlHandle = std::unique_ptr<CURLU, void (*)(CURLU*)>;

std::string part_of(CURLU* url, CURLUPart part, unsigned int flags = 0) {
  CurlText text;
  if (::curl_url_get(url, part, &text.text, flags) != CURLUE_OK) return "";
  return text.text;
}

Error not_an_address(std::string_view text, std::string_view why) {
  return Error::invalid("'{}' is not a web address: {}", gguf::printable(text), why);
}

Result<WebAddress> parse(const std::string& base, std::string_view text) {
  if (text.size() > kAddressBytesMax) return not_an_address(text, "it is too long");
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f || c == '\\')
      return not_an_address(text, "it holds characters that no address has");
  }
  const UrlHandle url(::curl_url(), ::curl_url_cleanup);
  KVASIR_CHECK(url != nullptr);
  if (!base.empty()) KVASIR_CHECK(::curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == 0);
  const CURLUcode code =
      ::curl_url_set(url.get(), CURLUPART_URL, std::string(text).c_str(), CURLU_DISALLOW_USER);
  if (code != CURLUE_OK) return not_an_address(text, ::curl_url_strerror(code));
  ::curl_url_set(url.get(), CURLUPART_FRAGMENT, nullptr, 0);

  WebAddress address;
  address.scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (address.scheme != "http" && address.scheme != "https")
    return not_an_address(text, "it begins with neither https:// nor http://");
  address.host = part_of(url.get(), CURLUPART_HOST);
  for (char& c : address.host)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (address.host.empty() || address.host.find('%') != std::string::npos)
    return not_an_address(text, "its host is no name");
  ::curl_url_set(url.get(), CURLUPART_HOST, address.host.c_str(), 0);
  uint32_t port = 0;
  for (char digit : part_of(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT))
    port = port * 10 + static_cast<uint32_t>(digit - '0');
  if (port == 0 || port > 65'535) return not_an_address(text, "its port is none");
  address.port = static_cast<uint16_t>(port);
  address.path = part_of(url.get(), CURLUPART_PATH);
  address.text = part_of(url.get(), CURLUPART_URL);
  return address;
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string encoded(std::string_view plain, std::string_view kept) {
  std::string text;
  for (char c : plain) {
    if (is_unreserved(c) || kept.find(c) != std::string_view::npos)
      text += c;
    else
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<WebAddress> parse_web_address(std::string_view text) {
  // The parser would guess a scheme.
  if (text.find("://") == std::string_view::npos)
    return not_an_address(text, "it begins with neither https:// nor http://");
  return parse("", text);
}

Result<WebAddress> resolve_web_address(const WebAddress& base, std::string_view location) {
  if (location.empty()) return not_an_address(location, "it is empty");
  return parse(base.text, location);
}

bool same_origin(const WebAddress& a, const WebAddress& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

std::string origin_text(const WebAddress& address) {
  const bool usual = address.port == (address.scheme == "https" ? 443 : 80);
  return address.scheme + "://" + address.host +
         (usual ? std::string() : fmt::format(":{}", address.port));
}

std::string origin_folder(const WebAddress& address) {
  std::string name;
  for (char c : origin_text(address).substr(address.scheme.size() + 3))
    name += c == ':' ? '~' : c == '[' || c == ']' ? '_' : c;
  return name;
}

std::string encoded_path(std::string_view path) {
  return encoded(path, "/");
}

std::string encoded_part(std::string_view part) {
  return encoded(part, "");
}

std::string last_path_part(const WebAddress& address) {
  const std::string part = address.path.substr(address.path.rfind('/') + 1);
  std::string decoded;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%' && i + 2 < part.size() && hex_value(part[i + 1]) >= 0 &&
        hex_value(part[i + 2]) >= 0) {
      decoded += static_cast<char>(hex_value(part[i + 1]) * 16 + hex_value(part[i + 2]));
      i += 2;
    } else {
      decoded += part[i];
    }
  }
  return decoded;
}

}  // namespace kvasir::pull
