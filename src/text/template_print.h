// Values as text: as Python prints them and as JSON.
#pragma once

#include <string>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

// str(value). Strings keep their marks; the text of a container counts as data if any string in it
// does. Numbers, booleans and None count as the template's: they spell no token.
Result<MarkedText> to_text(Runtime& runtime, const Value& value);
// repr(value)
Result<MarkedText> to_repr(Runtime& runtime, const Value& value);

std::string float_text(double value);  // repr(float)

struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  std::optional<std::string> indent;  // for each level; absent: all on one line
  bool is_ascii = false;              // everything else as \uXXXX
  bool sorts_keys = false;
};
// json.dumps(value). kInvalid for what JSON has no form for, such as undefined.
Result<MarkedText> to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace kvasir::text::templates
