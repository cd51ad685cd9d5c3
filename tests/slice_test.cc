// A worker's experts against the model's: whether they come from slices or are kept as bare units,
// they compute the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/test_data.h"
#include "base/test_folder.h"
#include "engine/engine.h"
#include "expert/held_experts.h"
#include "gguf/manifest_check.h"
#include "gguf/slice_writer.h"
#include "model/model_manifest.h"
#include "model/synthesis.h"

namespace kvasir {
namespace {

using expert::HeldExperts;
using gguf::ExpertRange;
using gguf::SliceFile;
using gguf::UnitId;
using testing::ElementsAre;
using testing::HasSubstr;

// One model with its manifest.
struct Subject {
  model::Model model;
  gguf::Manifest manifest;
  std::vector<expert::LayerExperts> experts;
};

Subject open_subject(const std::string& path) {
  auto file = gguf::ModelFile::open(path);
  if (!file) ADD_FAILURE() << file.error().message;
  auto model = model::bind_model(std::make_shared<const gguf::ModelFile>(std::move(file.value())),
                                 kernels::is_supported);
  if (!model) ADD_FAILURE() << model.error().message;
  ThreadPool pool(2);
  auto manifest = model::make_manifest(*model, pool, nullptr);
  if (!manifest) ADD_FAILURE() << manifest.error().message;
  auto experts = engine::local_experts(*model);
  return {std::move(model.value()), std::move(manifest.value().value()), std::move(experts)};
}

// Rows through one expert.
class Computer {
 public:
  explicit Computer(uint32_t n_embd) : n_embd_(n_embd), rows_(3 * size_t{n_embd}) {
    std::mt19937_64 random(5);
    for (float& value : rows_)
      value = static_cast<float>(static_cast<int64_t>(random() >> 40) - (1 << 23)) * 0x1p-23F;
  }

  std::vector<float> operator()(const expert::ExpertView& view) {
    std::vector<float> out(rows_.size());
    std::vector<expert::ExpertPair> pairs;
    for (uint32_t row = 0; row < 3; ++row)
      pairs.push_back({row, out.data() + row * size_t{n_embd_}, std::nullopt});
    const expert::ExpertJob job{view, 0, pairs.size()};
    function_.compute(rows_.data(), 3, {&job, 1}, pairs, expert::OutputEncoding::kF32);
    for (const expert::ExpertPair& pair : pairs) EXPECT_FALSE(pair.failure.has_value());
    return out;
  }

 private:
  uint32_t n_embd_;
  std::vector<float> rows_;
  ThreadPool pool_{1};
  expert::ExpertFunction function_{*kernels::select_table().value(), pool_};
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same(const Subject& subject, const HeldExperts& held, uint32_t layer,
                 ExpertRange experts) {
  Computer compute(subject.model.hp.n_embd);
  for (uint32_t index = 0; index < subject.model.hp.n_experts; ++index) {
    const auto view = held.find(layer, index);
    const bool is_held = index >= experts.begin && index < experts.end;
    ASSERT_EQ(view.has_value(), is_held) << "layer " << layer << ", expert " << index;
    if (!is_held) continue;
    EXPECT_TRUE(same_bits(compute(*view), compute(subject.experts[layer].expert(index))))
        << "layer " << layer << ", expert " << index;
  }
}

class SliceTest : public testing::Test {
 protected:
  std::shared_ptr<const SliceFile> cut(const Subject& subject, std::vector<uint32_t> layers,
                                       ExpertRange experts, const std::string& name) {
    auto written = gguf::write_slice(*subject.model.file, subject.manifest,
                                     {std::move(layers), experts}, folder_.path(name), nullptr);
    if (!written) ADD_FAILURE() << written.error().message;
    auto slice = SliceFile::open(folder_.path(name));
    if (!slice) ADD_FAILURE() << slice.error().message;
    return std::make_shared<const SliceFile>(std::move(slice.value()));
  }
  std::string synthetic(bool fused, gguf::TensorType type, uint32_t n_experts) {
    model::SynthesisPlan plan = model::small_plan(model::Architecture::kQwen35Moe);
    plan.fused_gate_up = fused;
    plan.type = type;
    plan.hp.n_experts = n_experts;
    auto written = model::write_synthetic(plan, folder_.path("m.gguf"), nullptr);
    if (!written) ADD_FAILURE() << written.error().message;
    return folder_.path("m.gguf");
  }

