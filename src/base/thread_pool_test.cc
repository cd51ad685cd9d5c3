#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace kvasir {
namespace {

// Plain counters, not atomics: two threads on one index would be a race that TSan reports.
TEST(ThreadPool, CallsEveryIndexExactlyOnce) {
  for (size_t threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t tasks : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 100u, 1000u}) {
      std::vector<int> calls(tasks, 0);
      pool.run(tasks, [&](size_t index, size_t thread) {
        ASSERT_LT(index, tasks);
        ASSERT_LT(thread, threads);
        ++calls[index];
      });
      EXPECT_EQ(calls, std::vector<int>(tasks, 1)) << threads << " threads, " << tasks << " tasks";
    }
  }
}

// What one batch wrote, the next must see, whichever threads do the work.
TEST(ThreadPool, ManySmallBatchesFollowEachOther) {
  for (size_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    std::vector<uint64_t> values(5, 0);
    constexpr uint64_t kBatches = 500;
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      pool.run(values.size(), [&](size_t index, size_t) { values[index] += batch; });
    }
    EXPECT_EQ(values, std::vector<uint64_t>(5, kBatches * (kBatches - 1) / 2)) << threads;
  }
}

// No two tasks at a time may be given the same thread number: scratch memory is chosen by it.
TEST(ThreadPool, AThreadNumberIsUsedByOneTaskAtATime) {
  ThreadPool pool(4);
  std::vector<uint64_t> scratch(pool.threads(), 0);
  pool.run(20'000, [&](size_t, size_t thread) { ++scratch[thread]; });
  EXPECT_EQ(std::accumulate(scratch.begin(), scratch.end(), uint64_t{0}), 20'000u);
}

// Longer than the helpers spin: they must be woken from sleep. Waits on the condition that the
// other threads take part, which they only can when awake.
TEST(ThreadPool, HelpersThatFellAsleepAreWoken) {
  ThreadPool pool(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<size_t> started{0};
    // Each task waits until all three have begun, so three threads are needed to finish.
    pool.run(3, [&](size_t, size_t) {
      ++started;
      while (started.load() < 3) std::this_thread::yield();
    });
    EXPECT_EQ(started.load(), 3u);
  }
}

TEST(ThreadPool, ZeroThreadsMeansTheCaller) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.threads(), 1u);
  std::thread::id caller = std::this_thread::get_id();
  pool.run(3, [&](size_t, size_t thread) {
    EXPECT_EQ(thread, 0u);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(ThreadPool, PoolsComeAndGoWithoutWork) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(1 + static_cast<size_t>(i % 8));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space
// Limits the address space of a child, so that stacks for 64 threads do not fit.
TEST(ThreadPool, MakesDoWithTheThreadsTheSystemGives) {
  EXPECT_EXIT(
      {
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = rlim_t{256} << 20;
        ::setrlimit(RLIMIT_AS, &limit);
        ThreadPool pool(64);
        std::atomic<size_t> calls{0};
        pool.run(1000, [&](size_t, size_t) { ++calls; });
        ::_exit(pool.threads() < 64 && calls == 1000 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}
#endif

TEST(ThreadPool, TheDefaultIsAtLeastOneThread) {
  EXPECT_GE(default_thread_count(), 1u);
}

}  // namespace
}  // namespace kvasir
