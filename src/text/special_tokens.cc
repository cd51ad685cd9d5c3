#include "text/special_tokens.h"

#include <algorithm>

namespace kvasir::text {

SpecialTokenFinder::SpecialTokenFinder(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.text < b.text; });
  longest_prefix_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    begins_entry_[static_cast<uint8_t>(entries_[i].text.front())] = true;
    // In sorted order every prefix of entry i is entry i - 1 or a prefix of it.
    size_t prefix = i == 0 ? kNone : i - 1;
    while (prefix != kNone && !entries_[i].text.starts_with(entries_[prefix].text)) {
      prefix = longest_prefix_[prefix];
    }
    longest_prefix_.push_back(prefix);
  }
}

size_t SpecialTokenFinder::longest_at(std::string_view text) const {
  const auto after = std::upper_bound(
      entries_.begin(), entries_.end(), text,
      [](std::string_view value, const Entry& entry) { return value < entry.text; });
  // As above: what `text` begins with is the last entry not after it, or a prefix of that.
  size_t entry =
      after == entries_.begin() ? kNone : static_cast<size_t>(after - entries_.begin()) - 1;
  while (entry != kNone && !text.starts_with(entries_[entry].text)) entry = longest_prefix_[entry];
  return entry;
}

std::vector<TextPiece> SpecialTokenFinder::split(std::string_view text) const {
  // The longest entry still possible at each position where there is one.
  struct Match {
    size_t entry, begin, bytes;
    bool operator<(const Match& other) const {  // for a heap: longest, then leftmost, on top
      return bytes != other.bytes ? bytes < other.bytes : begin > other.begin;
    }
  };
  std::vector<Match> heap;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!begins_entry_[static_cast<uint8_t>(text[i])]) continue;
    const size_t entry = longest_at(text.substr(i));
    if (entry != kNone) heap.push_back({entry, i, entries_[entry].text.size()});
  }
  if (heap.empty()) return text.empty() ? std::vector<TextPiece>{} : std::vector{TextPiece{text}};
  std::make_heap(heap.begin(), heap.end());

  std::vector<Match> taken;
  std::vector<bool> covered(text.size());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    Match match = heap.back();
    heap.pop_back();
    // Everything taken so far is at least as long, so an overlap shows at one of the ends.
    if (covered[match.begin]) continue;
    if (covered[match.begin + match.bytes - 1]) {
      const size_t shorter = longest_prefix_[match.entry];
      if (shorter == kNone) continue;
      heap.push_back({shorter, match.begin, entries_[shorter].text.size()});
      std::push_heap(heap.begin(), heap.end());
      continue;
    }
    std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(match.begin), match.bytes, true);
    taken.push_back(match);
  }
  std::sort(taken.begin(), taken.end(),
            [](const Match& a, const Match& b) { return a.begin < b.begin; });

  std::vector<TextPiece> pieces;
  size_t at = 0;
  for (const Match& match : taken) {
    if (match.begin > at) pieces.push_back({text.substr(at, match.begin - at)});
    pieces.push_back({text.substr(match.begin, match.bytes), entries_[match.entry].token});
    at = match.begin + match.bytes;
  }
  if (at < text.size()) pieces.push_back({text.substr(at)});
  return pieces;
}

}  // namespace kvasir::text
