#include "cli/web.h"

#include <cstdlib>

#include "cli/output.h"
#include "cli/parsing.h"
#include "pull/hub.h"

namespace kvasir::cli {
namespace {

constexpr size_t kTokenFileBytesMax = 8192;
// Slower, and the connections would count as dead.
constexpr uint64_t kRateMin = 16 * 1024;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Web> open_web(const WebFlags& flags, const pull::ModelReference& reference,
                     std::function<bool()> stop) {
  Web web;
  const std::string variable_hub = variable("KVASIR_HUB");
  const std::string hub = flags.hub              ? *flags.hub
                          : variable_hub.empty() ? std::string(pull::kPublicHub)
                                                 : variable_hub;
  KVASIR_TRY(web.hub, pull::parse_web_address(hub));
  pull::WebRules rules;
  rules.allow_private = flags.allow_private;
  rules.stop = std::move(stop);
  if (flags.token_file) {
    KVASIR_TRY(const std::string text, read_input(*flags.token_file, kTokenFileBytesMax));
    auto token = pull::parse_token(text);
    if (!token) return std::move(token.error()).in(*flags.token_file);
    rules.token = *token;
    rules.token_origin = web.hub;
    if (reference.kind == pull::ModelReference::Kind::kUrl) {
      KVASIR_TRY(rules.token_origin, pull::parse_web_address(reference.url));
    }
  } else if (const std::string text = variable("KVASIR_HUB_TOKEN"); !text.empty()) {
    auto token = pull::parse_token(text);
    if (!token) return std::move(token.error()).in("KVASIR_HUB_TOKEN");
    rules.token = *token;
    rules.token_origin = web.hub;
  }
  pull::CurlOptions options;
  options.allow_private = flags.allow_private;
  web.transfer = pull::make_curl_transfer(options);
  web.client = std::make_unique<pull::WebClient>(*web.transfer, std::move(rules));
  return web;
}

Result<uint64_t> parse_rate(std::string_view text) {
  const auto wrong = [&] {
    return Error::invalid("'{}' is not a rate such as 2MB/s, of at least 16 KiB/s", text);
  };
  std::string_view rest = text;
  if (rest.ends_with("/s")) rest.remove_suffix(2);
  size_t digits = 0;
  while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
  auto number = parse_whole(rest.substr(0, digits), 1, uint64_t{1} << 40);
  if (!number) return wrong();
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {{"", 1},
                                                              {"B", 1},
                                                              {"KB", 1'000},
                                                              {"kB", 1'000},
                                                              {"MB", 1'000'000},
                                                              {"GB", 1'000'000'000},
                                                              {"K", uint64_t{1} << 10},
                                                              {"M", uint64_t{1} << 20},
                                                              {"G", uint64_t{1} << 30},
                                                              {"KiB", uint64_t{1} << 10},
                                                              {"MiB", uint64_t{1} << 20},
                                                              {"GiB", uint64_t{1} << 30}};
  for (const auto& [name, unit] : kUnits) {
    if (name != rest.substr(digits)) continue;
    const auto rate = checked_mul(*number, unit);
    // The pacer multiplies bytes of one piece by a million.
    if (!rate || *rate < kRateMin || *rate > uint64_t{1} << 50) return wrong();
    return *rate;
  }
  return wrong();
}

}  // namespace kvasir::cli
