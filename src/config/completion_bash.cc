#include <fmt/format.h>

#include "config/completion.h"

namespace kvasir::config {
namespace {

// Names of flags and verbs, and fixed words, have no character that means something to a shell.
std::string flag_patterns(const Flag& flag) {
  std::string patterns = flag.key.empty() ? "" : "--" + flag.key;
  for (const std::string& name : flag.short_names)
    patterns += (patterns.empty() ? "-" : "|-") + name;
  return patterns;
}

std::string flag_words(const std::vector<Flag>& flags) {
  std::string words;
  for (const Flag& flag : flags) {
    if (!flag.key.empty()) words += (words.empty() ? "--" : " --") + flag.key;
    for (const std::string& name : flag.short_names) words += (words.empty() ? "-" : " -") + name;
  }
  return words;
}

std::string offer(const Program& program, const Flag& flag) {
  switch (candidates_of(flag)) {
    case Candidates::kFiles:
      return "_kvasir_files";
    case Candidates::kVerbs:
      return fmt::format("_kvasir_words '{}'", fmt::join(verb_names(program), " "));
    case Candidates::kChoices:
      return fmt::format("_kvasir_words '{}'", fmt::join(choices_of(flag), " "));
    case Candidates::kNone:
      return "";
  }
  return "";
}

std::string verb_case(const Program& program, const Verb& verb) {
  std::string values;
  std::vector<std::string> arguments;
  for (const Flag& flag : verb.flags) {
    if (!flag.positional.empty()) arguments.push_back(offer(program, flag));
    const std::string patterns = flag_patterns(flag);
    if (patterns.empty() || flag.type.empty() || !flag.bare.empty()) continue;
    const std::string offered = offer(program, flag);
    values +=
        fmt::format("        {}) {}return ;;\n", patterns, offered.empty() ? "" : offered + "; ");
  }
  std::string text = fmt::format("    {})\n", verb.name);
  if (!values.empty()) text += "      case $before in\n" + values + "      esac\n";
  text += fmt::format("      flags='{}'\n", flag_words(verb.flags));
  std::string places;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].empty()) continue;
    // An only argument may stand anywhere among flags.
    const std::string place = arguments.size() == 1 ? "*" : std::to_string(i + 2);
    places += fmt::format("        {}) [[ $current == -* ]] || {{ {}; return; }} ;;\n", place,
                          arguments[i]);
  }
  if (!places.empty()) text += "      case $COMP_CWORD in\n" + places + "      esac\n";
  return text + "      ;;\n";
}

}  // namespace

std::string bash_completion(const Program& program) {
  std::string text = R"(# Completion of kvasir for bash, printed by `kvasir completion bash`.
_kvasir_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

_kvasir_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

_kvasir() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} flags=
  COMPREPLY=()
  # --flag=value comes as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = && $COMP_CWORD -ge 2 ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";
  text += fmt::format(
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n    _kvasir_words 'help {} {}'\n    return\n  fi\n",
      fmt::join(verb_names(program), " "), flag_words(program.flags));
  text += "  case ${COMP_WORDS[1]} in\n";
  text +=
      fmt::format("    help) _kvasir_words '{}'; return ;;\n", fmt::join(verb_names(program), " "));
  for (const Verb& verb : program.verbs) text += verb_case(program, verb);
  text += R"(  esac
  [[ $current == -* ]] && _kvasir_words "$flags"
  return 0
}

complete -F _kvasir kvasir
)";
  return text;
}

}  // namespace kvasir::config
