#include "text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "text/random_text.h"

namespace kvasir::text {
namespace {

std::vector<std::pair<std::string, TokenId>> as_pairs(const std::vector<TextPiece>& pieces) {
  std::vector<std::pair<std::string, TokenId>> pairs;
  for (const TextPiece& piece : pieces) pairs.emplace_back(piece.text, piece.token);
  return pairs;
}

std::vector<std::pair<std::string, TokenId>> split(const std::vector<std::string>& tokens,
                                                   std::string_view text) {
  std::vector<SpecialTokenFinder::Entry> entries;
  for (const std::string& token : tokens) {
    entries.push_back({token, static_cast<TokenId>(entries.size())});
  }
  return as_pairs(SpecialTokenFinder(std::move(entries)).split(text));
}

// The definition: for each length from the longest, cut the uncut pieces at their leftmost token of
// that length until there is none.
std::vector<std::pair<std::string, TokenId>> split_slowly(const std::vector<std::string>& tokens,
                                                          const std::string& text) {
  std::set<size_t, std::greater<>> lengths;
  for (const std::string& token : tokens) lengths.insert(token.size());
  std::vector<std::pair<std::string, TokenId>> pieces = {{text, -1}};
  for (const size_t length : lengths) {
    std::vector<std::pair<std::string, TokenId>> next;
    for (auto [rest, id] : pieces) {
      while (id < 0 && !rest.empty()) {
        size_t at = std::string::npos, found = 0;
        for (size_t i = 0; i < tokens.size(); ++i) {
          if (tokens[i].size() != length || rest.find(tokens[i]) >= at) continue;
          at = rest.find(tokens[i]);
          found = i;
        }
        if (at == std::string::npos) break;
        if (at > 0) next.emplace_back(rest.substr(0, at), -1);
        next.emplace_back(tokens[found], static_cast<TokenId>(found));
        rest.erase(0, at + length);
      }
      if (!rest.empty()) next.emplace_back(rest, id);
    }
    pieces = std::move(next);
  }
  std::erase_if(pieces, [](const auto& piece) { return piece.first.empty(); });
  return pieces;
}

TEST(SpecialTokenFinder, EqualsTheDefinitionOnRandomTokensAndTexts) {
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    Random random(seed);
    const auto letters = [&](size_t n) {
      std::string text;
      for (; n > 0; --n) text += static_cast<char>('a' + random_below(random, 3));
      return text;
    };
    std::set<std::string> tokens;
    for (size_t n = random_below(random, 7); n > 0; --n) {
      tokens.insert(letters(1 + random_below(random, 6)));
    }
    const std::vector<std::string> list(tokens.begin(), tokens.end());
    const std::string text = letters(random_below(random, 25));
    ASSERT_EQ(split(list, text), split_slowly(list, text)) << "seed " << seed << ": " << text;
  }
}

TEST(SpecialTokenFinder, ALongerTokenWinsOverAShorterOneThatBeginsEarlier) {
  using Pieces = std::vector<std::pair<std::string, TokenId>>;
  EXPECT_EQ(split({"abc", "bcde"}, "xabcdex"), (Pieces{{"xa", -1}, {"bcde", 1}, {"x", -1}}));
  // The longest at a place may lose to a neighbour, and the next shorter one there still fits.
  EXPECT_EQ(split({"ab", "abc", "cdef"}, "abcdef"), (Pieces{{"ab", 0}, {"cdef", 2}}));
  EXPECT_EQ(split({}, "text"), (Pieces{{"text", -1}}));
  EXPECT_EQ(split({"a"}, ""), Pieces{});
}

TEST(SpecialTokenFinder, ManyTokensThatBeginWithOneAnotherStayFast) {
  std::vector<std::string> tokens;
  for (size_t n = 1; n <= 200; ++n) tokens.emplace_back(n, 'a');
  const auto pieces = split(tokens, std::string(20'150, 'a'));
  ASSERT_EQ(pieces.size(), 101u);
  EXPECT_EQ(pieces.back().first.size(), 150u);
}

}  // namespace
}  // namespace kvasir::text
