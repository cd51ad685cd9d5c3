// The settings of a verb and where each comes from: flag, else environment variable, else
// configuration file, else the default. Pure: files are parsed and the environment is read before.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_file.h"
#include "config/flag_table.h"

namespace kvasir::config {

struct Origin {
  enum class Kind : uint8_t { kDefault, kFile, kVariable, kFlag };
  Kind kind = Kind::kDefault;
  std::string text;  // "default", "kvasir.toml:3", "KVASIR_SERVE_CTX", "--ctx"
};
std::string_view origin_name(Origin::Kind kind);

struct Setting {
  const Flag* flag = nullptr;       // of the program's table
  std::vector<std::string> values;  // as the flag takes them; a switch: true or false
  Origin origin;
};

// What there is to choose from.
struct Sources {
  std::map<std::string, std::vector<std::string>> flags;       // given, by key
  std::vector<std::pair<std::string, std::string>> variables;  // names that begin so: KVASIR_
  std::vector<std::vector<FileValue>> files;                   // checked, the strongest first
};

// One setting per key, in the order of the verb's flags. A value is left out where a stronger one
// excludes it: `--prompt x` beside `file = "y"` is no contradiction.
// kInvalid for a variable that begins like the verb's and is none, and for a value of a variable
// that the flag does not take.
Result<std::vector<Setting>> settle(const Verb& verb, const Sources& sources,
                                    const ValueCheck& check);

// The words that say to the command line what files and variables say.
std::vector<std::string> words_of(const std::vector<Setting>& settings);

// Where configuration files are, the strongest first: $XDG_CONFIG_HOME/kvasir/kvasir.toml (or
// below ~/.config), then /etc/kvasir/kvasir.toml. Unset variables are empty.
std::vector<std::string> standard_files(const std::string& xdg_config_home,
                                        const std::string& home);

}  // namespace kvasir::config
