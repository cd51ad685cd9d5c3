#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "text/random_text.h"
#include "text/utf8.h"

namespace kvasir::text {
namespace {

// Pushes `pieces` and returns the concatenation, finish() included.
std::string run(Detokenizer& detokenizer, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += detokenizer.push(piece);
  return text + detokenizer.finish();
}

TEST(Detokenizer, NeverHandsOutHalfACharacter) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.push("a\xF0"), "a");
  EXPECT_EQ(detokenizer.push("\x9F"), "");
  EXPECT_EQ(detokenizer.push("\x91"), "");
  EXPECT_EQ(detokenizer.push("\x8D!"), "\U0001F44D!");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ReplacesWhatCanNeverBecomeACharacterAtOnce) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.push("\xFF"), "\uFFFD");
  EXPECT_EQ(detokenizer.push("\x80"), "\uFFFD");
  EXPECT_EQ(detokenizer.push("\xC0\xAF"), "\uFFFD\uFFFD");  // overlong
  EXPECT_EQ(detokenizer.push("\xED"), "");                  // may still become U+D000
  EXPECT_EQ(detokenizer.push("\xA0"), "\uFFFD\uFFFD");      // a surrogate: no longer
  EXPECT_EQ(detokenizer.push("\xF0\x9F\x98"), "");          // one sequence,
  EXPECT_EQ(detokenizer.push("A"),
            "\uFFFD"
            "A");                                           // one replacement
  EXPECT_EQ(detokenizer.push("\xF4\x90"), "\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(detokenizer.push("\xE2\x82"), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");  // the incomplete tail
}

TEST(Detokenizer, StopsAtAStringThatCrossesTokens) {
  Detokenizer detokenizer({"STOP"});
  EXPECT_EQ(detokenizer.push("a S"), "a ");
  EXPECT_EQ(detokenizer.push("T"), "");
  EXPECT_EQ(detokenizer.push("OOL ST"), "STOOL ");
  EXPECT_FALSE(detokenizer.stopped());
  EXPECT_EQ(detokenizer.push("OP and more"), "");
  EXPECT_TRUE(detokenizer.stopped());
  EXPECT_EQ(detokenizer.push("more"), "");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, HandsOutAnUnfinishedStopStringAtTheEnd) {
  Detokenizer detokenizer({"STOP"});
  EXPECT_EQ(detokenizer.push("xSTO"), "x");
  EXPECT_EQ(detokenizer.finish(), "STO");
  EXPECT_FALSE(detokenizer.stopped());
}

TEST(Detokenizer, FindsAStopStringWhoseBeginningRepeats) {
  Detokenizer detokenizer({"aab"});
  EXPECT_EQ(detokenizer.push("aaa"), "a");
  EXPECT_EQ(detokenizer.push("a"), "a");
  EXPECT_EQ(detokenizer.push("b"), "");
  EXPECT_TRUE(detokenizer.stopped());

  Detokenizer periodic({"ababac"});
  EXPECT_EQ(run(periodic, {"ababab", "ac!"}), "ab");
  EXPECT_TRUE(periodic.stopped());
}

TEST(Detokenizer, OfOverlappingStopStringsTheOneCompletedFirstCounts) {
  Detokenizer first({"abcd", "bc"});
  EXPECT_EQ(run(first, {"xabcd"}), "xa");
  Detokenizer longer({"bc", "abc"});  // both completed by c
  EXPECT_EQ(run(longer, {"xabc"}), "x");
}

TEST(Detokenizer, StopStringsAreMatchedAsText) {
  Detokenizer unicode({"\u00E9nd"});
  EXPECT_EQ(run(unicode, {"\xC3", "\xA8\xC3", "\xA9n", "d!"}), "\u00E8");
  EXPECT_TRUE(unicode.stopped());
  // As invalid bytes are shown, so they are looked for.
  Detokenizer invalid({"\xFF"});
  EXPECT_EQ(run(invalid, {"a\x80z"}), "a");
  // A continuation byte is no text of its own and stops in the middle of nothing.
  Detokenizer half({"\xA9"});
  EXPECT_EQ(run(half, {"\u00E9"}), "\u00E9");
  Detokenizer empty({""});
  EXPECT_EQ(run(empty, {"abc"}), "abc");
}

TEST(Detokenizer, ValidTextComesOutUnchanged) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const std::string text = random_text(random, 30);
    Detokenizer detokenizer;
    ASSERT_EQ(run(detokenizer, {text}), text) << "seed " << seed;
  }
}

// Cuts random bytes at random places. A cut may delay text, never change it; and each piece handed
// out is valid UTF-8.
TEST(Detokenizer, TheCutsDoNotMatter) {
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    Random random(seed);
    std::string bytes = random_bytes(random, 30);
    std::vector<std::string> stops;
    for (size_t n = random_below(random, 4); n > 0; --n) {
      if (bytes.empty()) break;
      const size_t at = random_below(random, bytes.size());
      stops.push_back(bytes.substr(at, 1 + random_below(random, 6)));
      // A near miss in front of it.
      bytes.insert(random_below(random, at + 1), stops.back().substr(0, stops.back().size() - 1));
    }
    Detokenizer whole(stops);
    const std::string expected = run(whole, {bytes});

    Detokenizer cut(stops);
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = random_below(random, 4);
      const std::string part = cut.push(std::string_view(bytes).substr(at, n));
      ASSERT_TRUE(is_valid_utf8(part)) << "seed " << seed;
      text += part;
      at += n;
    }
    text += cut.finish();
    ASSERT_EQ(text, expected) << "seed " << seed;
    ASSERT_EQ(cut.stopped(), whole.stopped()) << "seed " << seed;
    for (const std::string& stop : stops) {
      if (is_valid_utf8(stop)) {
        ASSERT_EQ(text.find(stop), std::string::npos) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::text
