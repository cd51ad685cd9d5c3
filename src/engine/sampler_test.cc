#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "kernels/canonical_math.h"

namespace kvasir::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Everything off: the plain softmax distribution.
SamplerOptions plain(uint64_t seed = 1) {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.seed = seed;
  return options;
}

SamplerOptions greedy() {
  SamplerOptions options = plain();
  options.temperature = 0;
  return options;
}

std::set<int32_t> sampled_ids(const SamplerOptions& options, const std::vector<float>& logits,
                              std::vector<int32_t> never = {}) {
  Sampler sampler(options, std::move(never));
  std::set<int32_t> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(sampler.sample(logits));
  return ids;
}

using testing::ElementsAre;

// The published first outputs of splitmix64(0), fed through xoshiro256** by hand.
TEST(RandomGenerator, GivesTheKnownSequence) {
  RandomGenerator zero(0);
  EXPECT_EQ(zero.next(), 0x99ec5f36cb75f2b4U);
  EXPECT_EQ(zero.next(), 0xbf6e1f784956452aU);
  EXPECT_EQ(zero.next(), 0x1a5f849d4933e6e0U);
}

TEST(Sampler, TakesTheLowestIdOfEqualsAtTemperatureZero) {
  EXPECT_EQ(Sampler(greedy(), {}).sample(std::vector<float>{1, 3, 2, 3, 3}), 1);
  EXPECT_EQ(Sampler(greedy(), {}).sample(std::vector<float>{-4, -4, -4}), 0);
}

TEST(Sampler, TakesTheLowestIdsOfEqualsForTopK) {
  SamplerOptions options = plain();
  options.top_k = 3;
  EXPECT_THAT(sampled_ids(options, {1, 5, 5, 1, 5, 5, 5}), ElementsAre(1, 2, 4));
  options.top_k = 1;
  EXPECT_THAT(sampled_ids(options, {1, 5, 5, 1, 9, 9}), ElementsAre(4));
  options.top_k = 7;  // more than there are
  EXPECT_THAT(sampled_ids(options, {1, 1, 1}), ElementsAre(0, 1, 2));
}

// Probabilities 1/2, 1/4, 1/8, 1/8. A prefix that reaches p exactly is enough.
TEST(Sampler, KeepsTheSmallestPrefixThatReachesTopP) {
  const float ln2 = 0.6931472F;
  const std::vector<float> logits = {0, -ln2, -2 * ln2, -2 * ln2};
  SamplerOptions options = plain();
  options.top_p = 0.49F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0));
  options.top_p = 0.51F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0, 1));
  options.top_p = 0.76F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0, 1, 2));
  options.top_p = 0.9F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0, 1, 2, 3));
  options.top_p = 0;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0));
  options.top_p = 0.5F;
  EXPECT_THAT(sampled_ids(options, {0, 0}), ElementsAre(0));
}

TEST(Sampler, DropsWhatIsBelowMinPOfTheBest) {
  const std::vector<float> logits = {0, std::log(0.5F), std::log(0.25F), std::log(0.05F)};
  SamplerOptions options = plain();
  options.min_p = 0.3F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0, 1));
  options.min_p = 0.2F;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0, 1, 2));
  options.min_p = 1;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(0));
  EXPECT_THAT(sampled_ids(options, {2, 2, 1}), ElementsAre(0, 1));
}

TEST(Sampler, SharpensWithALowTemperature) {
  SamplerOptions options = plain();
  options.temperature = 1e-3F;
  EXPECT_THAT(sampled_ids(options, {1, 1.1F, 0.9F}), ElementsAre(1));
  options.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_THAT(sampled_ids(options, {-3e38F, 1, 3e38F}), ElementsAre(2));
}

// A positive logit is divided, a negative one multiplied: both become less likely.
TEST(Sampler, PenalisesRepetitionOnBothSidesOfZero) {
  SamplerOptions options = greedy();
  options.repetition_penalty = 2;
  {
    Sampler sampler(options, {});
    sampler.accept(0);
    EXPECT_EQ(sampler.sample(std::vector<float>{4, 2.5F, 1}), 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{5.5F, 2.5F, 1}), 0);
  }
  Sampler sampler(options, {});
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(std::vector<float>{-2, -3, -5}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{-2, -4.5F, -5}), 0);
}

