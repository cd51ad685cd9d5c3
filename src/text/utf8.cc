#include "text/utf8.h"

namespace kvasir::text {
namespace {

// Length of the character a lead byte begins and the range of the byte after it, which is where
// overlong forms (E0, F0), surrogates (ED) and values beyond U+10FFFF (F4) are excluded.
struct Lead {
  uint8_t bytes = 0;  // 0: no character begins so
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

}  // namespace

Utf8Prefix read_utf8(std::string_view text) {
  using Kind = Utf8Prefix::Kind;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Kind::kCharacter, 1, first};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {Kind::kInvalid, 1, 0};

  char32_t code = first & (0x7Fu >> lead.bytes);
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i, 0};
    const uint8_t low = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t high = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte(i) < low || byte(i) > high) return {Kind::kInvalid, i, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {Kind::kCharacter, lead.bytes, code};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Prefix prefix = read_utf8(text);
    if (prefix.kind != Utf8Prefix::Kind::kCharacter) return false;
    text.remove_prefix(prefix.bytes);
  }
  return true;
}

std::string replace_invalid_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Prefix prefix = read_utf8(text);
    if (prefix.kind == Utf8Prefix::Kind::kCharacter) {
      out += text.substr(0, prefix.bytes);
    } else {
      for (size_t i = 0; i < prefix.bytes; ++i) out += kReplacementCharacter;
    }
    text.remove_prefix(prefix.bytes);
  }
  return out;
}

}  // namespace kvasir::text
