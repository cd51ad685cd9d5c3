// UTF-8 one character at a time, strict: no overlong forms, surrogates or values beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the start of a text.
struct Utf8Prefix {
  enum class Kind : uint8_t {
    kCharacter,   // `bytes` bytes are the character `code`
    kInvalid,     // `bytes` bytes (1 to 3) can never become a character, whatever follows
    kIncomplete,  // all that is left is the proper beginning of a character
  };
  Kind kind;
  size_t bytes;
  char32_t code;  // of a kCharacter, 0 otherwise
};

// `text` is not empty. An invalid sequence is as long as possible while it is still the beginning
// of some character, and at least one byte ("maximal subpart", Unicode 3.9, the rule browsers
// follow): F0 9F 41 gives F0 9F and then 'A'; E0 80 gives E0 and then 80. So where a stream is cut
// does not change what is found in it.
Utf8Prefix read_utf8(std::string_view text);

// `code` is a Unicode scalar value.
void append_utf8(std::string& out, char32_t code);

bool is_valid_utf8(std::string_view text);

// Every byte that is not part of a character becomes one U+FFFD.
std::string replace_invalid_bytes(std::string_view text);

}  // namespace kvasir::text
