#include <fmt/format.h>

#include "config/completion.h"

namespace kvasir::config {
namespace {

// Inside single quotes of the shell and the brackets and colons of _arguments.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      result += fmt::format("\\{}", c);
    else
      result += c;
  }
  return result;
}

std::string action(const Flag& flag) {
  switch (candidates_of(flag)) {
    case Candidates::kFiles:
      return "_files";
    case Candidates::kVerbs:
      return "_kvasir_verbs";
    case Candidates::kChoices:
      return fmt::format("({})", fmt::join(choices_of(flag), " "));
    case Candidates::kNone:
      return " ";  // a message alone
  }
  return "";
}

std::vector<std::string> names_of(const Flag& flag) {
  std::vector<std::string> names;
  if (!flag.key.empty()) names.push_back("--" + flag.key);
  for (const std::string& name : flag.short_names) names.push_back("-" + name);
  return names;
}

// One specification per name; a flag that was given, and what it excludes, is not offered again.
std::string flag_lines(const Flag& flag) {
  std::string text;
  std::vector<std::string> excluded;
  if (!flag.repeatable) excluded = names_of(flag);
  for (const std::string& key : flag.excludes) excluded.push_back("--" + key);
  const bool takes_value = !flag.type.empty() && flag.bare.empty();
  for (const std::string& name : names_of(flag)) {
    text += fmt::format(" \\\n        '({}){}{}{}[{}]", fmt::join(excluded, " "),
                        flag.repeatable ? "*" : "", name,
                        !takes_value             ? ""
                        : name.starts_with("--") ? "="
                                                 : "+",
                        escaped(flag.description));
    if (takes_value) text += fmt::format(":{}:{}", escaped(flag.type), action(flag));
    text += "'";
  }
  return text;
}

std::string verb_case(const Verb& verb) {
  std::string text = fmt::format("    {})\n      _arguments -s", verb.name);
  for (const Flag& flag : verb.flags) text += flag_lines(flag);
  for (const Flag& flag : verb.flags) {
    if (flag.positional.empty()) continue;
    text += fmt::format(" \\\n        '{}:{}:{}'", flag.repeatable && flag.key.empty() ? "*" : "",
                        escaped(flag.positional), action(flag));
  }
  return text + "\n      ;;\n";
}

}  // namespace

std::string zsh_completion(const Program& program) {
  std::string text = "#compdef kvasir\n# Printed by `kvasir completion zsh`.\n";
  text += "_kvasir_verbs() {\n  local -a verbs\n  verbs=(\n";
  for (const Verb& verb : program.verbs)
    text += fmt::format("    '{}:{}'\n", verb.name, escaped(verb.description));
  text += "  )\n  _describe command verbs\n}\n\n";
  text += R"(_kvasir() {
  if (( CURRENT == 2 )); then
    _kvasir_verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
    help) _kvasir_verbs ;;
)";
  for (const Verb& verb : program.verbs) text += verb_case(verb);
  text += R"(  esac
}

# Found through fpath, or read with source.
if [ "$funcstack[1]" = _kvasir ]; then
  _kvasir "$@"
else
  compdef _kvasir kvasir
fi
)";
  return text;
}

}  // namespace kvasir::config
