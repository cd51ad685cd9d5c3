#include "text/normalize.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "text/random_text.h"
#include "text/utf8.h"

namespace kvasir::text {
namespace {

// utf8proc's whole-string function, whose reordering is slow but independent of ours.
std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  EXPECT_GE(n, 0);
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(n)};
}

TEST(Normalize, ComposesAndOrdersMarks) {
  EXPECT_EQ(to_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(to_nfc("\u212B"), "\u00C5");                        // Angstrom sign
  EXPECT_EQ(to_nfc("\u1100\u1161\u11A8"), "\uAC01");            // Hangul
  EXPECT_EQ(to_nfc("a\u0315\u0316"), "a\u0316\u0315");          // classes 232, 220
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093C");                  // composition exclusion
  EXPECT_EQ(to_nfc("s\u0323\u0307"), to_nfc("s\u0307\u0323"));  // both become U+1E69
  EXPECT_EQ(to_nfc(std::string("a\0b", 3)), std::string("a\0b", 3));
}

TEST(Normalize, EqualsTheLibraryOnRandomTexts) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    std::string text = random_text(random, 40);
    for (size_t marks = random_below(random, 8); marks > 0; --marks) {
      append_utf8(text, static_cast<char32_t>(0x300 + random_below(random, 0x6F)));
    }
    const std::string normal = to_nfc(text);
    ASSERT_EQ(normal, library_nfc(text)) << "seed " << seed;
    ASSERT_EQ(to_nfc(normal), normal) << "seed " << seed;
  }
}

TEST(Normalize, TextCalledCertainlyNormalIs) {
  std::string all;
  for (char32_t code = 0; code < 0x300; ++code) {
    append_utf8(all, code);
    append_utf8(all, 'e');
  }
  EXPECT_TRUE(is_certainly_nfc(all));
  EXPECT_EQ(to_nfc(all), all);
  EXPECT_FALSE(is_certainly_nfc("e\u0301"));
}

// An insertion sort takes minutes for this.
TEST(Normalize, OrdersAMegabyteOfMarks) {
  std::string text = "a", marks;
  for (int i = 0; i < 250'000; ++i) marks += "\u0315\u0316";
  const std::string normal = to_nfc(text + marks);
  EXPECT_EQ(normal.size(), text.size() + marks.size());
  EXPECT_TRUE(normal.starts_with("a\u0316\u0316"));
  EXPECT_TRUE(normal.ends_with("\u0315\u0315"));
}

}  // namespace
}  // namespace kvasir::text
