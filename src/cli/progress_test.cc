#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kvasir::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ProgressLine, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_line("loading", Unit::kBytes, kGiB, 4 * kGiB, 10, 120),
            "loading [##########..............................]  25 %  1.0 GiB of 4.0 GiB  "
            "102.4 MiB/s  0:30 left");
}

TEST(ProgressLine, CountsTokensToo) {
  EXPECT_EQ(progress_line("scoring", Unit::kTokens, 512, 1024, 2, 40),
            "scoring  50 %  512 tokens of 1024 token");
}

TEST(ProgressLine, SaysNoRateBeforeItKnowsOne) {
  EXPECT_THAT(progress_line("loading", Unit::kBytes, kGiB, 4 * kGiB, 0.1, 100),
              Not(HasSubstr("/s")));
  EXPECT_THAT(progress_line("loading", Unit::kBytes, 0, 4 * kGiB, 10, 120), Not(HasSubstr("/s")));
}

// Whatever the numbers and the width: never a line that wraps, never a division by zero.
TEST(ProgressLine, FitsAnyTerminal) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  for (size_t columns = 0; columns < 200; ++columns) {
    for (uint64_t done : {uint64_t{0}, uint64_t{1}, kGiB, kHuge}) {
      for (uint64_t all : {uint64_t{0}, kGiB, kHuge}) {
        const std::string line =
            progress_line("writing", Unit::kBytes, done, all, 1e-9 + 1, columns);
        EXPECT_LE(line.size(), columns);
      }
    }
  }
  EXPECT_THAT(progress_line("writing", Unit::kBytes, kGiB, kGiB, 5, 40),
              AllOf(HasSubstr("100 %"), Not(HasSubstr("["))));
}

}  // namespace
}  // namespace kvasir::cli
