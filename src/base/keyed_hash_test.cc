#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvasir {
namespace {

// The key 00 01 .. 0f and the texts "", 00, 00 01, ...: the paper's own vectors.
constexpr HashKey kPaperKey = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string counting(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(i));
  return text;
}

TEST(SipHash, GivesThePublishedValues) {
  EXPECT_EQ(sip_hash(kPaperKey, ""), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(sip_hash(kPaperKey, counting(1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(sip_hash(kPaperKey, counting(8)), 0x93f5f5799a932462u);
  EXPECT_EQ(sip_hash(kPaperKey, counting(15)), 0xa129ca6149be45e5u);
}

// Every bit of the key, and every byte and the length of the text, matter.
TEST(SipHash, DependsOnEverything) {
  std::set<uint64_t> seen = {sip_hash({}, "")};
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(seen.insert(sip_hash({uint64_t{1} << bit, 0}, "")).second);
    EXPECT_TRUE(seen.insert(sip_hash({0, uint64_t{1} << bit}, "")).second);
  }
  for (size_t length = 1; length < 20; ++length) {
    EXPECT_TRUE(seen.insert(sip_hash({}, std::string(length, '\0'))).second);
    for (size_t i = 0; i < length; ++i) {
      std::string text(length, '\0');
      text[i] = 'x';
      EXPECT_TRUE(seen.insert(sip_hash({}, text)).second);
    }
  }
}

TEST(KeyedHash, IsTheSameForTheSameText) {
  EXPECT_EQ(keyed_hash("a text"), KeyedHash()(std::string("a text")));
  EXPECT_NE(keyed_hash("a text"), keyed_hash("a texu"));
  EXPECT_NE(keyed_hash(""), sip_hash({}, ""));  // the key is not the empty one
}

}  // namespace
}  // namespace kvasir
