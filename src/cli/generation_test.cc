#include "cli/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvasir::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PlanLength, TakesWhatFits) {
  EXPECT_EQ(plan_length(10, 90, 256, 100)->tokens, 90U);
  EXPECT_EQ(plan_length(10, 0, 256, 100)->tokens, 0U);
  EXPECT_EQ(plan_length(100, 0, 256, 100)->tokens, 0U);
  EXPECT_FALSE(plan_length(10, 90, 256, 100)->shortened);
  EXPECT_EQ(plan_length(10, std::nullopt, 90, 100)->tokens, 90U);
  EXPECT_FALSE(plan_length(10, std::nullopt, 90, 100)->shortened);
}

TEST(PlanLength, ShortensOnlyTheDefault) {
  auto plan = plan_length(10, std::nullopt, 256, 100);
  EXPECT_EQ(plan->tokens, 90U);
  EXPECT_TRUE(plan->shortened);
  auto asked = plan_length(10, 91, 256, 100);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(asked.error().message, AllOf(HasSubstr("10 tokens"), HasSubstr("91"),
                                           HasSubstr("need 101"), HasSubstr("has 100")));
  EXPECT_THAT(asked.error().hint, AllOf(HasSubstr("-n 90"), HasSubstr("--ctx 101")));
}

TEST(PlanLength, RefusesPromptsBeyondTheContext) {
  auto beyond = plan_length(101, 0, 256, 100);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, AllOf(HasSubstr("101"), HasSubstr("100")));
  EXPECT_FALSE(plan_length(100, std::nullopt, 256, 100));
  EXPECT_FALSE(plan_length(1, uint64_t{1} << 24, 256, 100));
}

// The model's own settings, unless a flag says otherwise.
TEST(SamplerOptions, TakeTheBundledModelsSettings) {
  const std::string name = "kvasir-tales";
  gguf::Metadata bundled;
  bundled.add({"general.name", gguf::ValueType::kString, gguf::ValueType::kU8, 1,
               std::as_bytes(std::span(name)), 0});
  EXPECT_EQ(sampler_options({}, bundled, 10)->repetition_penalty, 1.1F);
  EXPECT_EQ(sampler_options({}, gguf::Metadata(), 10)->repetition_penalty, 1.0F);
  SamplingFlags flags;
  flags.repetition_penalty = 1.3F;
  flags.temperature = 0.0F;
  flags.top_k = 0;
  EXPECT_EQ(sampler_options(flags, bundled, 10)->repetition_penalty, 1.3F);
  EXPECT_EQ(sampler_options(flags, bundled, 10)->temperature, 0.0F);
  EXPECT_EQ(sampler_options(flags, bundled, 10)->top_k, 0U);
  EXPECT_EQ(sampler_options(flags, bundled, 10)->top_p, 0.95F);
}

TEST(SamplerOptions, RefuseABiasOfATokenThatIsNotThere) {
  SamplingFlags flags;
  flags.logit_bias = {{9, 1.0F}};
  EXPECT_TRUE(sampler_options(flags, gguf::Metadata(), 10));
  flags.logit_bias.emplace_back(10, 1.0F);
  auto options = sampler_options(flags, gguf::Metadata(), 10);
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(options.error().message, HasSubstr("token 10 is not in the vocabulary of 10"));
}

TEST(ReadingNote, IsForModelsLargerThanTheMemory) {
  EXPECT_EQ(reading_note(5, 5), "");
  EXPECT_THAT(reading_note(uint64_t{3} << 30, uint64_t{2} << 30),
              AllOf(testing::StartsWith("note:  the weights are 3.0 GiB, 2.0 GiB of memory"),
                    testing::EndsWith("\n")));
}

}  // namespace
}  // namespace kvasir::cli