TEST(Sampler, PenalisesPresenceOnceAndFrequencyByCount) {
  SamplerOptions options = greedy();
  options.presence_penalty = 1;
  Sampler presence(options, {});
  for (int i = 0; i < 5; ++i) presence.accept(0);
  EXPECT_EQ(presence.sample(std::vector<float>{2.5F, 2}), 1);
  EXPECT_EQ(presence.sample(std::vector<float>{3.5F, 2}), 0);

  options.presence_penalty = 0;
  options.frequency_penalty = 1;
  Sampler frequency(options, {});
  for (int i = 0; i < 5; ++i) frequency.accept(0);
  EXPECT_EQ(frequency.sample(std::vector<float>{6.5F, 2}), 1);
  EXPECT_EQ(frequency.sample(std::vector<float>{7.5F, 2}), 0);
}

TEST(Sampler, ForgetsTokensThatLeaveThePenaltyWindow) {
  SamplerOptions options = greedy();
  options.presence_penalty = 10;
  options.penalty_window = 2;
  Sampler sampler(options, {});
  const std::vector<float> logits = {5, 4, 3};
  sampler.accept(0);
  sampler.accept(1);
  EXPECT_EQ(sampler.sample(logits), 2);
  sampler.accept(1);  // 0 leaves
  EXPECT_EQ(sampler.sample(logits), 0);

  options.penalty_window = 0;
  Sampler all(options, {});
  for (int i = 0; i < 1000; ++i) all.accept(i == 0 ? 0 : 1);
  EXPECT_EQ(all.sample(logits), 2);
}

TEST(Sampler, AddsTheLogitBiasBeforeEverythingElse) {
  SamplerOptions options = greedy();
  options.logit_bias = {{2, 10.0F}, {0, -1.0F}, {99, 50.0F}};
  EXPECT_EQ(Sampler(options, {}).sample(std::vector<float>{5, 4.5F, 1}), 2);
  options.logit_bias = {{0, -1.0F}};
  EXPECT_EQ(Sampler(options, {}).sample(std::vector<float>{5, 4.5F, 1}), 1);
}

TEST(Sampler, NeverReturnsRemovedIds) {
  SamplerOptions options = greedy();
  options.logit_bias = {{3, 100.0F}};
  EXPECT_EQ(Sampler(options, {3, 1, 77, -1}).sample(std::vector<float>{1, 9, 2, 3}), 2);
  EXPECT_THAT(sampled_ids(plain(), {1, 9, 2, 3}, {3, 1}), ElementsAre(0, 2));
}

TEST(Sampler, NeverReturnsValuesThatAreNotFinite) {
  const std::vector<float> logits = {-kInfinity, kNan, 1, kInfinity, 0};
  EXPECT_EQ(Sampler(greedy(), {}).sample(logits), 2);
  EXPECT_THAT(sampled_ids(plain(), logits), ElementsAre(2, 4));
  SamplerOptions options = plain();
  options.top_k = 2;
  EXPECT_THAT(sampled_ids(options, logits), ElementsAre(2, 4));
}

TEST(Sampler, FallsBackToTheLowestAllowedId) {
  EXPECT_EQ(Sampler(greedy(), {0, 1}).sample(std::vector<float>{1, 2, kNan, kNan}), 2);
  EXPECT_EQ(Sampler(plain(), {0, 1}).sample(std::vector<float>{1, 2, kNan, kNan}), 2);
  EXPECT_EQ(Sampler(plain(), {0, 1}).sample(std::vector<float>{1, 2}), 0);
}

