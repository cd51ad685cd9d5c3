// The command line together with configuration files and the environment: what they say is put in
// as words of the command line, so that one parser judges all values.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>

#include "base/error.h"
#include "config/settings.h"

namespace kvasir::cli {

// A fresh option tree, which owns what its flags fill.
using MakeTree = std::function<std::shared_ptr<CLI::App>()>;

// The settings of a verb when it is called with these words (its flags, without its name).
// `file` names a configuration file for words without --config; empty: $KVASIR_CONFIG, else the
// standard files. kInvalid for words, files and variables that are wrong.
Result<std::vector<config::Setting>> settings_of(const config::Program& program,
                                                 const config::Verb& verb,
                                                 const std::vector<std::string>& words,
                                                 const std::string& file,
                                                 const MakeTree& make_tree);

// `words` with what files and variables add to them. Words that are wrong, or ask for help, come
// back as they are: the parser that follows says why. The first word is the verb.
Result<std::vector<std::string>> configured_words(const config::Program& program,
                                                  std::vector<std::string> words,
                                                  const MakeTree& make_tree);

}  // namespace kvasir::cli
