#include "gguf/text_check.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace kvasir::gguf {
namespace {

constexpr size_t kPrintableMax = 80;

// Length of the well-formed sequence at the front of `rest`, or 0. Table 3-7 of the Unicode
// standard: only the second byte has a range that depends on the first.
size_t sequence_length(std::string_view rest) {
  auto at = [&](size_t i) { return static_cast<uint8_t>(rest[i]); };
  auto continues = [&](size_t i) { return i < rest.size() && (at(i) & 0xc0) == 0x80; };
  uint8_t first = at(0);
  if (first < 0x80) return first == 0 ? 0 : 1;
  if (first < 0xc2 || first > 0xf4 || !continues(1)) return 0;
  if (first < 0xe0) return 2;
  uint8_t second = at(1);
  if (first < 0xf0) {
    bool overlong = first == 0xe0 && second < 0xa0;
    bool surrogate = first == 0xed && second >= 0xa0;
    return overlong || surrogate || !continues(2) ? 0 : 3;
  }
  bool overlong = first == 0xf0 && second < 0x90;
  bool beyond = first == 0xf4 && second >= 0x90;
  return overlong || beyond || !continues(2) || !continues(3) ? 0 : 4;
}

}  // namespace

bool is_text(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t length = sequence_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view bytes) {
  std::string shown;
  for (char c : bytes) {
    if (shown.size() >= kPrintableMax) return shown + "...";
    if (c >= 0x20 && c <= 0x7e)
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  }
  return shown;
}

}  // namespace kvasir::gguf
