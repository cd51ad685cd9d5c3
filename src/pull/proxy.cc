#include "pull/proxy.h"

namespace kvasir::pull {
namespace {

std::string first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool goes_directly(const std::string& host, const std::string& list) {
  size_t at = 0;
  while (at < list.size()) {
    const size_t end = std::min(list.find_first_of(", ", at), list.size());
    std::string entry = lower(list.substr(at, end - at));
    at = end + 1;
    if (entry == "*") return true;
    if (!entry.empty() && entry.front() == '.') entry.erase(0, 1);
    if (entry.empty()) continue;
    if (host == entry || host == "[" + entry + "]") return true;
    if (host.size() > entry.size() && host.ends_with("." + entry)) return true;
  }
  return false;
}

}  // namespace

std::string proxy_for(const WebAddress& address, const Environment& environment) {
  if (goes_directly(address.host, first_set(environment, {"no_proxy", "NO_PROXY"}))) return "";
  std::string proxy = address.scheme == "https"
                          ? first_set(environment, {"https_proxy", "HTTPS_PROXY"})
                          : first_set(environment, {"http_proxy"});
  return proxy.empty() ? first_set(environment, {"all_proxy", "ALL_PROXY"}) : proxy;
}

}  // namespace kvasir::pull
