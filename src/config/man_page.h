// Manual pages in roff, made from the tables of flags: the same texts as --help. Pure.
#pragma once

#include <string>

#include "config/flag_table.h"

namespace kvasir::config {

// kvasir(1), the list of verbs.
std::string man_page(const Program& program);
// kvasir-VERB(1).
std::string man_page(const Program& program, const Verb& verb);
// "kvasir-serve.1"; without a verb "kvasir.1".
std::string man_file_name(const Program& program, const Verb* verb);

}  // namespace kvasir::config
