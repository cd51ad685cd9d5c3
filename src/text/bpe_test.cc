#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>

#include "text/random_text.h"
#include "text/test_vocabulary.h"

namespace kvasir::text {
namespace {

// The definition, on strings: merge the pair of the lowest rank, leftmost first, until none is
// left.
std::vector<TokenId> merge_slowly(const TestVocabulary& vocabulary, const std::string& word) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string& merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    ranks.emplace(std::pair(merge.substr(0, space), merge.substr(space + 1)), rank);
  }
  std::vector<std::string> symbols;
  for (const char byte : word) symbols.push_back(to_byte_alphabet({&byte, 1}));
  for (;;) {
    size_t best = SIZE_MAX, best_rank = SIZE_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best = i;
        best_rank = found->second;
      }
    }
    if (best == SIZE_MAX) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }

  std::map<std::string, TokenId> ids;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.types[i] == static_cast<int32_t>(TokenType::kNormal)) {
      ids.emplace(vocabulary.tokens[i], static_cast<TokenId>(i));
    }
  }
  std::vector<TokenId> out;
  for (const std::string& symbol : symbols) {
    if (ids.contains(symbol)) {
      out.push_back(ids[symbol]);
      continue;
    }
    for (std::string_view rest = symbol; !rest.empty();) {
      const size_t n = read_utf8(rest).bytes;
      if (const auto byte = ids.find(std::string(rest.substr(0, n))); byte != ids.end()) {
        out.push_back(byte->second);
      }
      rest.remove_prefix(n);
    }
  }
  return out;
}

// Letters a to d; a merge's sides and result are tokens or not, entries repeat, and some bytes have
// no token at all.
TestVocabulary random_vocabulary(Random& random) {
  TestVocabulary vocabulary;
  vocabulary.pre = "gpt2";
  std::vector<std::string> parts = {"a", "b", "c", "d"};
  for (const std::string& letter : parts) {
    if (random_below(random, 12) != 0) vocabulary.add(letter);
  }
  const size_t merges = random_below(random, 20);
  for (size_t i = 0; i < merges; ++i) {
    const std::string left = parts[random_below(random, parts.size())];
    const std::string right = parts[random_below(random, parts.size())];
    vocabulary.merges.push_back(left + " " + right);
    const std::string joined = left + right;
    const bool is_new = std::find(parts.begin(), parts.end(), joined) == parts.end();
    if (!is_new) continue;
    parts.push_back(joined);
    const size_t kind = random_below(random, 6);
    if (kind == 0) vocabulary.add(joined, TokenType::kControl);
    if (kind >= 2) vocabulary.add(joined);
  }
  if (vocabulary.tokens.empty()) vocabulary.add("a");
  return vocabulary;
}

TEST(MergeRules, EqualTheDefinitionOnRandomRulesAndWords) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const TestVocabulary vocabulary = random_vocabulary(random);
    auto tokenizer = load_tokenizer(vocabulary);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    for (int i = 0; i < 10; ++i) {
      std::string word;
      for (size_t n = random_below(random, 30); n > 0; --n) {
        word += static_cast<char>('a' + random_below(random, 4));
      }
      ASSERT_EQ(tokenizer->encode(word, SpecialTokens::kPlainText), merge_slowly(vocabulary, word))
          << "seed " << seed << " word " << word;
    }
  }
}

TEST(MergeRules, OfEqualRanksTheLeftmostMergesFirst) {
  TestVocabulary vocabulary = small_vocabulary();
  const auto tokenizer = load_tokenizer(vocabulary);
  const TokenId aa = tokenizer->find("aa"), aaaa = tokenizer->find("aaaa");
  EXPECT_EQ(tokenizer->encode("aaaaaaa", SpecialTokens::kPlainText),
            (std::vector<TokenId>{aaaa, aa, 'a'}));
}

TEST(MergeRules, AnEntryWithoutTwoPartsIsRefusedByItsIndex) {
  for (const char* bad : {"", " ", "a", "a ", " b", "ab"}) {
    TestVocabulary vocabulary = small_vocabulary();
    const size_t index = vocabulary.merges.size();
    vocabulary.merges.push_back(bad);
    const auto tokenizer = load_tokenizer(vocabulary);
    ASSERT_FALSE(tokenizer) << "'" << bad << "'";
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::kCorrupt);
    EXPECT_NE(tokenizer.error().message.find(fmt::format("merges: entry {} ", index)),
              std::string::npos)
        << tokenizer.error().message;
  }
}

// A hostile file must not let plain text become a control token by way of merging.
TEST(MergeRules, NeverProduceAControlToken) {
  TestVocabulary vocabulary = small_vocabulary();
  const TokenId control = vocabulary.add("xy", TokenType::kControl);
  vocabulary.merges.push_back("x y");
  for (const char* pre : {"qwen2", "llama-bpe"}) {
    vocabulary.pre = pre;
    const auto tokenizer = load_tokenizer(vocabulary);
    EXPECT_EQ(tokenizer->encode("xy", SpecialTokens::kPlainText), (std::vector<TokenId>{'x', 'y'}));
    EXPECT_EQ(tokenizer->encode("xy", SpecialTokens::kParse), (std::vector<TokenId>{control}));
  }
}

}  // namespace
}  // namespace kvasir::text
