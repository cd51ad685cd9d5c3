#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvasir::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Example {
  BenchSubject subject{"a\x1b.gguf", "toy, 2 layers", "avx2", "vpmaddubsw ymm", 3 << 20};
  measure::Plan plan;
  measure::Report report;

  Example() {
    plan.steps = 8;
    plan.repetitions = 3;
    plan.engine.rows_max = 512;
    for (size_t threads : {1, 2}) {
      measure::MachineRange range;
      range.threads = threads;
      range.add({static_cast<double>(threads) * 20e9, 0, 0.5e12});
      range.add({static_cast<double>(threads) * 15e9, 0, 0.49e12});
      report.machine.push_back(range);
    }
    report.runs.push_back({measure::Kind::kDecode, 32, 2, {100, 90, 110}, 40e6, 55e6, 5e6, 2e9, 7});
    report.runs.push_back(
        {measure::Kind::kPrefill, 512, 2, {400, 400, 400}, 1e6, 8e6, 1e6, 1e9, 8});
  }
};

TEST(BenchReport, HasTheFieldsThatScriptsRead) {
  const Example example;
  const auto json =
      nlohmann::json::parse(bench_json(example.subject, example.plan, example.report));
  EXPECT_DOUBLE_EQ(json["read_bandwidth_gb_s"].get<double>(), 40);
  EXPECT_DOUBLE_EQ(json["int8_peak_tops"].get<double>(), 0.5);
  ASSERT_EQ(json["machine"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["machine"][1]["read_bandwidth_gb_s_min"].get<double>(), 30);
  ASSERT_EQ(json["decode"].size(), 1U);
  const auto& decode = json["decode"][0];
  EXPECT_EQ(decode["batch"], 32);
  EXPECT_EQ(decode["threads"], 2);
  EXPECT_DOUBLE_EQ(decode["tokens_per_s"].get<double>(), 100);
  EXPECT_DOUBLE_EQ(decode["bytes_per_token"].get<double>(), 100e6);
  EXPECT_DOUBLE_EQ(decode["read_gb_s"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(decode["read_fraction"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(decode["read_bound_tokens_per_s"].get<double>(), 400);
  EXPECT_DOUBLE_EQ(decode["tops"].get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(decode["int8_fraction"].get<double>(), 0.4);
  ASSERT_EQ(json["prefill"].size(), 1U);
  EXPECT_EQ(json["prefill"][0]["tokens"], 512);
  EXPECT_FALSE(json["prefill"][0].contains("batch"));
}

// A run or a thread count that was not asked for is an empty list, not a missing one.
TEST(BenchReport, HasEmptyLists) {
  Example example;
  example.report.runs.clear();
  const auto json =
      nlohmann::json::parse(bench_json(example.subject, example.plan, example.report));
  EXPECT_TRUE(json["decode"].is_array());
  EXPECT_TRUE(json["prefill"].empty());
}

TEST(BenchReport, PrintsATable) {
  const Example example;
  const std::string text = bench_text(example.subject, example.plan, example.report);
  EXPECT_THAT(text, HasSubstr("toy, 2 layers, 3.0 MiB of weights; kernels avx2"));
  EXPECT_THAT(text, HasSubstr("machine, 2 threads: reads 40.0 GB/s (30.0 when it was slowest), "
                              "int8 0.500 TOP/s (vpmaddubsw ymm)"));
  EXPECT_THAT(text, HasSubstr("90.0..110"));
  EXPECT_THAT(text, HasSubstr("25 %"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a file's name must not drive a terminal";
  EXPECT_THAT(text, Not(HasSubstr("mapped")));
}

TEST(BenchReport, SaysThatTheMachineWasBusy) {
  Example example;
  EXPECT_THAT(bench_text(example.subject, example.plan, example.report), Not(HasSubstr("busy")));
  example.report.runs[1].processor_share = 0.41;
  EXPECT_THAT(bench_text(example.subject, example.plan, example.report),
              HasSubstr("a run got 41 % of the processor time"));
}

TEST(BenchReport, ShowsHowFastMappedWeightsAreIfMeasured) {
  Example example;
  example.report.machine[0].add({20e9, 17e9, 0.5e12});
  EXPECT_THAT(bench_text(example.subject, example.plan, example.report),
              HasSubstr("mapped weights 17.0 GB/s"));
}

}  // namespace
}  // namespace kvasir::cli
