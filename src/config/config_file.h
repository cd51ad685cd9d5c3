// A configuration file: one table per verb, a key per flag.
//
//   [serve]
//   listen = "0.0.0.0:8080"
//   kv-type = "f32"
//   cors-origin = ["https://a.example", "https://b.example"]
//
// The text comes from outside: whatever is wrong with it is an error with file, line and column.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/flag_table.h"

namespace kvasir::config {

// 100 times what all keys with long values take.
inline constexpr size_t kConfigBytesMax = 1 << 20;

struct Place {
  std::string file;
  uint32_t line = 0, column = 0;
};

// "kvasir.toml:3:7"
std::string place_text(const Place& place);

struct Scalar {
  enum class Kind : uint8_t { kBoolean, kWhole, kReal, kText, kOther };
  Kind kind = Kind::kOther;
  std::string text;  // as a flag takes it
};

struct FileValue {
  std::string verb;  // the table; empty: none
  std::string key;
  bool is_list = false;
  std::vector<Scalar> scalars;  // one, unless it is a list
  Place place;
};

// The only place that knows the TOML library. `file` is for messages.
Result<std::vector<FileValue>> parse_config(std::string_view text, const std::string& file);

// As the flag takes it: one text per use of a repeatable flag, else one alone.
std::vector<std::string> value_texts(const Flag& flag, const FileValue& value);

// What the flag's own parser says to these values.
using ValueCheck =
    std::function<Result<void>(const Verb&, const Flag&, const std::vector<std::string>&)>;

// Every key must be one of the program's, of the right kind, with a value that the flag takes; also
// in tables of verbs that do not run now. kInvalid otherwise.
Result<void> check_config(const Program& program, const std::vector<FileValue>& values,
                          const ValueCheck& check);

}  // namespace kvasir::config
