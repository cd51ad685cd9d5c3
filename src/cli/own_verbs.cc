#include "cli/own_verbs.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/read_tables.h"
#include "config/completion.h"
#include "config/man_page.h"
#include "config/settings_text.h"

namespace kvasir::cli {
namespace {

Result<const config::Verb*> known_verb(const config::Program& program, const std::string& name) {
  if (const config::Verb* verb = config::find_verb(program, name)) return verb;
  return Error::invalid("there is no command '{}'", name)
      .with_hint(fmt::format("the commands are {}", fmt::join(config::verb_names(program), ", ")));
}

Result<int> print(const std::string& text) {
  KVASIR_TRY_VOID(Output::standard().write(text));
  return kSuccess;
}

Result<void> write_page(const std::string& folder, const std::string& name,
                        const std::string& text) {
  KVASIR_TRY(Output output, Output::open(folder + "/" + name));
  KVASIR_TRY_VOID(output.write(text));
  return output.close();
}

}  // namespace

std::vector<std::string> own_verbs() {
  return {"config", "completion", "man"};
}

void add_config_flags(CLI::App& verb, ConfigOptions& options) {
  verb.add_option("ACTION", options.action, "show: print every setting")
      ->type_name("show")
      ->required()
      ->check([](const std::string& text) {
        return text == "show" ? "" : "'" + text + "' is none of show";
      });
  verb.add_option("VERB", options.verb, "Of this command alone (default: of all)")
      ->type_name("COMMAND");
  verb.add_option("FLAGS", options.words, "As if the command were called with these; after --")
      ->type_name("FLAG");
  verb.add_option(std::string("--") + kConfigKey, options.file,
                  "Settings from this file alone (default: /etc/kvasir/kvasir.toml and "
                  "~/.config/kvasir/kvasir.toml)")
      ->type_name("FILE");
  verb.add_flag("--origin", options.origin, "Say where each value comes from");
  verb.add_flag("--json", options.json, "Print JSON, with origins and names of variables");
}

void add_completion_flags(CLI::App& verb, CompletionOptions& options) {
  verb.add_option("SHELL", options.shell, "The shell to write for")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check([](const std::string& text) {
        return text == "bash" || text == "zsh" || text == "fish"
                   ? ""
                   : "'" + text + "' is none of bash|zsh|fish";
      });
}

void add_man_flags(CLI::App& verb, ManOptions& options) {
  CLI::Option* name =
      verb.add_option("VERB", options.verb, "The page of this command (default: of the program)")
          ->type_name("COMMAND");
  verb.add_option("-o,--output", options.folder, "Write all pages into this folder")
      ->type_name("FOLDER")
      ->excludes(name);
}

Result<int> show_config(const ConfigOptions& options, const config::Program& program,
                        const MakeTree& make_tree) {
  std::vector<const config::Verb*> verbs;
  if (options.verb.empty()) {
    for (const config::Verb& verb : program.verbs)
      if (verb.has_settings) verbs.push_back(&verb);
  } else {
    KVASIR_TRY(const config::Verb* verb, known_verb(program, options.verb));
    if (!verb->has_settings) return Error::invalid("{} has no settings", verb->name);
    verbs.push_back(verb);
  }
  std::vector<config::VerbSettings> all;
  for (const config::Verb* verb : verbs) {
    KVASIR_TRY(std::vector<config::Setting> settings,
               settings_of(program, *verb, options.words, options.file, make_tree));
    all.push_back({verb, std::move(settings)});
  }
  if (options.json) return print(config::settings_as_json(all));
  return print(config::settings_as_toml(
      all, options.origin ? config::ShowOrigin::kYes : config::ShowOrigin::kNo));
}

Result<int> print_completion(const CompletionOptions& options, const config::Program& program) {
  if (options.shell == "bash") return print(config::bash_completion(program));
  if (options.shell == "zsh") return print(config::zsh_completion(program));
  return print(config::fish_completion(program));
}

Result<int> print_man_page(const ManOptions& options, const config::Program& program) {
  if (options.folder.empty()) {
    if (options.verb.empty()) return print(config::man_page(program));
    KVASIR_TRY(const config::Verb* verb, known_verb(program, options.verb));
    return print(config::man_page(program, *verb));
  }
  KVASIR_TRY_VOID(write_page(options.folder, config::man_file_name(program, nullptr),
                             config::man_page(program)));
  for (const config::Verb& verb : program.verbs)
    KVASIR_TRY_VOID(write_page(options.folder, config::man_file_name(program, &verb),
                               config::man_page(program, verb)));
  return kSuccess;
}

}  // namespace kvasir::cli
