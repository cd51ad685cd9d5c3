// The program that is run again is this test: it lists its tests, or waits to be killed.
#include "chaos/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "chaos/signal_watch.h"

namespace kvasir::chaos {
namespace {

// False at the deadline.
bool run_to_end(ChildProcess& child, SignalWatch& signals) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!child.look() && std::chrono::steady_clock::now() < until) {
    PollSet polled;
    signals.add_to(polled);
    child.add_to(polled);
    polled.wait(100);
  }
  return child.look().has_value();
}

TEST(ChildProcess, IsThisProgramOnceMore) {
  auto signals = SignalWatch::create();
  ASSERT_TRUE(signals);
  ChildSetup setup;
  setup.arguments = {"--gtest_list_tests"};
  auto child = ChildProcess::start(setup);
  ASSERT_TRUE(child);
  ASSERT_TRUE(run_to_end(**child, *signals));
  EXPECT_EQ((*child)->look()->exit_code, 0);
  EXPECT_NE((*child)->out().text().find("IsThisProgramOnceMore"), std::string::npos);
  const auto lines = (*child)->out().take_lines();
  EXPECT_GT(lines.size(), 5U);
  EXPECT_TRUE((*child)->out().take_lines().empty());
}

// Not a test of its own: what the child of the next one does.
TEST(ChildProcess, DISABLED_WritesATraceAndWaits) {
  FILE* trace = std::fopen(kTracePath, "w");
  ASSERT_NE(trace, nullptr);
  std::fprintf(trace, "%s\n", std::getenv("KVASIR_TEST_WORD"));
  std::fclose(trace);
  ::pause();
}

TEST(ChildProcess, HasATraceAndCanBeKilled) {
  auto signals = SignalWatch::create();
  ASSERT_TRUE(signals);
  ChildSetup setup;
  setup.arguments = {"--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_WritesATrace*"};
  setup.environment["KVASIR_TEST_WORD"] = "here";
  setup.has_trace = true;
  auto child = ChildProcess::start(setup);
  ASSERT_TRUE(child);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<std::string> lines;
  while (lines.empty() && std::chrono::steady_clock::now() < until) {
    PollSet polled;
    (*child)->add_to(polled);
    polled.wait(100);
    lines = (*child)->trace().take_lines();
  }
  EXPECT_EQ(lines, std::vector<std::string>{"here"});
  EXPECT_FALSE((*child)->look());
  (*child)->signal(SIGKILL);
  ASSERT_TRUE(run_to_end(**child, *signals));
  EXPECT_EQ((*child)->look()->signal, SIGKILL);
  EXPECT_EQ(end_text(*(*child)->look()), "signal 9");
}

// A signal that would end the program becomes a question.
TEST(SignalWatch, HearsThatItIsToStop) {
  auto signals = SignalWatch::create();
  ASSERT_TRUE(signals);
  EXPECT_FALSE(signals->stop_requested());
  ::kill(::getpid(), SIGTERM);
  PollSet polled;
  signals->add_to(polled);
  polled.wait(10'000);
  EXPECT_TRUE(signals->stop_requested());
}

}  // namespace
}  // namespace kvasir::chaos
