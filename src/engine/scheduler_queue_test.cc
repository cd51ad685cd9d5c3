// Admission: bounds with both numbers, and fairness between users.
#include "engine/scheduler_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace kvasir::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

AdmissionLimits limits() {
  AdmissionLimits limits;
  limits.context_max = 100;
  limits.memory_bytes = 1000;
  limits.running_max = 4;
  limits.queue_max = 6;
  limits.queue_per_user_max = 3;
  limits.overtakes_max = 2;
  return limits;
}

std::vector<uint64_t> admit_all(AdmissionQueue& queue) {
  std::vector<uint64_t> ids;
  while (auto id = queue.admit()) ids.push_back(*id);
  return ids;
}

TEST(AdmissionQueue, RefusesWhatCanNeverFitWithBothNumbers) {
  AdmissionQueue queue(limits());
  auto refused = queue.offer({1, "a", 101, 10});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, Refusal::kTooLarge);
  EXPECT_EQ(refused->error.kind, ErrorKind::kLimit);
  EXPECT_EQ(refused->error.message, "prompt and answer need 101 tokens, the context has 100");
  refused = queue.offer({1, "a", 100, 1001});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, Refusal::kTooLarge);
  EXPECT_EQ(refused->error.message,
            "100 tokens need 1001 bytes of memory, all sequences together have 1000");
  EXPECT_FALSE(queue.offer({1, "a", 100, 1000}));
  EXPECT_THAT(admit_all(queue), ElementsAre(1));
}

TEST(AdmissionQueue, TellsAFullQueueFromAUserWithTooMany) {
  AdmissionQueue queue(limits());
  uint64_t id = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.offer({++id, "a", 1, 1}));
  auto refused = queue.offer({++id, "a", 1, 1});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, Refusal::kUserQueueFull);
  EXPECT_THAT(refused->error.message, HasSubstr("3 requests of this user wait, at most 3"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.offer({++id, "b", 1, 1}));
  refused = queue.offer({++id, "c", 1, 1});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reason, Refusal::kQueueFull);
  EXPECT_THAT(refused->error.message, HasSubstr("6 requests wait, at most 6"));
}

TEST(AdmissionQueue, LetsUsersTakeTurns) {
  AdmissionQueue queue(limits());
  for (uint64_t id : {1, 2, 3}) EXPECT_FALSE(queue.offer({id, "a", 1, 1}));
  EXPECT_FALSE(queue.offer({4, "b", 1, 1}));
  EXPECT_FALSE(queue.offer({5, "c", 1, 1}));
  EXPECT_FALSE(queue.offer({6, "c", 1, 1}));
  EXPECT_THAT(admit_all(queue), ElementsAre(1, 4, 5, 2));
  EXPECT_EQ(queue.running(), 4U);
  EXPECT_EQ(queue.waiting(), 2U);
  queue.finished(4);
  EXPECT_THAT(admit_all(queue), ElementsAre(6));
  queue.finished(1);
  EXPECT_THAT(admit_all(queue), ElementsAre(3));
}

TEST(AdmissionQueue, BoundsWhatOneUserRuns) {
  AdmissionLimits few = limits();
  few.running_per_user_max = 1;
  AdmissionQueue queue(few);
  for (uint64_t id : {1, 2}) EXPECT_FALSE(queue.offer({id, "a", 1, 1}));
  EXPECT_FALSE(queue.offer({3, "b", 1, 1}));
  EXPECT_THAT(admit_all(queue), ElementsAre(1, 3));
  queue.finished(1);
  EXPECT_THAT(admit_all(queue), ElementsAre(2));
}

// A large request waits for memory; smaller ones go ahead a few times, then everybody waits for it.
TEST(AdmissionQueue, LetsALargeRequestNotWaitForever) {
  AdmissionLimits wide = limits();
  wide.queue_per_user_max = 10;
  AdmissionQueue queue(wide);
  EXPECT_FALSE(queue.offer({1, "a", 1, 400}));
  EXPECT_FALSE(queue.offer({2, "a", 1, 900}));
  for (uint64_t id : {3, 4, 5, 6}) EXPECT_FALSE(queue.offer({id, "b", 1, 50}));
  // 3 was before it, 4 and 5 go ahead.
  EXPECT_THAT(admit_all(queue), ElementsAre(1, 3, 4, 5));
  queue.finished(3);
  EXPECT_THAT(admit_all(queue), ElementsAre());
  queue.finished(1);
  EXPECT_THAT(admit_all(queue), ElementsAre(2));
  queue.finished(4);
  EXPECT_THAT(admit_all(queue), ElementsAre(6));
}

TEST(AdmissionQueue, TakesOutWhatWaits) {
  AdmissionQueue queue(limits());
  EXPECT_FALSE(queue.offer({1, "a", 1, 1000}));
  EXPECT_THAT(admit_all(queue), ElementsAre(1));
  EXPECT_FALSE(queue.offer({2, "a", 1, 1}));
  EXPECT_FALSE(queue.offer({3, "b", 1, 1}));
  EXPECT_TRUE(queue.remove(2));
  EXPECT_FALSE(queue.remove(2));
  EXPECT_FALSE(queue.remove(1)) << "it runs";
  EXPECT_EQ(queue.waiting(), 1U);
  queue.finished(1);
  EXPECT_THAT(admit_all(queue), ElementsAre(3));
}

// Random requests of random sizes: the bounds hold at every moment, nobody is lost, a user's
// requests go in order.
TEST(AdmissionQueue, KeepsItsBoundsAndLosesNobody) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    AdmissionQueue queue(limits());
    std::map<uint64_t, uint64_t> bytes, running;
    std::map<uint64_t, std::string> user_of;
    std::map<std::string, uint64_t> last_admitted;
    std::set<uint64_t> waiting;
    uint64_t next = 0;
    for (int step = 0; step < 1000 || !waiting.empty() || !running.empty(); ++step) {
      ASSERT_LT(step, 100'000);
      if (step < 1000 && random() % 2 == 0) {
        const uint64_t id = ++next;
        user_of[id] = std::string(1, static_cast<char>('a' + random() % 4));
        bytes[id] = 1 + random() % 1000;
        if (!queue.offer({id, user_of[id], 1, bytes[id]})) waiting.insert(id);
      }
      if (!waiting.empty() && random() % 20 == 0) {
        EXPECT_TRUE(queue.remove(*waiting.begin()));
        waiting.erase(waiting.begin());
      }
      for (uint64_t id : admit_all(queue)) {
        EXPECT_EQ(waiting.erase(id), 1U);
        EXPECT_GT(id, last_admitted[user_of[id]]);
        last_admitted[user_of[id]] = id;
        running[id] = bytes[id];
      }
      uint64_t used = 0;
      for (auto [id, each] : running) used += each;
      EXPECT_EQ(queue.bytes_in_use(), used);
      EXPECT_LE(used, 1000U);
      EXPECT_LE(running.size(), 4U);
      EXPECT_LE(waiting.size(), 6U);
      EXPECT_EQ(queue.waiting(), waiting.size());
      EXPECT_TRUE(waiting.empty() || !running.empty()) << "nothing runs and somebody waits";
      if (!running.empty() && random() % 3 == 0) {
        queue.finished(running.begin()->first);
        running.erase(running.begin());
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::engine
