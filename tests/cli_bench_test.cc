// End to end: kvasir bench, with sizes so small that its figures mean nothing. What they have to
// agree with is each other.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace kvasir::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using nlohmann::json;

TEST_F(Cli, MeasuresAModelAndTheMachine) {
  const json report =
      json::parse(output_of({"bench", "--threads", "1,2", "--decode", "1,4", "--prefill", "16",
                             "-n", "2", "--repeat", "2", "--depth", "3", "--json"}));
  EXPECT_GT(report["read_bandwidth_gb_s"].get<double>(), 0);
  EXPECT_GT(report["int8_peak_tops"].get<double>(), 0);
  ASSERT_EQ(report["machine"].size(), 2U);
  ASSERT_EQ(report["decode"].size(), 4U);
  ASSERT_EQ(report["prefill"].size(), 2U);
  for (const auto& run : report["decode"]) {
    EXPECT_GT(run["tokens_per_s"].get<double>(), 0);
    const auto& machine = report["machine"][run["threads"].get<size_t>() - 1];
    EXPECT_EQ(machine["threads"], run["threads"]);
    EXPECT_NEAR(run["read_fraction"].get<double>(),
                run["tokens_per_s"].get<double>() * run["bytes_per_token"].get<double>() / 1e9 /
                    machine["read_bandwidth_gb_s"].get<double>(),
                1e-9);
  }
  EXPECT_EQ(report["decode"][1]["batch"], 4);
  EXPECT_LT(report["decode"][1]["bytes_per_token"], report["decode"][0]["bytes_per_token"]);
  EXPECT_EQ(report["decode"][0]["distinct_experts_per_layer"], 4);  // of the bundled model
  EXPECT_EQ(report["prefill"][0]["tokens"], 16);
  EXPECT_GT(report["prefill"][0]["tokens_per_s"].get<double>(), 0);
}

TEST_F(Cli, PrintsMeasurementsAsATable) {
  EXPECT_THAT(output_of({"bench", "--threads", "1", "--decode", "none", "--prefill", "8"}),
              AllOf(HasSubstr("machine, 1 thread: reads "), HasSubstr("prefill      8"),
                    HasSubstr("limit t/s"), ::testing::Not(HasSubstr("\ndecode   "))));
}

TEST_F(Cli, RefusesMeasurementsThatCannotBe) {
  struct Case {
    std::vector<std::string> flags;
    const char* says;
  };
  const Case cases[] = {
      {{"--decode", "0"}, "'0' is not a whole number from 1 to 64"},
      {{"--decode", "65"}, "'65' is not a whole number from 1 to 64"},
      {{"--decode", "1,,2"}, "'' is not a whole number"},
      {{"--decode", "1,"}, "'' is not a whole number"},
      {{"--threads", "0"}, "--threads"},
      {{"--threads", "none"}, "--threads"},
      {{"--prefill", "x"}, "'x' is not a whole number"},
      {{"--repeat", "0"}, "--repeat"},
      {{"-n", "0"}, "--tokens"},
      {{"--kv-type", "f8"}, "f16|f32"},
      {{"--decode", "none", "--prefill", "none"}, "neither decoding nor prefill"},
  };
  for (const Case& wrong : cases) {
    std::vector<std::string> words = {"bench"};
    words.insert(words.end(), wrong.flags.begin(), wrong.flags.end());
    const ProcessResult result = kvasir_run(words);
    EXPECT_EQ(result.exit_code, 2) << wrong.says;
    EXPECT_EQ(result.out, "") << wrong.says;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("error: "), HasSubstr("\nhint:  "), HasSubstr(wrong.says)));
  }
  const ProcessResult result =
      kvasir_run({"bench", "--decode", "64", "--depth", "16000000", "--prefill", "none"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("of memory"), HasSubstr("smaller batches")));
}

TEST_F(Cli, StopsMeasuringOnAnInterrupt) {
  Process process(command({"bench", "--decode", "1", "-n", "100000"}), with_model());
  ASSERT_TRUE(process.wait_for_handler(SIGINT));
  process.signal(SIGINT);
  const ProcessResult result = process.finish();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace kvasir::testing
