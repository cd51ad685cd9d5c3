// Random texts for tests, biased to where tokenizers go wrong. Same seed, same texts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "text/utf8.h"

namespace kvasir::text {

// Test names and failure messages carry the seed, so that a failure can be replayed.
using Random = std::mt19937_64;

inline size_t random_below(Random& random, size_t n) {
  return static_cast<size_t>(random() % n);
}

// A code point, often one that some rule is about. All classes are the same in Unicode 14 and 15,
// between which the libraries here differ.
inline char32_t random_code_point(Random& random) {
  static constexpr std::array<char32_t, 48> kEdges = {
      ' ',    ' ',    '\n',    '\r',   '\t',    '\v',    0x85,   0xA0,    0x1680, 0x180E,
      0x2003, 0x2028, 0x2029,  0x202F, 0x205F,  0x3000,  0x200B, 0x200D,  0xFEFF, 0x00,
      '\'',   's',    'S',     0x17F,  'l',     'v',     'e',    'R',     'd',    0x2019,
      '1',    0x663,  0xBD,    0x2167, 0x2460,  '!',     '.',    0x301,   0x316,  0x5B0,
      0x93F,  0x20DD, 0x1D165, 0xFE0F, 0x1F44D, 0x1F3FD, 0xFFFD, 0x10FFFF};
  struct Range {
    char32_t begin, end;
  };
  static constexpr std::array<Range, 14> kRanges = {{{0x00, 0x80},
                                                     {0x20, 0x7F},
                                                     {0xA0, 0x250},
                                                     {0x300, 0x370},
                                                     {0x391, 0x3A2},
                                                     {0x410, 0x450},
                                                     {0x5D0, 0x5EB},
                                                     {0x621, 0x64B},
                                                     {0x905, 0x93A},
                                                     {0xE01, 0xE3B},
                                                     {0x1100, 0x1200},
                                                     {0x4E00, 0x9FA6},
                                                     {0xAC00, 0xD7A4},
                                                     {0x1F600, 0x1F650}}};
  if (random_below(random, 2) == 0) return kEdges[random_below(random, kEdges.size())];
  const Range range = kRanges[random_below(random, kRanges.size())];
  return range.begin + static_cast<char32_t>(random_below(random, range.end - range.begin));
}

// Valid UTF-8 of up to `characters_max` characters; runs of one character are common.
inline std::string random_text(Random& random, size_t characters_max) {
  std::string text;
  for (size_t left = random_below(random, characters_max + 1); left > 0;) {
    const char32_t code = random_code_point(random);
    size_t run = random_below(random, 4) == 0 ? 1 + random_below(random, 5) : 1;
    for (run = std::min(run, left); run > 0; --run, --left) append_utf8(text, code);
  }
  return text;
}

// Anything: text with some bytes changed, or plain noise.
inline std::string random_bytes(Random& random, size_t characters_max) {
  std::string bytes = random_text(random, characters_max);
  const size_t mode = random_below(random, 3);
  for (char& byte : bytes) {
    if (mode == 0 || random_below(random, 8) == 0) byte = static_cast<char>(random());
  }
  return bytes;
}

}  // namespace kvasir::text
