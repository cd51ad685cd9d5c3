// The command-line library's option tree -> plain tables: what settings, completions and man pages
// are made from.
#pragma once

#include <CLI/CLI.hpp>

#include "config/flag_table.h"

namespace kvasir::cli {

// The flag of every verb that names a configuration file. It is no setting itself.
inline constexpr const char* kConfigKey = "config";

// Every verb, every flag: nobody has to list a new one. `app` is only read, but the library's
// functions for that are not const.
config::Program read_tables(CLI::App& app, const std::string& version,
                            const std::vector<std::string>& verbs_without_settings);

}  // namespace kvasir::cli
