// What the command line knows of itself, as plain data: verbs, their flags, the texts of --help.
// The settings, `kvasir config show`, completions and man pages are all made from these tables, so
// that a new flag is in all of them. Pure; knows nothing of the command-line library
// (cli/read_tables.cc fills the tables from its option tree).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::config {

struct Flag {
  std::string key;  // "kv-type" of --kv-type; empty: an argument without a flag
  std::vector<std::string> short_names;  // "m"
  std::string positional;                // "MODEL"; empty: none
  std::string type;                      // "N", "FILE", "f16|f32"; empty: a switch
  std::string bare;                      // what --flag without =VALUE means; empty: not possible
  std::string description;
  std::vector<std::string> excludes;  // keys
  bool required = false;
  bool repeatable = false;
  bool is_setting = true;  // false: --help and --config, which have no key
};

struct Verb {
  std::string name;
  std::string description;
  std::string example;
  std::string notes;  // what follows the example in --help
  std::vector<Flag> flags;
  bool has_settings = true;  // false: verbs about the program itself
};

struct Program {
  std::string name;
  std::string description;
  std::string version;
  std::string notes;
  std::vector<Flag> flags;
  std::vector<Verb> verbs;
};

const Verb* find_verb(const Program& program, std::string_view name);
// By key; only what is a setting.
const Flag* find_setting(const Verb& verb, std::string_view key);

// KVASIR_SERVE_KV_TYPE: the same words as `kvasir serve --kv-type`.
std::string variable_name(const Verb& verb, const Flag& flag);
// A variable of the flag's words without the verb, which stands behind the verb's own where the
// description names it: KVASIR_MODEL of "(default: $KVASIR_MODEL, else ...)". Empty: none. A name
// of other words is something else: $KVASIR_HUB_TOKEN is no value for --token-file.
std::string shared_variable(const Flag& flag);
// What the variables of a verb begin with: KVASIR_SERVE_
std::string variable_prefix(const Verb& verb);

// Which kinds of values a configuration file may give.
enum class Shape {
  kSwitch,       // true or false; with Flag::bare also a text
  kWhole,        // a whole number
  kNumber,       // a number
  kTextOrWhole,  // a text, or a whole number: 8080 and "0.0.0.0:8080"
  kText,
};
Shape shape_of(const Flag& flag);
// "a whole number", for messages.
std::string_view shape_text(const Flag& flag);

// The fixed words among the values: f16 and f32 of "f16|f32", auto of "auto|SIZE".
std::vector<std::string> choices_of(const Flag& flag);
// What the description says after "default:"; empty: nothing.
std::string default_text(const Flag& flag);

// The one that takes the fewest edits to reach, if that is few enough to be a slip.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace kvasir::config
