// Verbs about the program itself: `config show`, `completion`, `man`. They have no settings of
// their own.
#pragma once

#include "cli/configured.h"

namespace kvasir::cli {

struct ConfigOptions {
  std::string action;
  std::string verb;                // empty: all that have settings
  std::vector<std::string> words;  // flags of the verb
  std::string file;                // empty: the standard ones
  bool origin = false;
  bool json = false;
};

struct CompletionOptions {
  std::string shell;
};

struct ManOptions {
  std::string verb;    // empty: the page of the program
  std::string folder;  // for all pages; empty: one page on standard output
};

// Their names, for read_tables.
std::vector<std::string> own_verbs();

void add_config_flags(CLI::App& verb, ConfigOptions& options);
void add_completion_flags(CLI::App& verb, CompletionOptions& options);
void add_man_flags(CLI::App& verb, ManOptions& options);

Result<int> show_config(const ConfigOptions& options, const config::Program& program,
                        const MakeTree& make_tree);
Result<int> print_completion(const CompletionOptions& options, const config::Program& program);
Result<int> print_man_page(const ManOptions& options, const config::Program& program);

}  // namespace kvasir::cli
