#include "base/sha256.h"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

// The first two from FIPS 180-4's examples, the third from NIST's test of the empty message.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSameHash) {
  std::string text(1000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  std::string whole = sha256_hex(bytes_of(text));
  for (size_t piece : {1u, 63u, 64u, 65u, 999u}) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece)
      hash.update(bytes_of(std::string_view(text).substr(at, piece)));
    EXPECT_EQ(hash.hex(), whole) << piece;
  }
}

TEST(Sha256, MoreMayFollowAfterHex) {
  Sha256 hash;
  hash.update(bytes_of("a"));
  EXPECT_EQ(hash.hex(), sha256_hex(bytes_of("a")));
  EXPECT_EQ(hash.hex(), sha256_hex(bytes_of("a")));
  hash.update(bytes_of("bc"));
  EXPECT_EQ(hash.hex(), sha256_hex(bytes_of("abc")));
}

}  // namespace
}  // namespace kvasir
