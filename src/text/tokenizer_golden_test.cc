// The tokenizer on real vocabularies.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_data.h"
#include "gguf/model_file.h"
#include "text/normalize.h"
#include "text/random_text.h"
#include "text/tokenizer.h"

namespace kvasir::text {
namespace {

constexpr std::string_view kQwen3 = "tokenizer/qwen3-vocab.gguf";

Tokenizer load(const std::string& path) {
  auto file = gguf::ModelFile::open(path);
  KVASIR_CHECK(file.has_value());
  auto tokenizer = Tokenizer::load(file->metadata());
  KVASIR_CHECK(tokenizer.has_value());
  return std::move(*tokenizer);
}

// Everything about special tokens and end of generation aside, a text must survive.
void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  std::string decoded;
  for (const TokenId id : tokenizer.encode(text, SpecialTokens::kPlainText)) {
    decoded += tokenizer.bytes(id);
  }
  ASSERT_EQ(decoded, to_nfc(text));
}

void expect_round_trips(const Tokenizer& tokenizer) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(tokenizer, random_text(random, 60)));
  }
}

TEST(TokenizerGolden, IdsEqualThePublishersOwn) {
  KVASIR_NEED_GOLDEN(kQwen3);
  const Tokenizer tokenizer = load(golden_data(kQwen3));
  std::ifstream file(test_data("tokenizer/qwen3.json"));
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 81u);
  for (const auto& c : cases) {
    const auto text = c.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::kParse),
              c.at("ids").get<std::vector<TokenId>>())
        << text;
  }
}

TEST(TokenizerGolden, Qwen3SpecialTokensAreWhereTheFamilyHasThem) {
  KVASIR_NEED_GOLDEN(kQwen3);
  const Tokenizer tokenizer = load(golden_data(kQwen3));
  EXPECT_EQ(tokenizer.pre_tokenizer(), "qwen2");
  EXPECT_EQ(tokenizer.find("<|endoftext|>"), 151643);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), 151645);
  EXPECT_EQ(tokenizer.find("</think>"), 151668);
  EXPECT_TRUE(tokenizer.is_end_of_generation(151643));
  EXPECT_TRUE(tokenizer.is_end_of_generation(151645));
  EXPECT_FALSE(tokenizer.is_end_of_generation(151644));
}

TEST(TokenizerGolden, Qwen3TextsSurvive) {
  KVASIR_NEED_GOLDEN(kQwen3);
  expect_round_trips(load(golden_data(kQwen3)));
}

TEST(TokenizerGolden, LongInputsOfOneKindSurvive) {
  KVASIR_NEED_GOLDEN(kQwen3);
  const Tokenizer tokenizer = load(golden_data(kQwen3));
  expect_round_trip(tokenizer, std::string(1 << 20, 'a'));
  expect_round_trip(tokenizer, std::string(1 << 20, ' '));
  std::string emoji;
  for (int i = 0; i < 100'000; ++i) emoji += "\U0001F600";
  expect_round_trip(tokenizer, emoji);
}

TEST(TokenizerGolden, KvasirTalesTextsSurvive) {
  const std::string path = source_path("models/kvasir-tales-q4_k_m.gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "skipped: " << path << " is absent";
  const Tokenizer tokenizer = load(path);
  EXPECT_EQ(tokenizer.vocabulary_size(), 4096u);
  EXPECT_TRUE(tokenizer.is_end_of_generation(tokenizer.find("<|im_end|>")));
  expect_round_trips(tokenizer);
  expect_round_trip(tokenizer,
                    "Once upon a time there was a king, and he said: \"Who's there?\"\n");
}

}  // namespace
}  // namespace kvasir::text
