#include "base/log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace kvasir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kTime = 1'796'022'627'123;  // 2026-11-30T07:10:27.123Z

TEST(Log, WritesOneLineForPeopleOrMachines) {
  const std::vector<LogField> fields = {{"node", "3f9a"}, {"reason", "no \"token\""},
                                        {"rows", 3U},     {"seconds", 0.5},
                                        {"again", true},  {"token", Secret("hunter2")}};
  EXPECT_EQ(log_line(LogStyle::kText, kTime, LogLevel::kWarning, "worker_refused", "it was refused",
                     fields),
            "2026-11-30T07:10:27.123Z warning worker_refused: it was refused node=3f9a "
            "reason=\"no \\\"token\\\"\" rows=3 seconds=0.5 again=true token=***");
  EXPECT_EQ(log_line(LogStyle::kJson, kTime, LogLevel::kError, "k", "m", fields),
            R"({"time":"2026-11-30T07:10:27.123Z","level":"error","kind":"k","message":"m",)"
            R"("node":"3f9a","reason":"no \"token\"","rows":3,"seconds":0.5,"again":true,)"
            R"("token":"***"})");
}

TEST(Log, EscapesWhatStrangersSend) {
  for (const LogStyle style : {LogStyle::kText, LogStyle::kJson}) {
    const std::string line = log_line(style, kTime, LogLevel::kInfo, "k", "a\nb\x1b[2J",
                                      {{"x", std::string("\xff\xc0\x80 \xc3\xa9 \xc2\x9b\0", 10)}});
    for (const char* bad : {"\n", "\x1b", "\xff", "\xc0", "\xc2\x9b"})
      EXPECT_THAT(line, Not(HasSubstr(bad)));
    EXPECT_THAT(line, HasSubstr("a\\nb\\u001b[2J"));
    EXPECT_THAT(line, HasSubstr("\"\\ufffd\\ufffd\\ufffd \xc3\xa9 \\u009b\\u0000\""));
  }
}

TEST(Log, PrintsNoSecret) {
  const Secret secret("hunter2");
  EXPECT_EQ(format_as(secret), "***");
  EXPECT_EQ(secret.reveal(), "hunter2");
}

// Time stands still, then a window passes. Kinds do not use up each other's lines.
TEST(Log, LeavesOutWhatComesTooOften) {
  int64_t now_ms = kTime;
  std::vector<std::string> lines;
  Log log({.style = LogStyle::kText,
           .level_min = LogLevel::kInfo,
           .sink = [&](std::string_view line) { lines.emplace_back(line); },
           .clock_unix_ms = [&] { return now_ms; }});
  for (int i = 0; i < 100; ++i) log.info("often", "again");
  log.debug("seldom", "not wanted");
  log.info("seldom", "once");
  ASSERT_EQ(lines.size(), Log::kLinesPerWindow + 1);
  EXPECT_THAT(lines.back(), HasSubstr("seldom: once\n"));
  now_ms += Log::kWindowMs;
  lines.clear();
  log.info("often", "again");
  log.info("often", "again");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("often: again left_out=80\n"));
  EXPECT_THAT(lines[1], Not(HasSubstr("left_out")));
}

TEST(Log, HasABoundOnKinds) {
  size_t lines = 0;
  Log log({.style = LogStyle::kText,
           .level_min = LogLevel::kInfo,
           .sink = [&](std::string_view) { ++lines; },
           .clock_unix_ms = [] { return kTime; }});
  for (size_t i = 0; i < 10 * Log::kKindsMax; ++i) log.info(fmt::format("kind{}", i), "m");
  EXPECT_EQ(lines, Log::kKindsMax + Log::kLinesPerWindow);
}

TEST(Log, MayBeUsedByManyThreads) {
  size_t bytes = 0;
  Log log({.style = LogStyle::kJson,
           .level_min = LogLevel::kInfo,
           .sink = [&](std::string_view line) { bytes += line.size(); },
           .clock_unix_ms = {}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&log] {
      for (int j = 0; j < 100; ++j) log.warning("k", "m", {{"j", j}});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(bytes, 0U);
}

}  // namespace
}  // namespace kvasir
