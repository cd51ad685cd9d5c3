// The alphabet in which byte-level BPE writes bytes: every byte is one printable character.
//
// 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are the code point of equal value; the other 68 bytes are, in
// increasing order, U+0100 ... U+0143. So a space is U+0120 "Ġ" and a newline U+010A "Ċ".
#pragma once

#include <array>
#include <cstdint>

namespace kvasir::text {

inline constexpr char32_t kByteAlphabetEnd = 0x144;  // one past the largest character

namespace byte_alphabet_internal {

struct Tables {
  std::array<char32_t, 256> character = {};
  std::array<int16_t, kByteAlphabetEnd> byte = {};  // -1: not in the alphabet
};

constexpr Tables make_tables() {
  Tables tables;
  for (auto& byte : tables.byte) byte = -1;
  char32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable =
        (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    const char32_t c = printable ? static_cast<char32_t>(b) : next++;
    tables.character[b] = c;
    tables.byte[c] = static_cast<int16_t>(b);
  }
  return tables;
}

inline constexpr Tables kTables = make_tables();
static_assert(kTables.character[' '] == U'Ġ' && kTables.character['\n'] == U'Ċ' &&
              kTables.character[0xAD] == kByteAlphabetEnd - 1);

}  // namespace byte_alphabet_internal

constexpr char32_t character_of_byte(uint8_t byte) {
  return byte_alphabet_internal::kTables.character[byte];
}

// -1 for a character outside the alphabet.
constexpr int byte_of_character(char32_t character) {
  return character < kByteAlphabetEnd ? byte_alphabet_internal::kTables.byte[character] : -1;
}

}  // namespace kvasir::text
