#include "text/template_characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "text/utf8.h"

namespace kvasir::text::templates {
namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}
char32_t upper_of(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t lower_of(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

void append_upper(std::string& out, char32_t code) {
  if (code == 0xDF) {
    out += "SS";  // the one letter of everyday text whose capital is two
  } else {
    append_utf8(out, upper_of(code));
  }
}

template <typename InSet>
ByteRange strip_if(std::string_view text, Strip side, InSet in_set) {
  ByteRange range{0, text.size()};
  size_t next = 0;
  if (side != Strip::kRight) {
    while (range.begin < range.end && in_set(character_at(text, range.begin, next))) {
      range.begin = next;
    }
  }
  if (side != Strip::kLeft) {
    while (range.end > range.begin) {
      size_t last = range.end - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xC0u) == 0x80u) --last;
      if (!in_set(character_at(text, last, next))) break;
      range.end = last;
    }
  }
  return range;
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

bool is_printable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

bool is_alpha(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}
bool is_upper(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL;
}
bool is_cased(char32_t code) {
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(out, character_at(text, at, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_utf8(out, lower_of(character_at(text, at, at)));
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  size_t next = 0;
  const char32_t first = character_at(text, 0, next);
  std::string out;
  if (first == 0xDF) {
    out = "Ss";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(first))));
  }
  return out + to_lower(text.substr(next));
}

char32_t character_at(std::string_view text, size_t at, size_t& next) {
  const Utf8Prefix prefix = read_utf8(text.substr(at));
  next = at + prefix.bytes;
  return prefix.code;
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u;
  return count;
}

size_t byte_of_character(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) continue;
    if (index-- == 0) break;
  }
  return at;
}

std::vector<size_t> character_bounds(std::string_view text) {
  std::vector<size_t> bounds;
  for (size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0u) != 0x80u) bounds.push_back(at);
  }
  bounds.push_back(text.size());
  return bounds;
}

ByteRange stripped(std::string_view text, Strip side) {
  return strip_if(text, side, is_space);
}

ByteRange stripped(std::string_view text, Strip side, std::string_view set) {
  std::vector<char32_t> characters;
  for (size_t at = 0; at < set.size();) characters.push_back(character_at(set, at, at));
  std::sort(characters.begin(), characters.end());
  return strip_if(text, side, [&](char32_t code) {
    return std::binary_search(characters.begin(), characters.end(), code);
  });
}

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  // glibc's memmem is linear; std::string_view::find is quadratic for "aaa...b" in "aaa...".
  const void* found =
      ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_text(std::string_view text, std::string_view wanted) {
  if (wanted.empty()) return text.size();
  // Knuth, Morris and Pratt from the end: border[i] is how much of `wanted` already matches again
  // after its last i characters matched and the next one did not.
  const auto from_end = [&](size_t i) { return wanted[wanted.size() - 1 - i]; };
  std::vector<size_t> border(wanted.size() + 1);
  for (size_t i = 1, matched = 0; i < wanted.size(); ++i) {
    while (matched > 0 && from_end(i) != from_end(matched)) matched = border[matched];
    if (from_end(i) == from_end(matched)) ++matched;
    border[i + 1] = matched;
  }
  for (size_t at = text.size(), matched = 0; at-- > 0;) {
    while (matched > 0 && text[at] != from_end(matched)) matched = border[matched];
    if (text[at] == from_end(matched)) ++matched;
    if (matched == wanted.size()) return at;
  }
  return std::string_view::npos;
}

}  // namespace kvasir::text::templates
