#include "api/keys.h"

#include <gtest/gtest.h>

namespace kvasir::api {
namespace {

constexpr std::string_view kFile =
    "# people\n"
    "\n"
    "alice:0123456789abcdef\n"
    "bob:fedcba9876543210:observe\r\n"
    "carol:0123456789abcdeF:admin:60\n"
    "dave:0123456789abcde/:infer:2";

KeyRing ring() {
  auto keys = parse_key_file(kFile);
  EXPECT_TRUE(keys);
  return KeyRing(std::move(*keys));
}

TEST(KeyFile, ReadsNamesScopesAndRates) {
  const KeyRing keys = ring();
  ASSERT_EQ(keys.size(), 4U);
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[0].scope, Scope::kInfer);
  EXPECT_FALSE(keys[0].requests_per_minute);
  EXPECT_EQ(keys[1].scope, Scope::kObserve);
  EXPECT_EQ(keys[2].scope, Scope::kAdmin);
  EXPECT_EQ(keys[2].requests_per_minute, 60U);
  EXPECT_EQ(keys[0].hash.size(), 64U);
  EXPECT_EQ(keys[0].hash.find("0123456789abcdef"), std::string::npos);
}

TEST(KeyFile, SaysWhichLineIsWrongAndNeverTheKey) {
  const std::string secret = "0123456789abcdef";
  for (const std::string& line : std::vector<std::string>{
           "alice", "alice:", "alice:short", ":" + secret, "a b:" + secret, "a:" + secret + ":root",
           "a:" + secret + ":infer:0", "a:" + secret + ":infer:-1",
           "a:" + secret + ":infer:1000001", "a:" + secret + ":infer:1x",
           "a:" + secret + ":infer:1:2", "a:" + secret + "\x01", "first:another-secret-key",
           "second:first-secret-key-x", "a:" + std::string(257, 'x')}) {
    const auto keys = parse_key_file("first:first-secret-key-x\n" + line + "\n");
    ASSERT_FALSE(keys) << line;
    EXPECT_TRUE(keys.error().message.starts_with("line 2: ")) << keys.error().message;
    EXPECT_EQ(keys.error().message.find(secret), std::string::npos) << keys.error().message;
  }
}

TEST(KeyRing, FindsExactlyTheKeyGiven) {
  const KeyRing keys = ring();
  EXPECT_EQ(keys.find("0123456789abcdef"), 0U);
  EXPECT_EQ(keys.find("0123456789abcdeF"), 2U);
  for (const std::string_view wrong : {"", "0123456789abcde", "0123456789abcdef ", "alice"})
    EXPECT_FALSE(keys.find(wrong)) << wrong;
  EXPECT_FALSE(keys.find(std::string(1 << 20, 'x')));
  EXPECT_FALSE(keys.find(keys[0].hash));  // who has read the hashes has no key
}

TEST(KeyRing, TakesAKeyFromEitherHeader) {
  EXPECT_EQ(presented_key("Bearer abc", ""), "abc");
  EXPECT_EQ(presented_key("bearer  abc", "other"), "abc");
  EXPECT_EQ(presented_key("Basic abc", "xyz"), "xyz");
  EXPECT_EQ(presented_key("", "xyz"), "xyz");
  EXPECT_EQ(presented_key("Bearer", ""), "");
}

TEST(KeyRates, LetAMinutesRequestsThroughAndRefillSteadily) {
  const KeyRing keys = ring();
  KeyRates rates(keys);
  const auto admitted = [&](uint64_t now_ms) { return rates.admit(3, now_ms).has_value(); };
  EXPECT_TRUE(admitted(1'000'000));
  EXPECT_TRUE(admitted(1'000'000));
  const auto refused = rates.admit(3, 1'000'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kKeyRateLimit);
  EXPECT_EQ(refused.error().retry_after_s, 30U);
  EXPECT_FALSE(admitted(1'029'999));
  EXPECT_TRUE(admitted(1'030'000));
  EXPECT_FALSE(admitted(1'030'000));
  EXPECT_FALSE(admitted(5));  // a clock that goes backwards gives nothing
  EXPECT_TRUE(admitted(uint64_t{1} << 63));
  EXPECT_TRUE(admitted(uint64_t{1} << 63));
  EXPECT_FALSE(admitted(uint64_t{1} << 63));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(rates.admit(0, 0));  // has no rate
}

}  // namespace
}  // namespace kvasir::api
