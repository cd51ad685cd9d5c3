// Characters as Python's str sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text::templates {

bool is_space(char32_t code);      // str.isspace
bool is_line_end(char32_t code);   // what str.splitlines cuts at
bool is_printable(char32_t code);  // what repr shows as itself
bool is_alpha(char32_t code);
bool is_digit(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_cased(char32_t code);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
// The first character in upper case, the others in lower case.
std::string capitalized(std::string_view text);

// The functions below take valid UTF-8 and give byte positions.
char32_t character_at(std::string_view text, size_t at, size_t& next);
size_t count_characters(std::string_view text);
// Of character number `index`; text.size() if there are fewer.
size_t byte_of_character(std::string_view text, size_t index);
// The byte where each character begins, and text.size().
std::vector<size_t> character_bounds(std::string_view text);

struct ByteRange {
  size_t begin, end;
};
// Without white space, or the characters of `set`, at the ends.
enum class Strip { kLeft = 1, kRight = 2, kBoth = 3 };
ByteRange stripped(std::string_view text, Strip side);
ByteRange stripped(std::string_view text, Strip side, std::string_view set);

// As std::string_view's find and rfind, but in linear time for any texts.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
size_t rfind_text(std::string_view text, std::string_view wanted);

}  // namespace kvasir::text::templates
