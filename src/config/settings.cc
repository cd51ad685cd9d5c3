#include "config/settings.h"

#include <algorithm>
#include <optional>

namespace kvasir::config {
namespace {

// By key. What is not there has its default.
using Chosen = std::map<std::string, Setting>;

bool is_off(const Setting& setting) {
  return shape_of(*setting.flag) == Shape::kSwitch &&
         setting.values == std::vector<std::string>{"false"};
}

bool excluded(const Flag& flag, const Chosen& stronger) {
  return std::any_of(flag.excludes.begin(), flag.excludes.end(), [&](const std::string& key) {
    const auto other = stronger.find(key);
    return other != stronger.end() && !is_off(other->second);
  });
}

// All of one source at once: only what is stronger excludes, so that a contradiction within one
// source is still seen by the command line.
void add_source(Chosen& chosen, std::vector<Setting> source) {
  const Chosen stronger = chosen;
  for (Setting& setting : source)
    if (stronger.count(setting.flag->key) == 0 && !excluded(*setting.flag, stronger))
      chosen.emplace(setting.flag->key, std::move(setting));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

Result<std::vector<std::string>> variable_values(const Flag& flag, const std::string& text) {
  if (flag.repeatable) return lines_of(text);
  if (shape_of(flag) != Shape::kSwitch) return std::vector<std::string>{text};
  if (text == "true" || text == "1") return std::vector<std::string>{"true"};
  if (text == "false" || text == "0") return std::vector<std::string>{"false"};
  if (!flag.bare.empty()) return std::vector<std::string>{text};
  return Error::invalid("'{}' is none of true, false, 1, 0", text);
}

Error unknown_variable(const Verb& verb, const std::string& name) {
  std::vector<std::string> known;
  for (const Flag& flag : verb.flags)
    if (flag.is_setting && !flag.key.empty()) known.push_back(variable_name(verb, flag));
  const std::string words = name.substr(variable_prefix(verb).size());
  std::vector<std::string> known_words;
  for (const std::string& variable : known)
    known_words.push_back(variable.substr(variable_prefix(verb).size()));
  const std::optional<std::string> near = nearest(words, known_words);
  return Error::invalid("the environment variable {} is no setting of {}{}", name, verb.name,
                        near ? "; the nearest is " + variable_prefix(verb) + *near : "")
      .with_hint(fmt::format("kvasir config show {} --json lists all variables", verb.name));
}

Result<Setting> from_variable(const Verb& verb, const Flag& flag, const std::string& name,
                              const std::string& text, const ValueCheck& check) {
  auto values = variable_values(flag, text);
  if (!values) return std::move(values.error()).in(name);
  Setting setting{&flag, std::move(*values), {Origin::Kind::kVariable, name}};
  if (setting.values.empty() || is_off(setting)) return setting;
  if (Result<void> checked = check(verb, flag, setting.values); !checked)
    return std::move(checked.error()).in(name);
  return setting;
}

Result<std::vector<Setting>> from_variables(const Verb& verb, const Sources& sources,
                                            const ValueCheck& check) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, text] : sources.variables)
    if (!text.empty()) variables.emplace(name, text);  // empty is as good as unset
  std::vector<Setting> settings;
  for (const Flag& flag : verb.flags) {
    if (!flag.is_setting || flag.key.empty()) continue;
    for (const std::string& name : {variable_name(verb, flag), shared_variable(flag)}) {
      const auto found = variables.find(name);
      if (found == variables.end()) continue;
      KVASIR_TRY(Setting setting, from_variable(verb, flag, name, found->second, check));
      settings.push_back(std::move(setting));
      variables.erase(found);
      break;
    }
    variables.erase(variable_name(verb, flag));
  }
  for (const auto& [name, text] : variables)
    if (name.starts_with(variable_prefix(verb))) return unknown_variable(verb, name);
  return settings;
}

std::vector<Setting> from_flags(const Verb& verb, const Sources& sources) {
  std::vector<Setting> settings;
  for (const auto& [key, values] : sources.flags)
    if (const Flag* flag = find_setting(verb, key))
      settings.push_back({flag, values, {Origin::Kind::kFlag, "--" + key}});
  return settings;
}

std::vector<Setting> from_file(const Verb& verb, const std::vector<FileValue>& file) {
  std::vector<Setting> settings;
  for (const FileValue& value : file) {
    const Flag* flag = value.verb == verb.name ? find_setting(verb, value.key) : nullptr;
    if (flag == nullptr) continue;
    settings.push_back(
        {flag,
         value_texts(*flag, value),
         {Origin::Kind::kFile, fmt::format("{}:{}", value.place.file, value.place.line)}});
  }
  return settings;
}

}  // namespace

std::string_view origin_name(Origin::Kind kind) {
  switch (kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kFile:
      return "file";
    case Origin::Kind::kVariable:
      return "variable";
    case Origin::Kind::kFlag:
      return "flag";
  }
  return "";
}

Result<std::vector<Setting>> settle(const Verb& verb, const Sources& sources,
                                    const ValueCheck& check) {
  Chosen chosen;
  add_source(chosen, from_flags(verb, sources));
  KVASIR_TRY(std::vector<Setting> variables, from_variables(verb, sources, check));
  add_source(chosen, std::move(variables));
  for (const std::vector<FileValue>& file : sources.files)
    add_source(chosen, from_file(verb, file));

  std::vector<Setting> settings;
  for (const Flag& flag : verb.flags) {
    if (!flag.is_setting || flag.key.empty()) continue;
    const auto found = chosen.find(flag.key);
    if (found != chosen.end())
      settings.push_back(found->second);
    else
      settings.push_back({&flag, {}, {Origin::Kind::kDefault, "default"}});
  }
  return settings;
}

std::vector<std::string> words_of(const std::vector<Setting>& settings) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    if (setting.origin.kind != Origin::Kind::kFile &&
        setting.origin.kind != Origin::Kind::kVariable)
      continue;
    const std::string name = "--" + setting.flag->key;
    if (shape_of(*setting.flag) == Shape::kSwitch) {
      if (is_off(setting)) continue;
      const std::string& value = setting.values.front();
      words.push_back(value == "true" ? name : name + "=" + value);
      continue;
    }
    // Two words: the library takes --name= for a name without a value.
    for (const std::string& value : setting.values) {
      words.push_back(name);
      words.push_back(value);
    }
  }
  return words;
}

std::vector<std::string> standard_files(const std::string& xdg_config_home,
                                        const std::string& home) {
  std::vector<std::string> files;
  // The XDG specification: a relative path is to be ignored.
  if (xdg_config_home.starts_with('/'))
    files.push_back(xdg_config_home + "/kvasir/kvasir.toml");
  else if (home.starts_with('/'))
    files.push_back(home + "/.config/kvasir/kvasir.toml");
  files.emplace_back("/etc/kvasir/kvasir.toml");
  return files;
}

}  // namespace kvasir::config
