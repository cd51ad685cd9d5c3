// Liveness, credit and reconnecting, with time and chance from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "wire/credit.h"
#include "wire/frame.h"
#include "wire/liveness.h"
#include "wire/reconnect.h"

namespace kvasir::wire {
namespace {

TEST(Liveness, PingsEvery20SecondsGiveOrTakeATenth) {
  Liveness liveness(0, 42);
  Time last = 0;
  std::map<Time, int> gaps;
  for (int i = 0; i < 1000; ++i) {
    liveness.heard(last);
    const Time at = liveness.wake_at();
    EXPECT_FALSE(liveness.ping_due(at - 1));
    EXPECT_TRUE(liveness.ping_due(at));
    EXPECT_FALSE(liveness.ping_due(at));
    ++gaps[at - last];
    last = at;
  }
  EXPECT_GE(gaps.begin()->first, 18'000U);
  EXPECT_LE(gaps.rbegin()->first, 22'000U);
  EXPECT_GT(gaps.size(), 500U);
}

TEST(Liveness, GoneAfter45SecondsOfSilence) {
  Liveness liveness(1'000, 1);
  liveness.heard(5'000);
  EXPECT_FALSE(liveness.gone(49'999));
  EXPECT_TRUE(liveness.gone(50'000));
  while (liveness.ping_due(50'000)) {
  }
  EXPECT_LE(liveness.wake_at(), 50'000U);
}

TEST(Credit, NobodySendsBeyondIt) {
  SendCredit credit;
  EXPECT_TRUE(credit.spend(kCreditStart, 0));
  EXPECT_FALSE(credit.spend(1, 10));
  EXPECT_EQ(credit.stalled_at(), 10 + kStalledAfterMs);
  EXPECT_FALSE(credit.spend(1, 20));
  EXPECT_EQ(credit.stalled_at(), 10 + kStalledAfterMs);
  credit.grant(kCreditStart);  // nothing new
  EXPECT_EQ(credit.stalled_at(), 10 + kStalledAfterMs);
  credit.grant(kCreditStart + 1);
  EXPECT_EQ(credit.stalled_at(), kNever);
  EXPECT_TRUE(credit.spend(1, 30));
  credit.grant(5);  // a total never goes back
  EXPECT_EQ(credit.left(), 0U);
  credit.grant(UINT64_MAX);
  EXPECT_EQ(credit.left(), kCreditMax);
}

TEST(Credit, MoreThanGrantedIsNoticed) {
  ReceiveCredit credit(kCreditMax, 0);
  EXPECT_TRUE(credit.received(kCreditStart));
  EXPECT_FALSE(credit.received(1));
}

TEST(Credit, TheWindowGrowsOnlyWhileItIsUsedUpQuickly) {
  auto window_after = [](Time step_ms, uint64_t window_max) {
    ReceiveCredit credit(window_max, 0);
    Time now = 0;
    uint64_t granted = kCreditStart, received = 0;
    for (int i = 0; i < 4'000; ++i) {
      EXPECT_TRUE(credit.received(16'384));
      received += 16'384;
      credit.consumed(16'384, now += step_ms);
      if (auto total = credit.take_grant()) granted = *total;
    }
    return granted - received;
  };
  EXPECT_GT(window_after(10, kCreditMax), kCreditMax * 7 / 8);
  EXPECT_LE(window_after(10, kCreditMax), kCreditMax);
  EXPECT_LE(window_after(10, 1 << 20), uint64_t{1} << 20);
  EXPECT_LE(window_after(1'000, kCreditMax), kCreditStart);
}

// Random traffic of all sizes up to the longest frame, both ends by their own books: the sender is
// never found to exceed, and once everything is dealt with the longest frame can go.
TEST(Credit, NeverEndsInADeadlockNorInAnExcess) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    SendCredit sender;
    ReceiveCredit receiver(kCreditStart << random() % 5, 0);
    std::vector<uint64_t> in_work;
    for (Time now = 0; now < 3'000; ++now) {
      const uint64_t bytes = random() % 4 == 0 ? kMessageMax : random() % kMessageMax + 1;
      if (sender.spend(bytes, now)) {
        if (random() % 8 == 0) {
          receiver.lost(bytes, now);
        } else {
          ASSERT_TRUE(receiver.received(bytes)) << seed;
          in_work.push_back(bytes);
        }
      }
      if (!in_work.empty() && random() % 2 == 0) {
        receiver.consumed(in_work.back(), now);
        in_work.pop_back();
      }
      if (auto total = receiver.take_grant())
        if (random() % 8 != 0) sender.grant(*total);  // some CREDITs are lost
    }
    for (uint64_t bytes : in_work) receiver.consumed(bytes, 3'000);
    sender.grant(receiver.grant_now());
    EXPECT_GE(sender.left(), kMessageMax) << seed;
  }
}

TEST(Reconnect, WaitsUnderACeilingThatDoublesTo60Seconds) {
  Time largest[12] = {};
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    Reconnect reconnect(seed);
    for (Time& most : largest)
      most = std::max(most, *reconnect.on_closed(CloseCode::kConnection, 0));
  }
  for (size_t i = 0; i < std::size(largest); ++i) {
    const Time ceiling = std::min<Time>(500U << i, 60'000);
    EXPECT_LE(largest[i], ceiling);
    EXPECT_GT(largest[i], ceiling * 9 / 10) << i;
  }
}

TEST(Reconnect, OnlyAStableSessionEndsTheBackingOff) {
  auto longest_after = [](Time lived) {
    Time most = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      Reconnect reconnect(seed);
      for (int i = 0; i < 10; ++i) reconnect.on_closed(CloseCode::kConnection, 0);
      reconnect.on_open(1'000);
      const Time now = 1'000 + lived;
      most = std::max(most, *reconnect.on_closed(CloseCode::kSilent, now) - now);
    }
    return most;
  };
  EXPECT_GT(longest_after(9'999), 50'000U);
  EXPECT_LE(longest_after(10'000), 500U);
}

TEST(Reconnect, SomeEndsNeedAPerson) {
  for (CloseCode code : {CloseCode::kVersion, CloseCode::kRole, CloseCode::kIdentity,
                         CloseCode::kFingerprint, CloseCode::kToken, CloseCode::kSuperseded}) {
    Reconnect open(1);
    open.on_open(0);
    EXPECT_FALSE(open.on_closed(code, 0)) << close_code_name(code);
    // Before that the path may have made it up.
    Reconnect never_open(1);
    for (int refusal = 1; refusal < kRefusalsBelieved; ++refusal)
      EXPECT_TRUE(never_open.on_closed(code, 0)) << close_code_name(code);
    EXPECT_FALSE(never_open.on_closed(code, 0)) << close_code_name(code);
  }
  Reconnect reconnect(1);
  for (CloseCode code : {CloseCode::kGoodbye, CloseCode::kFull, CloseCode::kRestarting,
                         CloseCode::kRenew, CloseCode::kPath, CloseCode::kStalled})
    EXPECT_TRUE(reconnect.on_closed(code, 0)) << close_code_name(code);
}

TEST(Reconnect, ARestartingServerSaysWhenItIsBack) {
  Reconnect reconnect(1);
  reconnect.on_restarting({30'000, 120'000});
  const Time at = *reconnect.on_closed(CloseCode::kRestarting, 1'000);
  EXPECT_GE(at, 31'000U);
  EXPECT_LE(at, 31'500U);
  EXPECT_LE(*reconnect.on_closed(CloseCode::kConnection, 0), 1'000U);
  reconnect.on_restarting({UINT32_MAX, UINT32_MAX});
  EXPECT_LE(*reconnect.on_closed(CloseCode::kRestarting, 0), 610'000U);
}

}  // namespace
}  // namespace kvasir::wire