// Chi-square of 200,000 draws against exact probabilities; 40 degrees of freedom, and 73.4 is
// exceeded by chance once in a thousand. The seeds are fixed, so the test does not flicker.
TEST(Sampler, FollowsTheSoftmaxDistribution) {
  for (uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    std::vector<float> logits(41);
    for (float& logit : logits) logit = static_cast<float>(random() % 3000) * 1e-3F;
    const double temperature = 0.7;
    std::vector<double> p;
    double sum = 0;
    for (float logit : logits) sum += p.emplace_back(std::exp(double{logit} / temperature));

    SamplerOptions options = plain(seed);
    options.temperature = 0.7F;
    Sampler sampler(options, {});
    const int draws = 200'000;
    std::vector<int> seen(logits.size());
    for (int i = 0; i < draws; ++i) ++seen[static_cast<size_t>(sampler.sample(logits))];
    double chi_square = 0;
    for (size_t id = 0; id < p.size(); ++id) {
      double expected = p[id] / sum * draws;
      chi_square += (seen[id] - expected) * (seen[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 73.4) << "seed " << seed;
  }
}

// The slow obvious sampler: sort everything, then follow the definition.
int32_t sample_by_definition(const SamplerOptions& options, const std::vector<float>& logits,
                             uint64_t random) {
  struct Entry {
    float logit;
    int32_t id;
    uint64_t weight;
  };
  std::vector<Entry> order;
  for (size_t id = 0; id < logits.size(); ++id)
    order.push_back({logits[id], static_cast<int32_t>(id), 0});
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  if (options.top_k != 0 && order.size() > options.top_k) order.resize(options.top_k);
  uint64_t total = 0;
  for (Entry& entry : order) {
    float e = kernels::canonical_exp((entry.logit - order[0].logit) / options.temperature);
    entry.weight = static_cast<uint64_t>(static_cast<double>(e) * 0x1p40);
    total += entry.weight;
  }
  size_t kept = 0;
  uint64_t sum = 0;
  while (kept < order.size()) {
    if (kept > 0 && static_cast<double>(order[kept].weight) <
                        static_cast<double>(options.min_p) * static_cast<double>(order[0].weight))
      break;
    sum += order[kept++].weight;
    if (options.top_p < 1 &&
        static_cast<double>(sum) >= static_cast<double>(options.top_p) * static_cast<double>(total))
      break;
  }
  long double target =
      std::floor(static_cast<long double>(random) * 0x1p-64L * static_cast<long double>(sum));
  uint64_t below = 0;
  for (const Entry& entry : order) {
    below += entry.weight;
    if (static_cast<long double>(below) > target) return entry.id;
  }
  return order[kept - 1].id;
}

// Random options over vocabularies of many sizes, flat ones and peaked ones, with many equal
// logits.
TEST(Sampler, AgreesWithTheDefinition) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    SamplerOptions options = plain(random());
    options.temperature = static_cast<float>(random() % 20 + 1) * 0.1F;
    const float spread = random() % 2 == 0 ? 0.125F : 1.0F;
    options.top_k = random() % 2 == 0 ? 0 : static_cast<uint32_t>(random() % 400 + 1);
    options.top_p = random() % 2 == 0 ? 1 : static_cast<float>(random() % 100) * 0.01F;
    options.min_p = random() % 2 == 0 ? 0 : static_cast<float>(random() % 100) * 0.005F;
    std::vector<float> logits(random() % 1500 + 1);
    for (float& logit : logits) logit = static_cast<float>(random() % 64) * spread - 4;
    int32_t id = Sampler(options, {}).sample(logits);
    uint64_t drawn = RandomGenerator(options.seed).next();
    ASSERT_EQ(id, sample_by_definition(options, logits, drawn)) << "round " << round;
  }
}

// Known answer: raises the sampler version if it changes.
TEST(Sampler, GivesTheRecordedTokens) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>((i * 7919) % 1000) * 0.01F - 3;
  SamplerOptions options;
  options.repetition_penalty = 1.1F;
  options.min_p = 0.02F;
  options.seed = 42;
  Sampler sampler(options, {});
  std::vector<int32_t> tokens;
  for (int i = 0; i < 12; ++i) {
    tokens.push_back(sampler.sample(logits));
    sampler.accept(tokens.back());
  }
  EXPECT_THAT(tokens, ElementsAre(963, 494, 346, 198, 482, 951, 309, 556, 272, 62, 988, 210));
}

TEST(Sampler, GivesEqualTokensForEqualSeedsAndOthersForOthers) {
  const std::vector<float> logits(100, 0.5F);
  auto tokens = [&](uint64_t seed) {
    Sampler sampler(plain(seed), {});
    std::vector<int32_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.sample(logits));
    return ids;
  };
  EXPECT_EQ(tokens(5), tokens(5));
  EXPECT_NE(tokens(5), tokens(6));
}

// A quarter of a million candidates without top-k: far below the time of a layer.
TEST(Sampler, IsQuickOnLargeVocabularies) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(248'320);
  for (float& logit : logits) logit = normal(random);
  SamplerOptions options = plain();
  options.top_p = 0.95F;
  Sampler sampler(options, {});
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) sampler.sample(logits);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5);
}

