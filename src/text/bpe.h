// Byte-pair merging of one word: bytes -> tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/vocabulary.h"

namespace kvasir::text {

// Twice the longest published list. Bounds what a hostile file can make us allocate.
inline constexpr size_t kMergesMax = size_t{1} << 20;

// The merge rules by rank. Immutable after building; thread-safe.
//
// Merging works on numbers. A symbol below the vocabulary's size is that (ordinary) token; the
// strings of merges that are no ordinary token get the numbers above it, so that a damaged or
// unusual file means exactly what it would mean if symbols were strings.
class MergeRules {
 public:
  // Working memory of encode(), for reuse from word to word. One thread.
  class Scratch;

  // `merges` are "left right" in rank order, split at the first space from index 1 on. kCorrupt,
  // naming the entry, if one has no two parts or there are more than kMergesMax. Of equal entries
  // the first counts.
  static Result<MergeRules> build(const Vocabulary& vocabulary,
                                  const std::vector<std::string_view>& merges);

  // Appends the tokens of `word` (any bytes). Merges the adjacent pair of the lowest rank, of equal
  // ones the leftmost, until none is left: O(n log n). A symbol that is no token is given byte by
  // byte; a byte without a token (in a damaged file) is dropped.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  using Symbol = uint32_t;
  using Rank = uint32_t;

  struct Merge {
    Symbol left, right, result;
  };
  struct Slot {
    uint64_t pair = 0;
    Rank rank = kNoRank;  // kNoRank: the slot is free
  };
  static constexpr Rank kNoRank = UINT32_MAX;

  MergeRules() = default;
  size_t slot_of(uint64_t pair) const;
  void insert(Symbol left, Symbol right, Rank rank);
  Rank find(Symbol left, Symbol right) const;
  bool is_token(Symbol symbol) const { return symbol < n_tokens_; }
  void encode_piece(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void emit(Symbol symbol, std::string_view bytes, std::vector<TokenId>& out) const;

  Symbol n_tokens_ = 0;
  std::array<Symbol, 256> byte_symbols_ = {};
  std::vector<Merge> merges_;  // by rank
  std::vector<Slot> slots_;    // open addressing; a power of two, at most half full
  uint64_t hash_multiplier_ = 1;
  unsigned hash_shift_ = 0;
};

class MergeRules::Scratch {
 private:
  friend class MergeRules;

  // The symbols of the word, one per byte at first, as a list: a symbol begins at the byte of its
  // own index and ends where the next one begins.
  struct Node {
    Symbol symbol;
    uint32_t previous, next;
  };
  // Rank in the high half, index of the left symbol in the low one: the smallest is merged first.
  using Candidate = uint64_t;

  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;  // smallest on top
};

}  // namespace kvasir::text
