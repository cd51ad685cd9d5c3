// Cuts the source of a chat template into tokens, by the rules of Jinja with trim_blocks and
// lstrip_blocks set. Knows white-space control and literals, nothing of grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvasir::text::templates {

struct Position {
  uint32_t line = 1, column = 1;  // of characters, from 1
};

// "line 3, column 14: message"
Error at(Position position, Error error);

struct Token {
  enum class Kind : uint8_t {
    kData,  // text outside of tags
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,  // of the template
  };
  Kind kind;
  Position at;
  std::string text;  // of a string: its value; of an operator: its spelling
  int64_t integer = 0;
  double number = 0;
};

// kCorrupt with line and column if it is not Jinja, kLimit if an integer exceeds 64 bits.
// The last token is kEnd. Time and memory O(source).
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace kvasir::text::templates
