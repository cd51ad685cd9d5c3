#include "net/event_loop.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/test_sockets.h"

namespace kvasir::net {
namespace {

TEST(EventLoop, RunsWhatOneThreadPostsInItsOrder) {
  LoopThread thread;
  std::array<std::vector<int>, 4> seen;
  std::vector<std::thread> posters;
  for (size_t poster = 0; poster < seen.size(); ++poster)
    posters.emplace_back([&, poster] {
      for (int i = 0; i < 1000; ++i)
        thread.loop().post([&seen, poster, i] { seen[poster].push_back(i); });
    });
  for (std::thread& poster : posters) poster.join();
  on_loop(thread.loop(), [] {});
  for (const auto& numbers : seen) {
    ASSERT_EQ(numbers.size(), 1000U);
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

TEST(EventLoop, DropsWhatWasNeverRun) {
  auto held = std::make_shared<int>(0);
  {
    EventLoop loop;
    Timer timer(loop);
    loop.post([held] { ++*held; });
    timer.at(EventLoop::now(), [held] { ++*held; });
  }
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Timer, CallsInTheOrderOfTimeAndNotBefore) {
  LoopThread thread;
  Mailbox<int> calls;
  std::optional<Timer> late, soon;
  Time not_before = 0;
  on_loop(thread.loop(), [&] {
    late.emplace(thread.loop());
    soon.emplace(thread.loop());
    not_before = EventLoop::now() + 30;
    late->at(not_before, [&] { calls.put(EventLoop::now() >= not_before ? 2 : -1); });
    soon->at(EventLoop::now() + 5, [&] { calls.put(1); });
  });
  EXPECT_EQ(calls.take(), 1);
  EXPECT_EQ(calls.take(), 2);
  on_loop(thread.loop(), [&] {
    late.reset();
    soon.reset();
  });
}

TEST(Timer, ANewPlanReplacesTheOldOne) {
  LoopThread thread;
  Mailbox<int> calls;
  std::optional<Timer> timer, last;
  on_loop(thread.loop(), [&] {
    timer.emplace(thread.loop());
    last.emplace(thread.loop());
    timer->at(EventLoop::now(), [&] { calls.put(1); });
    timer->at(EventLoop::now() + 1, [&] { calls.put(2); });
    last->at(EventLoop::now() + 5, [&] { calls.put(3); });
  });
  EXPECT_EQ(calls.take(), 2);
  EXPECT_EQ(calls.take(), 3);
  on_loop(thread.loop(), [&] {
    timer->at(EventLoop::now(), [&] { calls.put(4); });
    timer->at(kNever, [&] { calls.put(5); });
    last->at(EventLoop::now() + 5, [&] { calls.put(6); });
    timer.reset();
  });
  EXPECT_EQ(calls.take(), 6);
  on_loop(thread.loop(), [&] { last.reset(); });
}

TEST(Timer, MayBeDestroyedAndPlannedAnewByItsOwnCallback) {
  LoopThread thread;
  Mailbox<int> calls;
  std::optional<Timer> timer;
  std::function<void()> again = [&] {
    calls.put(1);
    if (calls.size() == 3)
      timer.reset();
    else
      timer->at(EventLoop::now(), again);
  };
  on_loop(thread.loop(), [&] {
    timer.emplace(thread.loop());
    timer->at(EventLoop::now(), again);
  });
  EXPECT_TRUE(eventually(thread.loop(), [&] { return !timer; }));
  EXPECT_EQ(calls.size(), 3U);
}

}  // namespace
}  // namespace kvasir::net