TEST(SamplerOptions, RefusesValuesOutOfRangeByName) {
  struct Case {
    const char* expected;
    void (*change)(SamplerOptions&);
  };
  const Case cases[] = {
      {"temperature", [](SamplerOptions& o) { o.temperature = -0.1F; }},
      {"temperature", [](SamplerOptions& o) { o.temperature = kNan; }},
      {"temperature", [](SamplerOptions& o) { o.temperature = kInfinity; }},
      {"top-p", [](SamplerOptions& o) { o.top_p = 1.01F; }},
      {"top-p", [](SamplerOptions& o) { o.top_p = kNan; }},
      {"min-p", [](SamplerOptions& o) { o.min_p = -1; }},
      {"repetition penalty", [](SamplerOptions& o) { o.repetition_penalty = 0; }},
      {"repetition penalty", [](SamplerOptions& o) { o.repetition_penalty = kNan; }},
      {"presence penalty", [](SamplerOptions& o) { o.presence_penalty = 1e30F; }},
      {"frequency penalty", [](SamplerOptions& o) { o.frequency_penalty = -kInfinity; }},
      {"logit bias of token 7",
       [](SamplerOptions& o) {
         o.logit_bias = {{7, kNan}};
       }},
      {"logit bias for token -7",
       [](SamplerOptions& o) {
         o.logit_bias = {{-7, 1.0F}};
       }},
  };
  EXPECT_TRUE(check(SamplerOptions{}));
  for (const Case& bad : cases) {
    SamplerOptions options;
    bad.change(options);
    Result<void> result = check(options);
    ASSERT_FALSE(result) << bad.expected;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(result.error().message, testing::HasSubstr(bad.expected));
  }
}

std::vector<uint64_t> allow(const std::vector<int32_t>& ids, size_t words) {
  std::vector<uint64_t> allowed(words);
  for (int32_t id : ids) allowed[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return allowed;
}

TEST(Sampler, TakesOnlyWhatIsAllowed) {
  std::vector<float> logits(130, 1.0F);
  logits[0] = 50;
  Sampler sampler(plain(), {64});
  std::set<int32_t> ids;
  for (int i = 0; i < 500; ++i) ids.insert(sampler.sample(logits, allow({1, 64, 65, 129}, 3)));
  EXPECT_THAT(ids, ElementsAre(1, 65, 129));
  EXPECT_EQ(Sampler(greedy(), {}).sample(logits, allow({3, 5}, 3)), 3);
  // Ids beyond the words are not allowed.
  EXPECT_EQ(Sampler(greedy(), {}).sample(std::vector<float>{0, 1, 2}, allow({1}, 1)), 1);
  logits.assign(130, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Sampler(greedy(), {}).sample(logits, allow({70, 5}, 3)), 5);
}

// A restriction that allows everything changes nothing, not even what the generator draws.
TEST(Sampler, SamplesTheSameIfEverythingIsAllowed) {
  const std::vector<float> logits = {0.5F, 1, -2, 0, 0.25F};
  Sampler a(plain(7), {}), b(plain(7), {});
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(a.sample(logits), b.sample(logits, std::vector<uint64_t>{~uint64_t{0}}));
}

TEST(Logprobs, AreTheLogSoftmaxOfTheLogits) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 6);
  for (size_t n : {1, 2, 15, 16, 17, 1000}) {
    std::vector<float> logits(n);
    for (float& logit : logits) logit = normal(random);
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit));
    const auto token = static_cast<int32_t>(random() % n);
    const Logprobs result = logprobs_of(logits, token, 5, {});
    const auto expect_near = [&](const TokenLogprob& each) {
      const double exact =
          static_cast<double>(logits[static_cast<size_t>(each.token)]) - std::log(sum);
      EXPECT_NEAR(static_cast<double>(each.logprob), exact, 1e-4);
      EXPECT_LE(each.logprob, 0.0F);
    };
    EXPECT_EQ(result.chosen.token, token);
    expect_near(result.chosen);
    ASSERT_EQ(result.top.size(), std::min<size_t>(n, 5));
    std::vector<float> sorted = logits;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (size_t rank = 0; rank < result.top.size(); ++rank) {
      expect_near(result.top[rank]);
      EXPECT_EQ(logits[static_cast<size_t>(result.top[rank].token)], sorted[rank]);
    }
  }
}

TEST(Logprobs, ListEqualOnesByIdAndNeverWhatMustNotBeSampled) {
  const std::vector<float> logits = {1, 3, 3, 9, 3, 2};
  const Logprobs result = logprobs_of(logits, 0, 3, std::vector<int32_t>{3});
  ASSERT_EQ(result.top.size(), 3U);
  EXPECT_EQ(result.top[0].token, 1);
  EXPECT_EQ(result.top[1].token, 2);
  EXPECT_EQ(result.top[2].token, 4);
  EXPECT_TRUE(logprobs_of(logits, 0, 0, {}).top.empty());
}

}  // namespace
}  // namespace kvasir::engine
