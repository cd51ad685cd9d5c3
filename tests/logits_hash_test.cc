// One model, one answer: the hash over all logits of a fixed prompt on the bundled model is the
// same for every instruction set, thread count, chunk size and company, and equals the one recorded
// in tests/data/hashes.json. KV type and output encoding are part of the arithmetic, so each of
// their combinations has a hash of its own.
//
// A change here means that the canonical arithmetic changed: raise kArithmeticVersion, say why in
// docs/arithmetic.md, and record the new hashes by running this program with
// KVASIR_UPDATE_HASHES=1.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/sha256.h"
#include "base/test_data.h"
#include "engine/test_engine.h"
#include "text/tokenizer.h"

namespace kvasir::engine {
namespace {

using kernels::KvType;

// 70-odd tokens: more than one chunk of 64.
constexpr std::string_view kPrompt =
    "The Golden Bird\n\nA certain king had a beautiful garden, and in the garden stood a tree "
    "which "
    "bore golden apples. These apples were always counted, and about the time when they began to "
    "grow ripe it was found that every night one of them was gone. The king became very angry at "
    "this, and ordered the gardener to keep watch all night under the tree.";

struct Combination {
  KvType kv_type;
  expert::OutputEncoding encoding;

  std::string name() const {
    return fmt::format("kv_{}_encoding_{}", kv_type == KvType::kF16 ? "f16" : "f32",
                       expert::encoding_name(encoding));
  }
};

void PrintTo(const Combination& combination, std::ostream* out) {
  *out << combination.name();
}

constexpr Combination kCombinations[] = {
    {KvType::kF16, expert::OutputEncoding::kF32}, {KvType::kF16, expert::OutputEncoding::kF16},
    {KvType::kF16, expert::OutputEncoding::kQ8},  {KvType::kF32, expert::OutputEncoding::kF32},
    {KvType::kF32, expert::OutputEncoding::kF16}, {KvType::kF32, expert::OutputEncoding::kQ8}};

std::string model_path() {
  return source_path("models/kvasir-tales-q4_k_m.gguf");
}
std::string hashes_path() {
  return test_data("hashes.json");
}

nlohmann::json read_hashes() {
  std::ifstream file(hashes_path());
  return file ? nlohmann::json::parse(file) : nlohmann::json::object();
}

bool is_recording() {
  return std::getenv("KVASIR_UPDATE_HASHES") != nullptr;
}

// The recorded hash, empty if there is none.
std::string recorded_hash(const Combination& combination) {
  return read_hashes().value(nlohmann::json::json_pointer("/logits/" + combination.name()), "");
}

std::string hash_of(const std::vector<float>& logits) {
  return sha256_hex(std::as_bytes(std::span(logits)));
}

const std::vector<int32_t>& prompt_ids() {
  static const std::vector<int32_t> ids = [] {
    const auto file = gguf::ModelFile::open(model_path());
    KVASIR_CHECK(file.has_value());
    const auto tokenizer = text::Tokenizer::load(file->metadata());
    KVASIR_CHECK(tokenizer.has_value());
    return tokenizer->encode(kPrompt, text::SpecialTokens::kParse);
  }();
  return ids;
}

// The prompt's rows interleaved with those of three other sequences, in calls of random sizes.
std::vector<float> logits_in_company(TestEngine& engine) {
  std::mt19937 random(3);
  const auto& ids = prompt_ids();
  const size_t n_vocab = engine.n_vocab();
  auto sequence = engine.new_sequence(ids.size());
  std::vector<std::unique_ptr<Sequence>> others;
  for (int i = 0; i < 3; ++i) others.push_back(engine.new_sequence(512));

  std::vector<float> all;
  while (sequence->position() < ids.size()) {
    size_t next = sequence->position();
    std::vector<Row> rows;
    for (size_t n = 2 + random() % 40; rows.size() < n;) {
      const size_t who = random() % 4;
      if (who < 3)
        rows.push_back({others[who].get(), static_cast<int32_t>(random() % n_vocab), false});
      else if (next < ids.size())
        rows.push_back({sequence.get(), ids[next++], true});
    }
    std::vector<float> logits((next - sequence->position()) * n_vocab);
    auto failures = engine.engine().forward(rows, logits);
    EXPECT_TRUE(failures && failures->empty());
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

class LogitsHash : public testing::TestWithParam<Combination> {};

TEST_P(LogitsHash, IsTheSameHoweverItIsComputed) {
  const Combination& combination = GetParam();
  const auto& ids = prompt_ids();
  ASSERT_GT(ids.size(), 64U);
  std::string expected;
  for (const kernels::KernelTable* table : kernels::available_tables()) {
    if (table == nullptr) continue;
    for (size_t threads : {1, 2}) {
      RunSettings settings{{combination.kv_type, combination.encoding, 128}, table, threads};
      TestEngine engine(model_path(), settings);
      auto expect_same = [&](const std::vector<float>& logits, const std::string& how) {
        const std::string hash = hash_of(logits);
        if (expected.empty()) expected = hash;
        EXPECT_EQ(hash, expected) << table->name << ", " << threads << " threads, " << how;
      };
      // The scalar kernels are slow: one chunk size for each number of threads.
      std::vector<size_t> chunks = {ids.size(), 64, 7, 1};
      if (table == &kernels::scalar()) chunks = {threads == 1 ? ids.size() : 7};
      for (size_t chunk : chunks)
        expect_same(engine.logits(ids, chunk), fmt::format("chunks of {}", chunk));
      if (table != &kernels::scalar()) expect_same(logits_in_company(engine), "in company");
    }
  }

  if (is_recording()) {
    nlohmann::json hashes = read_hashes();
    hashes["arithmetic_version"] = kernels::kArithmeticVersion;
    hashes["model"] = "models/kvasir-tales-q4_k_m.gguf";
    hashes["prompt"] = kPrompt;
    hashes["ids"] = ids;
    hashes["logits"][combination.name()] = expected;
    std::ofstream(hashes_path()) << hashes.dump(2) << '\n';
    return;
  }
  const nlohmann::json hashes = read_hashes();
  ASSERT_EQ(hashes.value("arithmetic_version", 0), kernels::kArithmeticVersion);
  EXPECT_EQ(hashes.at("ids"), nlohmann::json(ids)) << "the tokenizer changed, not the arithmetic";
  EXPECT_EQ(recorded_hash(combination), expected);
}

std::string combination_name(const testing::TestParamInfo<Combination>& combination) {
  return combination.param.name();
}

INSTANTIATE_TEST_SUITE_P(Tales, LogitsHash, testing::ValuesIn(kCombinations), combination_name);

// Were two of them equal, an option would have no effect.
TEST(LogitsHashes, AreDifferentForEveryCombination) {
  if (is_recording()) GTEST_SKIP() << "the hashes are being recorded";
  std::set<std::string> distinct;
  for (const Combination& combination : kCombinations) distinct.insert(recorded_hash(combination));
  EXPECT_EQ(distinct.size(), std::size(kCombinations));
}

}  // namespace
}  // namespace kvasir::engine
