// The turn: one at a time, and first come, first served.
#include "engine/turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kvasir::engine {
namespace {

// `held` is no atomic: the thread sanitizer sees it if two have the turn.
TEST(Turn, IsHadByOneAtATime) {
  Turn turn;
  int held = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const TurnHolder holder(turn);
        EXPECT_EQ(++held, 1);
        --held;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Two threads that give and take at once still alternate: whoever waits comes first.
TEST(Turn, GoesToWhoeverWaitsLongest) {
  Turn turn;
  std::vector<int> order;
  turn.take();
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      turn.take();
      order.push_back(1);
      // Not before the other one stands in line again.
      while (i + 1 < 20 && turn.waiting() == 0) std::this_thread::yield();
      turn.give();
    }
  });
  for (int i = 0; i < 20; ++i) {
    while (turn.waiting() == 0) std::this_thread::yield();
    order.push_back(0);
    turn.give();
    if (i + 1 < 20) turn.take();
  }
  other.join();
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i % 2));
}

}  // namespace
}  // namespace kvasir::engine
