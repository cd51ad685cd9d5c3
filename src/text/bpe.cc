#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>

#include "base/keyed_hash.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace kvasir::text {
namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;
constexpr uint32_t kNowhere = UINT32_MAX;

// Numbers for strings: the token's id, or the next number above the vocabulary.
class SymbolTable {
 public:
  explicit SymbolTable(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary), next_(static_cast<uint32_t>(vocabulary.size())) {}

  uint32_t intern(std::string_view text) {
    const TokenId id = vocabulary_.find_ordinary(text);
    if (id >= 0) return static_cast<uint32_t>(id);
    if (const auto found = others_.find(text); found != others_.end()) return found->second;
    others_.emplace(texts_.emplace_back(text), next_);
    return next_++;
  }

 private:
  const Vocabulary& vocabulary_;
  std::deque<std::string> texts_;  // stable addresses for the views in others_
  std::unordered_map<std::string_view, uint32_t, KeyedHash> others_;
  uint32_t next_;
};

uint64_t pair_key(uint32_t left, uint32_t right) {
  return uint64_t{left} << 32 | right;
}

}  // namespace

Result<MergeRules> MergeRules::build(const Vocabulary& vocabulary,
                                     const std::vector<std::string_view>& merges) {
  if (merges.size() > kMergesMax) {
    return Error::corrupt("tokenizer.ggml.merges: {} entries, at most {} are accepted",
                          merges.size(), kMergesMax);
  }
  MergeRules rules;
  rules.n_tokens_ = static_cast<Symbol>(vocabulary.size());
  SymbolTable symbols(vocabulary);
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, character_of_byte(static_cast<uint8_t>(byte)));
    rules.byte_symbols_[byte] = symbols.intern(text);
  }

  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  rules.slots_.resize(slots);
  rules.hash_multiplier_ = keyed_hash("merges") | 1;
  rules.hash_shift_ = 64 - static_cast<unsigned>(std::countr_zero(slots));
  rules.merges_.reserve(merges.size());
  std::string joined;
  for (const std::string_view merge : merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Error::corrupt(
          "tokenizer.ggml.merges: entry {} is not two strings with a space between",
          rules.merges_.size());
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const Merge numbers = {symbols.intern(left), symbols.intern(right), symbols.intern(joined)};
    rules.insert(numbers.left, numbers.right, static_cast<Rank>(rules.merges_.size()));
    rules.merges_.push_back(numbers);
  }
  return rules;
}

size_t MergeRules::slot_of(uint64_t pair) const {
  // The high bits of a product with an odd number that the writer of a file cannot know: two pairs
  // share a slot by chance alone.
  return pair * hash_multiplier_ >> hash_shift_;
}

void MergeRules::insert(Symbol left, Symbol right, Rank rank) {
  const uint64_t pair = pair_key(left, right);
  size_t slot = slot_of(pair);
  while (slots_[slot].rank != kNoRank) {
    if (slots_[slot].pair == pair) return;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = {pair, rank};
}

MergeRules::Rank MergeRules::find(Symbol left, Symbol right) const {
  const uint64_t pair = pair_key(left, right);
  size_t slot = slot_of(pair);
  while (slots_[slot].rank != kNoRank && slots_[slot].pair != pair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slots_[slot].rank;
}

void MergeRules::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  // Positions in a word are 32 bits wide; a word of 4 GiB is cut.
  constexpr size_t kPieceBytesMax = kNowhere - 1;
  for (; word.size() > kPieceBytesMax; word.remove_prefix(kPieceBytesMax)) {
    encode_piece(word.substr(0, kPieceBytesMax), scratch, out);
  }
  encode_piece(word, scratch, out);
}

void MergeRules::encode_piece(std::string_view word, Scratch& scratch,
                              std::vector<TokenId>& out) const {
  auto& nodes = scratch.nodes_;
  auto& heap = scratch.heap_;
  const auto end = static_cast<uint32_t>(word.size());
  nodes.resize(end);
  heap.clear();
  for (uint32_t i = 0; i < end; ++i) {
    nodes[i] = {byte_symbols_[static_cast<uint8_t>(word[i])], i == 0 ? kNowhere : i - 1, i + 1};
  }

  const auto add_candidate = [&](uint32_t left, uint32_t right) {
    if (left == kNowhere || right == end) return false;
    const Rank rank = find(nodes[left].symbol, nodes[right].symbol);
    if (rank == kNoRank) return false;
    heap.push_back(uint64_t{rank} << 32 | left);
    return true;
  };
  const auto push_candidate = [&](uint32_t left, uint32_t right) {
    if (add_candidate(left, right)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < end; ++i) add_candidate(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto position = static_cast<uint32_t>(heap.back());
    const Merge& merge = merges_[heap.back() >> 32];
    heap.pop_back();
    auto& left = nodes[position];
    // A candidate is stale if one of its symbols has meanwhile become part of another.
    if (left.symbol != merge.left || left.next == end) continue;
    auto& right = nodes[left.next];
    if (right.symbol != merge.right) continue;

    left.symbol = merge.result;
    right.symbol = kNoSymbol;
    left.next = right.next;
    if (left.next != end) nodes[left.next].previous = position;
    push_candidate(left.previous, position);
    push_candidate(position, left.next);
  }

  for (uint32_t i = 0; i < end; i = nodes[i].next) {
    emit(nodes[i].symbol, word.substr(i, nodes[i].next - i), out);
  }
}

void MergeRules::emit(Symbol symbol, std::string_view bytes, std::vector<TokenId>& out) const {
  if (is_token(symbol)) {
    out.push_back(static_cast<TokenId>(symbol));
    return;
  }
  for (const char c : bytes) {
    const Symbol byte_symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (is_token(byte_symbol)) out.push_back(static_cast<TokenId>(byte_symbol));
  }
}

}  // namespace kvasir::text
