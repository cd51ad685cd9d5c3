// Completion scripts for shells, made from the tables of flags: verbs, flags, the fixed words among
// values, file names where a FILE is wanted. The scripts do not call the program. Pure.
#pragma once

#include <string>
#include <vector>

#include "config/flag_table.h"

namespace kvasir::config {

std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);
std::string fish_completion(const Program& program);

// What may stand where a value of this type is wanted.
enum class Candidates { kNone, kFiles, kChoices, kVerbs };
// Of a flag's value, or of an argument without a flag.
Candidates candidates_of(const Flag& flag);
// The names of all verbs.
std::vector<std::string> verb_names(const Program& program);

}  // namespace kvasir::config
