#include "worker/mischief.h"

#include <charconv>

#include "base/bytes.h"
#include "wire/rows.h"

namespace kvasir::worker {
namespace {

constexpr size_t kQ8Values = 32;
constexpr size_t kQ8BlockBytes = sizeof(uint16_t) + kQ8Values;

// The byte with the lowest bits of value `i`, and which of them to flip; 0 if the value would stay
// the same.
struct Flip {
  size_t at;
  std::byte bit;
};
Flip flip_of(std::span<const std::byte> row, wire::ResultEncoding encoding, size_t i) {
  switch (encoding) {
    case wire::ResultEncoding::kF32:
      return {i * sizeof(float), std::byte{1}};
    case wire::ResultEncoding::kF16:
      return {sizeof(int16_t) + i * sizeof(uint16_t), std::byte{1}};
    case wire::ResultEncoding::kQ8:
      break;
  }
  const size_t block = sizeof(int16_t) + i / kQ8Values * kQ8BlockBytes;
  const size_t at = block + sizeof(uint16_t) + i % kQ8Values;
  if (load_le<uint16_t>(row.data() + block) == 0) return {at, std::byte{0}};
  // -127 has no neighbour below: -128 is malformed.
  return {at, row[at] == std::byte{0x81} ? std::byte{2} : std::byte{1}};
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

// One of the words between commas. False if it is none.
bool parse_word(std::string_view word, Mischief& mischief) {
  constexpr std::string_view kLie = "lie=", kSeed = "seed=";
  if (word == "reorder") {
    mischief.reorder = true;
    return true;
  }
  if (word.starts_with(kSeed)) return parse_number(word.substr(kSeed.size()), mischief.seed);
  return word.starts_with(kLie) && parse_number(word.substr(kLie.size()), mischief.lie_share) &&
         mischief.lie_share >= 0 && mischief.lie_share <= 1;
}

}  // namespace

Result<Mischief> parse_mischief(std::string_view text) {
  Mischief mischief;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    if (!parse_word(word, mischief))
      return Error::invalid("{}: '{}' is none of lie=SHARE, reorder, seed=N", kMischiefVariable,
                            word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return mischief;
}

bool lie(std::span<std::byte> outputs, wire::ResultEncoding encoding, size_t n_embd,
         wire::Jitter& random) {
  const size_t bytes = wire::row_bytes(encoding, n_embd);
  const auto row = outputs.subspan(random.below(outputs.size() / bytes) * bytes, bytes);
  const size_t first = random.below(n_embd);
  for (size_t i = 0; i < n_embd; ++i) {
    const Flip flip = flip_of(row, encoding, (first + i) % n_embd);
    if (flip.bit == std::byte{0}) continue;
    row[flip.at] ^= flip.bit;
    if (wire::check_row(encoding, row, n_embd)) return true;
    row[flip.at] ^= flip.bit;
  }
  return false;
}

}  // namespace kvasir::worker
