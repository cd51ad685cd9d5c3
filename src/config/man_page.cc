#include "config/man_page.h"

#include <fmt/format.h>

namespace kvasir::config {
namespace {

// Text of one line: no character of it is an instruction.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '\'')
      result += "\\(aq";
    else if (c == '`')
      result += "\\(ga";
    else if (c == '^')
      result += "\\(ha";
    else if (c == '~')
      result += "\\(ti";
    else if (c == '.' && result.empty())
      result += "\\&.";
    else
      result += c == '\n' ? ' ' : c;
  }
  return result;
}

// Lines as they are.
std::string verbatim(std::string_view text) {
  std::string result = ".nf\n";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    result += roff(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result + ".fi\n";
}

std::string header(const Program& program, const std::string& name) {
  std::string upper;
  for (const char c : name) upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  // No date: the same program prints the same page.
  return fmt::format(".TH \"{}\" 1 \"\" \"{}\" \"Kvasir\"\n", roff(upper), roff(program.version));
}

// "\fB-m\fR, \fB--model\fR \fIFILE\fR"
std::string flag_title(const Flag& flag) {
  std::string title;
  for (const std::string& name : flag.short_names)
    title += fmt::format("{}\\fB\\-{}\\fR", title.empty() ? "" : ", ", roff(name));
  if (!flag.key.empty())
    title += fmt::format("{}\\fB\\-\\-{}\\fR", title.empty() ? "" : ", ", roff(flag.key));
  if (!flag.bare.empty()) return title + "[=\\fIVALUE\\fR]";
  if (!title.empty() && !flag.type.empty()) title += fmt::format(" \\fI{}\\fR", roff(flag.type));
  if (!flag.positional.empty())
    title = fmt::format("\\fI{}\\fR{}{}", roff(flag.positional), title.empty() ? "" : ", ", title);
  return title;
}

std::string flag_list(const std::vector<Flag>& flags) {
  std::string text;
  for (const Flag& flag : flags)
    text += fmt::format(".TP\n{}\n{}{}\n", flag_title(flag), roff(flag.description),
                        flag.required ? " (required)" : "");
  return text;
}

std::string synopsis(const Program& program, const Verb& verb) {
  std::string text = fmt::format(".B {} {}\n", roff(program.name), roff(verb.name));
  for (const Flag& flag : verb.flags)
    if (flag.required && flag.positional.empty()) text += flag_title(flag) + "\n";
  text += "[\\fIOPTIONS\\fR]\n";
  for (const Flag& flag : verb.flags) {
    if (flag.positional.empty()) continue;
    const char* more = flag.repeatable && flag.key.empty() ? "..." : "";
    const std::string name = fmt::format("\\fI{}\\fR{}", roff(flag.positional), more);
    text += flag.required ? name + "\n" : "[" + name + "]\n";
  }
  return text;
}

constexpr const char* kExitStatus = "Exit codes: ";

std::string exit_status(const Program& program, const Verb* verb) {
  for (const std::string* notes : {verb != nullptr ? &verb->notes : nullptr, &program.notes}) {
    if (notes == nullptr) continue;
    const size_t at = notes->find(kExitStatus);
    if (at == std::string::npos) continue;
    std::string text = notes->substr(at + std::string_view(kExitStatus).size());
    while (text.ends_with('\n')) text.pop_back();
    return ".SH EXIT STATUS\n" + roff(text) + "\n";
  }
  return "";
}

std::string environment(const Verb* verb) {
  std::string text = ".SH ENVIRONMENT\n";
  if (verb != nullptr && verb->has_settings) {
    text +=
        "A variable gives a flag its value, unless the flag itself is given. One of a "
        "repeatable flag\nholds one value per line, one of a switch true or false.\n";
    for (const Flag& flag : verb->flags)
      if (flag.is_setting && !flag.key.empty())
        text += fmt::format(".TP\n.B {}\n\\fB\\-\\-{}\\fR\n", roff(variable_name(*verb, flag)),
                            roff(flag.key));
  }
  return text +
         ".TP\n.B KVASIR_CONFIG\nThe configuration file, as \\fB\\-\\-config\\fR names it.\n"
         ".TP\n.B KVASIR_MODEL\nThe model where no flag and no file names one.\n"
         ".TP\n.B KVASIR_ISA\nForces one set of kernels: scalar, avx2, avx512 or neon. All give "
         "the same bits.\n";
}

std::string files(const Verb* verb) {
  std::string text =
      ".SH FILES\n.TP\n.I /etc/kvasir/kvasir.toml\nThe configuration of this machine.\n"
      ".TP\n.I \\(ti/.config/kvasir/kvasir.toml\nThe user\\(aqs, which is stronger. "
      "$XDG_CONFIG_HOME takes the place of \\(ti/.config.\n";
  if (verb != nullptr && verb->has_settings)
    text += fmt::format(
        ".PP\nThe keys of this command stand in the table \\fB[{}]\\fR and have "
        "the names of the long flags.\n",
        roff(verb->name));
  return text;
}

std::string see_also(const Program& program, const Verb* verb) {
  std::string text = ".SH SEE ALSO\n";
  if (verb != nullptr) return text + fmt::format("\\fB{}\\fR(1)\n", roff(program.name));
  bool first = true;
  for (const Verb& other : program.verbs) {
    text += fmt::format("{}\\fB{}\\-{}\\fR(1)", first ? "" : ",\n", roff(program.name),
                        roff(other.name));
    first = false;
  }
  return text + "\n";
}

}  // namespace

std::string man_page(const Program& program) {
  std::string text = header(program, program.name);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(program.name), roff(program.description));
  text +=
      fmt::format(".SH SYNOPSIS\n.B {}\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n", roff(program.name));
  text += ".SH COMMANDS\n";
  for (const Verb& verb : program.verbs)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(verb.name), roff(verb.description));
  text += ".SH OPTIONS\n" + flag_list(program.flags);
  return text + exit_status(program, nullptr) + environment(nullptr) + files(nullptr) +
         see_also(program, nullptr);
}

std::string man_page(const Program& program, const Verb& verb) {
  const std::string name = program.name + "-" + verb.name;
  std::string text = header(program, name);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(verb.description));
  text += ".SH SYNOPSIS\n" + synopsis(program, verb);
  text += fmt::format(".SH DESCRIPTION\n{}.\n", roff(verb.description));
  text += ".SH OPTIONS\n" + flag_list(verb.flags);
  text += exit_status(program, &verb) + environment(&verb) + files(&verb);
  if (!verb.example.empty()) text += ".SH EXAMPLES\n" + verbatim(verb.example);
  return text + see_also(program, &verb);
}

std::string man_file_name(const Program& program, const Verb* verb) {
  return verb == nullptr ? program.name + ".1" : program.name + "-" + verb->name + ".1";
}

}  // namespace kvasir::config
