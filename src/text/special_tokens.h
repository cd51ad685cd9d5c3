// Finds the tokens that are written literally in a text (control and user-defined ones).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace kvasir::text {

// A part of a text: one special token, or plain text between them (token -1).
struct TextPiece {
  std::string_view text;
  TokenId token = -1;
};

// 16 times the longest in published models. Without a bound, a text that repeats the beginning of a
// long token would take quadratic time.
inline constexpr size_t kSpecialBytesMax = 1024;

// Immutable; thread-safe. The texts given to the constructor must outlive it.
class SpecialTokenFinder {
 public:
  struct Entry {
    std::string_view text;  // 1 to kSpecialBytesMax bytes; no two are equal
    TokenId token;
  };
  explicit SpecialTokenFinder(std::vector<Entry> entries);

  // Cuts `text` as if each token, the longest first, were searched from left to right in what is
  // still uncut: a longer token wins over a shorter one that begins earlier and overlaps it. Of
  // equally long ones the leftmost wins. The pieces are not empty and together are `text`.
  // Memory O(text); time O(text log text), times the longest chain of tokens that begin with one
  // another.
  std::vector<TextPiece> split(std::string_view text) const;

 private:
  // Entry numbers; kNone if there is none.
  static constexpr size_t kNone = SIZE_MAX;
  size_t longest_at(std::string_view text) const;

  std::vector<Entry> entries_;               // sorted by text
  std::vector<size_t> longest_prefix_;       // of an entry: the longest other one it begins with
  std::array<bool, 256> begins_entry_ = {};  // by the first byte
};

}  // namespace kvasir::text
