#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <string>

#include "text/random_text.h"
#include "text/utf8.h"

namespace kvasir::text {
namespace {

using testing::ElementsAre;

PreTokenizer create(std::string_view pre) {
  auto pre_tokenizer = PreTokenizer::create(pre);
  KVASIR_CHECK(pre_tokenizer.has_value());
  return std::move(*pre_tokenizer);
}

std::vector<std::string> split(const PreTokenizer& pre_tokenizer, const std::string& text) {
  std::vector<std::string_view> words;
  pre_tokenizer.split(text, words);
  return {words.begin(), words.end()};
}

std::vector<std::string> split(std::string_view pre, const std::string& text) {
  return split(create(pre), text);
}

// The rules of qwen2 and qwen35 written out by hand: slow, and independent of regular expressions.
class HandWritten {
 public:
  HandWritten(const std::string& text, bool marks_are_letters)
      : marks_are_letters_(marks_are_letters) {
    for (std::string_view rest = text; !rest.empty();) {
      const Utf8Prefix prefix = read_utf8(rest);
      codes_.push_back(prefix.code);
      rest.remove_prefix(prefix.bytes);
    }
  }

  std::vector<std::string> split() const {
    std::vector<std::string> words;
    for (size_t at = 0; at < codes_.size();) {
      const size_t n = word_at(at);
      std::string word;
      for (size_t i = at; i < at + n; ++i) append_utf8(word, codes_[i]);
      words.push_back(word);
      at += n;
    }
    return words;
  }

 private:
  bool exists(size_t i) const { return i < codes_.size(); }
  bool is_newline(size_t i) const { return exists(i) && (codes_[i] == '\r' || codes_[i] == '\n'); }
  bool is_space(size_t i) const {
    const char32_t c = exists(i) ? codes_[i] : 'x';
    return (c >= 9 && c <= 0xD) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
  }
  int category(size_t i) const {
    return exists(i) ? utf8proc_category(static_cast<utf8proc_int32_t>(codes_[i])) : -1;
  }
  bool is_number(size_t i) const {
    return category(i) >= UTF8PROC_CATEGORY_ND && category(i) <= UTF8PROC_CATEGORY_NO;
  }
  bool is_letter(size_t i) const {
    return category(i) >= UTF8PROC_CATEGORY_LU &&
           category(i) <= (marks_are_letters_ ? UTF8PROC_CATEGORY_ME : UTF8PROC_CATEGORY_LO);
  }
  bool is_other(size_t i) const {
    return exists(i) && !is_space(i) && !is_number(i) && !is_letter(i);
  }
  char lower(size_t i) const {
    const char32_t c = exists(i) ? codes_[i] : 0;
    return c < 0x80 ? static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c) : '\0';
  }
  size_t contraction_at(size_t at) const {
    if (codes_[at] != '\'') return 0;
    const char a = lower(at + 1), b = lower(at + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return 0;
  }

  // The number of characters of the word that begins at `at`.
  size_t word_at(size_t at) const {
    if (const size_t n = contraction_at(at)) return n;
    if (!is_newline(at) && !is_number(at) && (is_letter(at) || is_letter(at + 1))) {
      size_t end = at + 1;
      while (is_letter(end)) ++end;
      return end - at;
    }
    if (is_number(at)) return 1;
    const size_t first = at + (codes_[at] == ' ' ? 1 : 0);
    if (is_other(first)) {
      size_t end = first;
      while (is_other(end)) ++end;
      while (is_newline(end)) ++end;
      return end - at;
    }
    size_t run = 0, to_last_newline = 0;
    for (; is_space(at + run); ++run) {
      if (is_newline(at + run)) to_last_newline = run + 1;
    }
    if (to_last_newline > 0) return to_last_newline;
    return run > 1 && exists(at + run) ? run - 1 : run;
  }

  bool marks_are_letters_;
  std::vector<char32_t> codes_;
};

TEST(PreTokenizer, Qwen2AndQwen35EqualTheHandWrittenRulesOnRandomTexts) {
  const PreTokenizer qwen2 = create("qwen2"), qwen35 = create("qwen35");
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    Random random(seed);
    const std::string text = random_text(random, 30);
    ASSERT_EQ(split(qwen2, text), HandWritten(text, false).split()) << "seed " << seed;
    ASSERT_EQ(split(qwen35, text), HandWritten(text, true).split()) << "seed " << seed;
  }
}

TEST(PreTokenizer, EveryKnownNameCompilesAndKeepsAllOfTheText) {
  auto unknown = PreTokenizer::create("no-such-rule");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnsupported);
  ASSERT_THAT(unknown.error().hint, testing::StartsWith("known are: qwen2, qwen35, "));

  std::string names = unknown.error().hint.substr(unknown.error().hint.find(' ', 7) + 1) + ", ";
  for (size_t end; (end = names.find(", ")) != std::string::npos; names.erase(0, end + 2)) {
    const std::string name = names.substr(0, end);
    const PreTokenizer pre_tokenizer = create(name);
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      const std::string text = random_text(random, 30);
      std::string joined;
      for (const std::string& word : split(pre_tokenizer, text)) {
        ASSERT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text) << name << ", seed " << seed;
    }
  }
}

TEST(PreTokenizer, MarksBelongToWordsOnlyInQwen35) {
  const std::string hindi = "\u0939\u093F\u0928";  // letter, mark, letter
  EXPECT_THAT(split("qwen2", hindi), ElementsAre("\u0939", "\u093F\u0928"));
  EXPECT_THAT(split("qwen35", hindi), ElementsAre(hindi));
}

TEST(PreTokenizer, SplitsLikeThePublishedRules) {
  EXPECT_THAT(split("qwen2", "I'LL go  12 now!\n\n x "),
              ElementsAre("I", "'LL", " go", " ", " ", "1", "2", " now", "!\n\n", " x", " "));
  EXPECT_THAT(split("gpt2", "I'LL've 123 now!\n\n x "),
              ElementsAre("I", "'", "LL", "'ve", " 123", " now", "!", "\n\n", " x", " "));
  EXPECT_THAT(split("llama-bpe", "x 12345"), ElementsAre("x", " ", "123", "45"));
  EXPECT_THAT(split("starcoder", "x 123"), ElementsAre("x", " ", "1", "2", "3"));
  EXPECT_THAT(split("default", "a, b12345"), ElementsAre("a", ",", " b", "123", "45"));
}

// Unicode's case folding maps U+017F to s; the published rules do not mean that.
TEST(PreTokenizer, LongSIsNoContraction) {
  EXPECT_THAT(split("qwen2", "it'\u017F"), ElementsAre("it", "'\u017F"));
  EXPECT_THAT(split("qwen2", "it'S!"), ElementsAre("it", "'S", "!"));
}

// PCRE2's own \s contains it.
TEST(PreTokenizer, MongolianVowelSeparatorIsNoSpace) {
  EXPECT_THAT(split("qwen2", "!\u180E!"), ElementsAre("!\u180E!"));
  EXPECT_THAT(split("qwen2", "!\u3000!"), ElementsAre("!", "\u3000", "!"));
}

TEST(PreTokenizer, LongRunsAreOneWord) {
  for (const char* pre : {"qwen2", "qwen35", "gpt2", "llama-bpe"}) {
    for (const std::string unit : {"a", " ", "!", "\n", "\u00A0", "\u0301", "\u4E2D"}) {
      std::string text;
      for (int i = 0; i < 400'000; ++i) text += unit;
      EXPECT_EQ(split(pre, text).size(), 1u) << pre << " " << unit;
    }
  }
}

}  // namespace
}  // namespace kvasir::text
