#include "chaos/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvasir::chaos {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Requirements requirements() {
  Requirements requirements;
  requirements.plan.rates = {10, 10, 0, 0};
  requirements.plan.corrupt = 0.02;
  return requirements;
}

// A run in which everything held.
Findings good_run() {
  Findings findings;
  findings.tokens = 400;
  findings.same_text = true;
  findings.hash_alone = findings.hash_swarm = "ab12";
  findings.faults = {40, 20, 0, 0};
  findings.corrupted = 100;
  findings.recoveries_s = {0.05, 0.2, 0.1};
  findings.seconds = 25;
  findings.pace = 20;
  findings.status.emplace();
  findings.status->pairs = {50, 10, 0, 40, 0, 0, 0, 0};
  findings.status->tickets = {100, 90, 8, 2, 0};
  return findings;
}

TEST(Certificate, HasNoObjectionToAGoodRun) {
  EXPECT_THAT(objections(good_run(), requirements()), IsEmpty());
  const std::string text = certificate_text(good_run(), requirements());
  EXPECT_THAT(text, HasSubstr("60.0 % of the expert rows"));
  EXPECT_THAT(text, HasSubstr("100 ms after a kill, stall or cut (p50), 200 ms (p99)"));
  EXPECT_THAT(text, HasSubstr("40 kills, 20 stalls"));
  EXPECT_THAT(text, HasSubstr("1.25 times"));
  EXPECT_THAT(text, Not(HasSubstr("FAILED")));
}

// Spoils one finding at a time: each is objected to, and by itself.
TEST(Certificate, ObjectsToEverySingleFault) {
  const std::vector<std::pair<void (*)(Findings&), std::string>> cases = {
      {[](Findings& f) { f.same_text = false; }, "text"},
      {[](Findings& f) { f.hash_swarm = "ab13"; }, "hash"},
      {[](Findings& f) { f.hash_swarm = f.hash_alone = ""; }, "hash"},
      {[](Findings& f) { f.backbone_end = "exit code 1"; }, "exit code 1"},
      {[](Findings& f) { f.crashes = {"signal 11"}; }, "signal 11"},
      {[](Findings& f) { f.status.reset(); }, "report"},
      {[](Findings& f) { f.status->tickets.open = 1; }, "are open"},
      {[](Findings& f) { f.status->tickets.results = 89; }, "settled"},
      {[](Findings& f) { f.status->quarantined_keys = {"abcdef"}; }, "quarantine"},
      {[](Findings& f) { f.status->pairs[3] = 100; }, "37.5 %"},
      {[](Findings& f) { f.faults[0] = 19; }, "not enough faults: 19 kills"},
      {[](Findings& f) { f.faults[1] = 19; }, "not enough faults: 19 stalls"},
      {[](Findings& f) { f.corrupted = 99; }, "not enough faults: 99 damaged"},
  };
  for (const auto& [spoil, word] : cases) {
    Findings findings = good_run();
    spoil(findings);
    EXPECT_THAT(objections(findings, requirements()), ElementsAre(HasSubstr(word)));
    EXPECT_THAT(certificate_text(findings, requirements()), HasSubstr("FAILED"));
    const auto json = nlohmann::json::parse(certificate_json(findings, requirements()));
    EXPECT_EQ(json["held"], false);
  }
}

TEST(Certificate, AsksOnlyForFaultsThatWereRequested) {
  Findings findings = good_run();
  findings.faults = {};
  findings.corrupted = 0;
  EXPECT_THAT(objections(findings, Requirements()), IsEmpty());
}

TEST(Certificate, KnowsLiarsByTheirKeys) {
  Requirements wanted = requirements();
  wanted.plan.lie = 0.05;
  wanted.verify = "all";
  Findings findings = good_run();
  EXPECT_THAT(objections(findings, wanted), ElementsAre(HasSubstr("no lie was found")));
  findings.status->wrong_answers = 3;
  findings.status->quarantined_keys = {"abcdef"};
  findings.liar_keys = {"0123", "abcd"};
  EXPECT_THAT(objections(findings, wanted), IsEmpty());
  findings.status->quarantined_keys.emplace_back("ffffff");
  EXPECT_THAT(objections(findings, wanted), ElementsAre(HasSubstr("worker ffffff was honest")));
}

TEST(Certificate, IsTheSameAsJson) {
  const auto json = nlohmann::json::parse(certificate_json(good_run(), requirements()));
  EXPECT_EQ(json["held"], true);
  EXPECT_EQ(json["objections"].size(), 0U);
  EXPECT_EQ(json["faults"]["kills"], 40);
  EXPECT_EQ(json["faults"]["corrupted"], 100);
  EXPECT_DOUBLE_EQ(json["swarm"]["share_from_workers"], 0.6);
  EXPECT_EQ(json["swarm"]["tickets"]["issued"], 100);
  EXPECT_DOUBLE_EQ(json["recovery_ms"]["p99"], 200);
  EXPECT_DOUBLE_EQ(json["slowdown"], 1.25);
}

TEST(Quantile, TakesTheSmallestValueThatIsEnough) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({3}, 0.99), 3);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.51), 3);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0), 1);
}

}  // namespace
}  // namespace kvasir::chaos
