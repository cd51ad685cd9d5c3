// What `kvasir config show` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace kvasir::config {

struct VerbSettings {
  const Verb* verb = nullptr;
  std::vector<Setting> settings;
};

enum class ShowOrigin : uint8_t { kNo, kYes };

// A configuration file that says the same: defaults stand in comments.
std::string settings_as_toml(const std::vector<VerbSettings>& all, ShowOrigin origin);
// {"serve": {"ctx": {"value": 512, "origin": "file", "from": "kvasir.toml:3", "default": "...",
// "variable": "KVASIR_SERVE_CTX"}}}; the value is null where the default holds.
std::string settings_as_json(const std::vector<VerbSettings>& all);

}  // namespace kvasir::config