  TestFolder folder_;
};

TEST_F(SliceTest, TheBundledModelsExpertsComputeTheSame) {
  const Subject subject = open_subject(source_path("models/kvasir-tales-q4_k_m.gguf"));
  const uint32_t n = subject.model.hp.n_experts;
  const ExpertRange experts = gguf::group_experts(0, subject.manifest.shape().group_size, n);
  HeldExperts held;
  ASSERT_TRUE(held.add(cut(subject, {0, 3}, experts, "part.gguf")));
  EXPECT_EQ(held.model_hash(), subject.manifest.model_hash());
  EXPECT_EQ(held.n_embd(), subject.model.hp.n_embd);
  EXPECT_THAT(held.layers(), ElementsAre(0, 3));
  expect_same(subject, held, 0, experts);
  expect_same(subject, held, 1, {0, 0});
  expect_same(subject, held, 3, experts);
}

// Every type of weights the stock mixes use, separate and fused, with a last unit that is smaller.
TEST_F(SliceTest, UnitsWithoutAWrapperComputeTheSame) {
  for (gguf::TensorType type :
       {gguf::TensorType::kF32, gguf::TensorType::kBF16, gguf::TensorType::kQ8_0,
        gguf::TensorType::kQ4_0, gguf::TensorType::kMXFP4}) {
    for (bool fused : {false, true}) {
      const Subject subject = open_subject(synthetic(fused, type, 11));
      HeldExperts held;
      const UnitId last{2, 1};
      std::vector<std::vector<std::byte>> copies;
      std::vector<ByteSpan> ranges;
      for (const gguf::ManifestEntry* entry : subject.manifest.ranges(last)) {
        const ByteSpan bytes =
            subject.model.file->part_file(entry->part).bytes().subspan(entry->offset, entry->bytes);
        copies.emplace_back(bytes.begin(), bytes.end());
      }
      for (const auto& copy : copies) ranges.emplace_back(copy);
      ASSERT_TRUE(gguf::check_unit(subject.manifest, last, ranges));
      auto added = held.add(subject.manifest, last, ranges, nullptr);
      ASSERT_TRUE(added) << added.error().message;
      expect_same(subject, held, 2, {8, 11});
      // And beside it a slice with the rest of the layer.
      ASSERT_TRUE(held.add(cut(subject, {1, 2}, {0, 8}, "rest.gguf")));
      expect_same(subject, held, 2, {0, 11});
      expect_same(subject, held, 1, {0, 8});
      EXPECT_THAT(held.units(), ElementsAre(UnitId{1, 0}, UnitId{2, 0}, UnitId{2, 1}));
      EXPECT_EQ(held.expert_count(), 19U);
      uint64_t bytes = 0;
      for (UnitId unit : held.units())
        for (const gguf::ManifestEntry* entry : subject.manifest.ranges(unit))
          bytes += entry->bytes;
      EXPECT_EQ(held.bytes(), bytes);
    }
  }
}

TEST_F(SliceTest, HoldsEveryExpertOnceAndOfOneModel) {
  const Subject subject = open_subject(synthetic(false, gguf::TensorType::kQ8_0, 24));
  HeldExperts held;
  EXPECT_FALSE(held.find(0, 0).has_value());
  EXPECT_FALSE(held.remove({0, 0}));
  ASSERT_TRUE(held.add(cut(subject, {0, 1}, {8, 16}, "a.gguf")));
  EXPECT_THAT(held.add(cut(subject, {1, 2}, {0, 16}, "b.gguf")).error().message,
              HasSubstr("b.gguf: layer 1: some of the experts 0-15 are held already"));
  EXPECT_THAT(held.layers(), ElementsAre(0, 1));  // nothing of it was taken
  ASSERT_TRUE(held.add(cut(subject, {0}, {0, 8}, "c.gguf")));
  EXPECT_EQ(held.layer(0).size(), 2U);
  EXPECT_EQ(held.layer(0)[0].experts, (ExpertRange{0, 8}));

  EXPECT_TRUE(held.remove({0, 1}));
  EXPECT_FALSE(held.remove({0, 1}));
  expect_same(subject, held, 0, {0, 8});
  EXPECT_TRUE(held.remove({0, 0}));
  EXPECT_THAT(held.layers(), ElementsAre(1));

  const Subject other = open_subject(synthetic(true, gguf::TensorType::kQ8_0, 24));
  EXPECT_THAT(held.add(cut(other, {3}, {0, 8}, "d.gguf")).error().message,
              HasSubstr("experts of the model"));
}

TEST_F(SliceTest, RefusesRangesThatAreNoUnit) {
  const Subject subject = open_subject(synthetic(false, gguf::TensorType::kF32, 8));
  HeldExperts held;
  const auto entries = subject.manifest.ranges({0, 0});
  std::vector<std::vector<std::byte>> copies;
  for (const gguf::ManifestEntry* entry : entries) copies.emplace_back(entry->bytes + 8);
  std::vector<ByteSpan> ranges;
  for (size_t i = 0; i < 3; ++i) ranges.push_back(ByteSpan(copies[i]).first(entries[i]->bytes));
  const auto says = [&](UnitId unit, std::span<const ByteSpan> with) {
    auto added = held.add(subject.manifest, unit, with, nullptr);
    return added ? std::string("added") : added.error().message;
  };
  EXPECT_THAT(says({0, 1}, ranges), HasSubstr("the model has no group 1"));
  EXPECT_THAT(says({9, 0}, ranges), HasSubstr("layer 9"));
  EXPECT_THAT(says({0, 0}, std::span(ranges).first(2)), HasSubstr("2 ranges, must be 3"));
  std::vector<ByteSpan> wrong = ranges;
  wrong[1] = ByteSpan(copies[1]);
  EXPECT_THAT(says({0, 0}, wrong), HasSubstr("bytes, must be"));
  wrong[1] = ByteSpan(copies[1]).subspan(4, entries[1]->bytes);
  EXPECT_THAT(says({0, 0}, wrong), HasSubstr("no multiple of 8"));
  EXPECT_EQ(says({0, 0}, ranges), "added");
  EXPECT_THAT(says({0, 0}, ranges), HasSubstr("held already"));
}

}  // namespace
}  // namespace kvasir
