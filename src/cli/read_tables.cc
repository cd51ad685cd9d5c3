#include "cli/read_tables.h"

#include <algorithm>

namespace kvasir::cli {
namespace {

std::string key_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

config::Flag flag_of(const CLI::Option& option) {
  config::Flag flag;
  flag.key = key_of(option);
  flag.short_names = option.get_snames();
  flag.positional = option.get_positional() ? option.get_name(true) : "";
  flag.description = option.get_description();
  flag.required = option.get_required();
  for (const CLI::Option* other : option.get_excludes())
    if (!key_of(*other).empty()) flag.excludes.push_back(key_of(*other));
  std::sort(flag.excludes.begin(), flag.excludes.end());  // the library orders them by address
  if (option.get_items_expected_max() == 0) {
    const std::string bare = option.get_flag_value(flag.key, "");
    if (bare != "true") flag.bare = bare;
  } else {
    flag.type = option.get_type_name();
    flag.repeatable = option.get_items_expected_max() > 1;
  }
  return flag;
}

std::vector<config::Flag> flags_of(CLI::App& app) {
  std::vector<config::Flag> flags;
  for (const CLI::Option* option : std::as_const(app).get_options()) {
    config::Flag flag = flag_of(*option);
    flag.is_setting = option != app.get_help_ptr() && flag.key != kConfigKey;
    flags.push_back(std::move(flag));
  }
  return flags;
}

// "Example:", indented lines, and what follows them.
void read_footer(const std::string& footer, config::Verb& verb) {
  constexpr std::string_view kHead = "Example:\n";
  std::string_view rest = footer;
  if (!rest.starts_with(kHead)) {
    verb.notes = footer;
    return;
  }
  rest.remove_prefix(kHead.size());
  while (rest.starts_with("  ")) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    verb.example += std::string(rest.substr(2, end - 2)) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  while (rest.starts_with('\n')) rest.remove_prefix(1);
  verb.notes = rest;
}

}  // namespace

config::Program read_tables(CLI::App& app, const std::string& version,
                            const std::vector<std::string>& verbs_without_settings) {
  config::Program program{app.get_name(),   app.get_description(), version,
                          app.get_footer(), flags_of(app),         {}};
  for (CLI::App* sub : app.get_subcommands(nullptr)) {
    config::Verb verb;
    verb.name = sub->get_name();
    verb.description = sub->get_description();
    verb.flags = flags_of(*sub);
    verb.has_settings = std::find(verbs_without_settings.begin(), verbs_without_settings.end(),
                                  verb.name) == verbs_without_settings.end();
    read_footer(sub->get_footer(), verb);
    program.verbs.push_back(std::move(verb));
  }
  return program;
}

}  // namespace kvasir::cli
