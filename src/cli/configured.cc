#include "cli/configured.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/output.h"
#include "cli/read_tables.h"

namespace kvasir::cli {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

std::vector<std::pair<std::string, std::string>> our_variables() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.starts_with("KVASIR_") && equals != std::string_view::npos)
      variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

// What the flags' own parsers say, each value on its own.
class ValueChecker {
 public:
  explicit ValueChecker(const MakeTree& make_tree) : tree_(make_tree()) {}

  Result<void> check(const std::string& verb, const std::string& key,
                     const std::vector<std::string>& values) {
    CLI::Option* option = tree_->get_subcommand(verb)->get_option("--" + key);
    option->clear();
    try {
      for (const std::string& value : values) option->add_result(value);
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      // The library puts the flag's name in front.
      std::string_view text = error.what();
      const size_t colon = text.find(": ");
      if (colon != std::string_view::npos && text.starts_with('-')) text.remove_prefix(colon + 2);
      return Error::invalid("{}", text);
    }
    return {};
  }

 private:
  std::shared_ptr<CLI::App> tree_;
};

// The flags among `words`. An empty list of words is none.
using Given = std::map<std::string, std::vector<std::string>>;

Result<Given> parse_words(const std::string& verb, const std::vector<std::string>& words,
                          const MakeTree& make_tree) {
  const std::shared_ptr<CLI::App> tree = make_tree();
  CLI::App* sub = tree->get_subcommand(verb);
  // What is missing here may be in a file.
  for (CLI::Option* option : sub->get_options()) option->required(false);
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as the library wants them
  reversed.push_back(verb);
  try {
    tree->parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return Error::invalid("{}", error.what());
  }
  Given given;
  for (const CLI::Option* option : sub->get_options())
    if (option->count() > 0 && !option->get_lnames().empty())
      given[option->get_lnames().front()] = option->results();
  return given;
}

Result<std::vector<config::FileValue>> read_config(const config::Program& program,
                                                   const std::string& path,
                                                   const config::ValueCheck& check) {
  KVASIR_TRY(const std::string text, read_input(path, config::kConfigBytesMax));
  KVASIR_TRY(std::vector<config::FileValue> values, config::parse_config(text, path));
  KVASIR_TRY_VOID(config::check_config(program, values, check));
  return values;
}

Result<std::vector<std::vector<config::FileValue>>> read_configs(const config::Program& program,
                                                                 const std::string& file,
                                                                 const config::ValueCheck& check) {
  std::vector<std::string> paths = {file};
  if (file.empty()) {
    paths = config::standard_files(variable("XDG_CONFIG_HOME"), variable("HOME"));
    std::erase_if(paths, [](const std::string& path) {
      return ::access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
    });
  }
  std::vector<std::vector<config::FileValue>> files;
  for (const std::string& path : paths) {
    KVASIR_TRY(std::vector<config::FileValue> values, read_config(program, path, check));
    files.push_back(std::move(values));
  }
  return files;
}

Result<std::vector<config::Setting>> settings_of_given(const config::Program& program,
                                                       const config::Verb& verb, Given given,
                                                       const std::string& file,
                                                       const MakeTree& make_tree) {
  ValueChecker checker(make_tree);
  const config::ValueCheck check = [&checker](const config::Verb& checked, const config::Flag& flag,
                                              const std::vector<std::string>& values) {
    return checker.check(checked.name, flag.key, values);
  };
  std::string path = file.empty() ? variable("KVASIR_CONFIG") : file;
  if (const auto named = given.find(kConfigKey); named != given.end()) path = named->second.front();
  config::Sources sources;
  sources.flags = std::move(given);
  sources.variables = our_variables();
  KVASIR_TRY(sources.files, read_configs(program, path, check));
  return config::settle(verb, sources, check);
}

}  // namespace

Result<std::vector<config::Setting>> settings_of(const config::Program& program,
                                                 const config::Verb& verb,
                                                 const std::vector<std::string>& words,
                                                 const std::string& file,
                                                 const MakeTree& make_tree) {
  KVASIR_TRY(Given given, parse_words(verb.name, words, make_tree));
  return settings_of_given(program, verb, std::move(given), file, make_tree);
}

Result<std::vector<std::string>> configured_words(const config::Program& program,
                                                  std::vector<std::string> words,
                                                  const MakeTree& make_tree) {
  const config::Verb* verb = words.empty() ? nullptr : config::find_verb(program, words.front());
  if (verb == nullptr || !verb->has_settings) return words;
  Result<Given> given =
      parse_words(verb->name, std::vector<std::string>(words.begin() + 1, words.end()), make_tree);
  if (!given) return words;
  KVASIR_TRY(const std::vector<config::Setting> settings,
             settings_of_given(program, *verb, std::move(*given), "", make_tree));
  const std::vector<std::string> added = config::words_of(settings);
  words.insert(words.begin() + 1, added.begin(), added.end());
  return words;
}

}  // namespace kvasir::cli
