// Access to hubs and servers, as flags and variables say. Shared by pull and show.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "pull/pull.h"

namespace kvasir::cli {

struct Web {
  std::unique_ptr<pull::Transfer> transfer;
  std::unique_ptr<pull::WebClient> client;
  pull::WebAddress hub;
};

// The token of --token-file goes to where `reference` lies, the one of KVASIR_HUB_TOKEN to the hub
// alone. `stop` ends what waits.
Result<Web> open_web(const WebFlags& flags, const pull::ModelReference& reference,
                     std::function<bool()> stop);

// "2MB/s", "500KB/s" (powers of 1000), "2MiB/s", "2M" (powers of 1024), at least 16 KiB.
Result<uint64_t> parse_rate(std::string_view text);

}  // namespace kvasir::cli
