#include "cli/pull_display.h"

#include <gmock/gmock.h>

#include "cli/web.h"

namespace kvasir::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

pull::RemoteModel two_files() {
  pull::RemoteModel model;
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"})
    model.files.push_back({name, {}, uint64_t{1} << 30, ""});
  return model;
}

TEST(PullLine, SaysFileWholeRateAndTime) {
  const pull::PullProgress progress{pull::DownloadStage::kFetching, 1, uint64_t{1} << 29,
                                    3 * (uint64_t{1} << 29)};
  const std::string line = pull_line(two_files(), progress, uint64_t{1} << 20, 120);
  EXPECT_THAT(line, HasSubstr("fetching 2 of 2 (50 %)"));
  EXPECT_THAT(line, HasSubstr("75 %"));
  EXPECT_THAT(line, HasSubstr("1.5 GiB of 2.0 GiB"));
  EXPECT_THAT(line, HasSubstr("1.0 MiB/s  8:32 left"));
  EXPECT_EQ(pull_log_line(two_files(), progress),
            "fetching 2 of 2 (50 %): 75 %  1.5 GiB of 2.0 GiB");
}

// Every state on every terminal: inside the columns, and never above 100 %.
TEST(PullLine, StaysInItsLine) {
  for (auto stage : {pull::DownloadStage::kChecking, pull::DownloadStage::kFetching,
                     pull::DownloadStage::kProving}) {
    for (size_t columns : {10, 40, 53, 80, 200}) {
      const pull::PullProgress progress{stage, 1, uint64_t{1} << 30, uint64_t{2} << 30};
      const std::string line = pull_line(two_files(), progress, 1, columns);
      EXPECT_LT(line.size(), columns) << line;
      EXPECT_THAT(line, Not(HasSubstr("101"))) << line;
    }
  }
}

TEST(ParseRate, KnowsBothKindsOfUnits) {
  EXPECT_EQ(parse_rate("2MB/s").value_or(0), 2'000'000U);
  EXPECT_EQ(parse_rate("500KB/s").value_or(0), 500'000U);
  EXPECT_EQ(parse_rate("2MiB/s").value_or(0), 2U << 20);
  EXPECT_EQ(parse_rate("2M").value_or(0), 2U << 20);
  EXPECT_EQ(parse_rate("20000").value_or(0), 20'000U);
  for (const char* text : {"", "MB/s", "0MB/s", "-1MB/s", "1KB/s", "2XB/s", "2 MB/s", "2MB/h",
                           "99999999999999999999MB/s", "1000000000GB/s"})
    EXPECT_FALSE(parse_rate(text).has_value()) << text;
}

}  // namespace
}  // namespace kvasir::cli
