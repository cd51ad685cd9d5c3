#include <fmt/format.h>

#include "config/completion.h"

namespace kvasir::config {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string values(const Program& program, const Flag& flag) {
  switch (candidates_of(flag)) {
    case Candidates::kFiles:
      return " -r -F";
    case Candidates::kVerbs:
      return fmt::format(" -x -a {}",
                         quoted(fmt::format("{}", fmt::join(verb_names(program), " "))));
    case Candidates::kChoices:
      return fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(choices_of(flag), " "))));
    case Candidates::kNone:
      return " -x";
  }
  return "";
}

std::string flag_line(const Program& program, const std::string& condition, const Flag& flag) {
  std::string text = fmt::format("complete -c kvasir -n {}", quoted(condition));
  for (const std::string& name : flag.short_names) text += " -s " + name;
  if (!flag.key.empty()) text += " -l " + flag.key;
  text += " -d " + quoted(flag.description);
  if (!flag.type.empty() && flag.bare.empty()) text += values(program, flag);
  return text + "\n";
}

std::string argument_line(const Program& program, const std::string& condition, const Flag& flag) {
  switch (candidates_of(flag)) {
    case Candidates::kNone:
      return "";
    case Candidates::kFiles:
      return fmt::format("complete -c kvasir -n {} -F\n", quoted(condition));
    case Candidates::kVerbs:
    case Candidates::kChoices:
      return fmt::format("complete -c kvasir -n {}{}\n", quoted(condition), values(program, flag));
  }
  return "";
}

}  // namespace

std::string fish_completion(const Program& program) {
  std::string text = R"(# Completion of kvasir for fish, printed by `kvasir completion fish`.
function __kvasir_verb
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test $words[2] = $argv[1]
end
function __kvasir_no_verb
  test (count (commandline -opc)) -eq 1
end
complete -c kvasir -f
)";
  for (const Flag& flag : program.flags) text += flag_line(program, "__kvasir_no_verb", flag);
  for (const Verb& verb : program.verbs)
    text += fmt::format("complete -c kvasir -n __kvasir_no_verb -a {} -d {}\n", verb.name,
                        quoted(verb.description));
  text += fmt::format("complete -c kvasir -n '__kvasir_verb help' -a '{}'\n",
                      fmt::join(verb_names(program), " "));
  for (const Verb& verb : program.verbs) {
    const std::string condition = "__kvasir_verb " + verb.name;
    for (const Flag& flag : verb.flags) {
      if (!flag.key.empty() || !flag.short_names.empty())
        text += flag_line(program, condition, flag);
      if (!flag.positional.empty()) text += argument_line(program, condition, flag);
    }
  }
  return text;
}

}  // namespace kvasir::config
