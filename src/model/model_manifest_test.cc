// Manifests and slices of small models: what enters the model hash, and that a slice holds the very
// bytes of its model.
#include "model/model_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "gguf/manifest_check.h"
#include "gguf/slice.h"
#include "gguf/slice_writer.h"
#include "model/test_model.h"

namespace kvasir::model {
namespace {

using gguf::ExpertRange;
using gguf::Manifest;
using gguf::SliceRequest;
using gguf::UnitId;
using testing::HasSubstr;

Model bound(const std::shared_ptr<const gguf::ModelFile>& file) {
  auto model = bind_model(file, nullptr, VectorCheck::kNone);
  if (!model) ADD_FAILURE() << model.error().message;
  return std::move(model.value());
}

Manifest manifest_of(const Model& model, size_t threads = 2) {
  ThreadPool pool(threads);
  auto manifest = make_manifest(model, pool, nullptr);
  if (!manifest) ADD_FAILURE() << manifest.error().message;
  return std::move(manifest.value().value());
}

Manifest manifest_of(const ModelPieces& pieces) {
  return manifest_of(bound(pieces.open()));
}

// 10 experts in groups of 4, so that a layer's last unit is smaller.
ModelPieces pieces_with_10_experts(bool fused = false) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_experts = 10;
  plan.fused_gate_up = fused;
  plan.type = TensorType::kQ8_0;
  ModelPieces pieces(plan);
  pieces.set_u32(std::string(gguf::kGroupSizeKey), 4);
  return pieces;
}

TEST(ModelManifest, HasTheHashOfEveryTensorAndUnit) {
  for (bool fused : {false, true}) {
    const auto file = pieces_with_10_experts(fused).open();
    const Model model = bound(file);
    const Manifest manifest = manifest_of(model);
    EXPECT_TRUE(gguf::check_model_hash(manifest));
    EXPECT_TRUE(check_same_model(manifest, model));
    EXPECT_EQ(manifest.units().size(), 2U * 3);
    size_t bytes = 0;
    std::set<std::string> names;
    for (const gguf::ManifestEntry& entry : manifest.entries()) {
      const gguf::TensorView* tensor = file->find(entry.name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_GE(entry.offset, tensor->info->offset);
      const ByteSpan at = file->part_file(entry.part).bytes().subspan(entry.offset, entry.bytes);
      EXPECT_EQ(entry.sha256, sha256_hex(at)) << entry.name;
      EXPECT_EQ(entry.unit.has_value(), entry.name.find("_exps.") != std::string::npos);
      bytes += entry.bytes;
      names.insert(entry.name);
    }
    EXPECT_EQ(bytes, file->tensor_bytes());
    EXPECT_EQ(names.size(), file->tensors().size());
    for (UnitId unit : manifest.units()) {
      EXPECT_EQ(manifest.ranges(unit).size(), fused ? 2U : 3U);
    }
    auto read = gguf::parse_manifest(manifest.text());
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->text(), manifest.text());
  }
}

TEST(ModelManifest, IsTheSameForAnyNumberOfThreads) {
  const Model model = bound(pieces_with_10_experts().open());
  const std::string text = manifest_of(model, 1).text();
  EXPECT_EQ(manifest_of(model, 2).text(), text);
  EXPECT_EQ(manifest_of(model, 7).text(), text);
}

TEST(ModelManifest, CountsExpertsInEightsUnlessTheModelSaysOtherwise) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_experts = 20;
  ModelPieces pieces(plan);
  const Manifest manifest = manifest_of(pieces);
  EXPECT_EQ(manifest.shape().group_size, 8U);
  EXPECT_EQ(manifest.experts({0, 2}), (ExpertRange{16, 20}));
  const std::string key(gguf::kGroupSizeKey);
  EXPECT_EQ(manifest_of(pieces.set_u32(key, 20)).units().size(), 2U);
  EXPECT_EQ(manifest_of(pieces.set_u32(key, 4096)).units().size(), 2U);
  EXPECT_EQ(manifest_of(pieces.set_u32(key, 1)).units().size(), 40U);
  ThreadPool pool(1);
  for (uint32_t bad : {0U, 4097U}) {
    auto refused = make_manifest(bound(pieces.set_u32(key, bad).open()), pool, nullptr);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message, HasSubstr("outside 1..4096"));
  }
}

// The order of keys, keys that no logit depends on, and defaults spelled out make no other model.
TEST(ModelManifest, HashIgnoresWhatReachesNoLogit) {
  const std::string hash = manifest_of(pieces_with_10_experts()).model_hash();
  const auto changed = [&](auto change) {
    ModelPieces pieces = pieces_with_10_experts();
    change(pieces);
    return manifest_of(pieces).model_hash();
  };
  EXPECT_EQ(changed([](auto& p) { p.set_string("general.name", "other"); }), hash);
  EXPECT_EQ(changed([](auto& p) { p.set_string("tokenizer.chat_template", "other"); }), hash);
  EXPECT_EQ(changed([](auto& p) { p.set_u32("qwen35moe.context_length", 77); }), hash);
  EXPECT_EQ(changed([](auto& p) { p.set_bool("qwen35moe.ssm.v_head_reordered", true); }), hash);

  EXPECT_NE(changed([](auto& p) { p.set_bool("qwen35moe.ssm.v_head_reordered", false); }), hash);
  EXPECT_NE(changed([](auto& p) { p.set_f32("qwen35moe.rope.freq_base", 12345); }), hash);
  EXPECT_NE(
      changed([](auto& p) { p.set_f32("qwen35moe.attention.layer_norm_rms_epsilon", 1e-5F); }),
      hash);
  EXPECT_NE(changed([](auto& p) { p.set_u32("qwen35moe.expert_used_count", 1); }), hash);
  EXPECT_NE(changed([](auto& p) { p.set_u32(std::string(gguf::kGroupSizeKey), 5); }), hash);
}

TEST(ModelManifest, HashChangesWithEveryTensor) {
  const ModelPieces good = pieces_with_10_experts();
  const std::string hash = manifest_of(good).model_hash();
  std::set<std::string> hashes = {hash};
  for (const TensorPiece& tensor : good.tensors()) {
    ModelPieces pieces = pieces_with_10_experts();
    pieces.tensor(tensor.name).data.back() ^= std::byte{1};
    EXPECT_TRUE(hashes.insert(manifest_of(pieces).model_hash()).second) << tensor.name;
  }
}

// One tensor a part, and in another order.
TEST(ModelManifest, HashIgnoresHowTheFileWasSplit) {
  const ModelPieces pieces = pieces_with_10_experts();
  const auto whole = pieces.open();
  TestFolder folder;
  const size_t n = whole->tensors().size() + 1;
  for (size_t part = 0; part < n; ++part) {
    gguf::Writer writer;
    if (part == 0)
      for (const gguf::Value& value : whole->metadata().values()) writer.add_value(value);
    writer.add_u16("split.no", static_cast<uint16_t>(part));
    writer.add_u16("split.count", static_cast<uint16_t>(n));
    writer.add_i32("split.tensors.count", static_cast<int32_t>(n - 1));
    const TensorPiece* piece = part == 0 ? nullptr : &pieces.tensors()[n - 1 - part];
    if (piece != nullptr) writer.add_tensor(piece->name, piece->type, piece->dims);
    folder.write(fmt::format("m-{:05}-of-{:05}.gguf", part + 1, n),
                 writer.write_to_memory(
                     [&](const auto&, uint64_t offset, std::span<std::byte> out) -> Result<void> {
                       std::copy_n(piece->data.begin() + static_cast<ptrdiff_t>(offset), out.size(),
                                   out.begin());
                       return {};
                     }));
  }
  const auto split = open_file(folder.path(fmt::format("m-{:05}-of-{:05}.gguf", 1, n)));
  ASSERT_EQ(split->parts(), n);
  const Model model = bound(split);
  const Manifest manifest = manifest_of(model);
  EXPECT_EQ(manifest.parts().size(), n);
  EXPECT_EQ(manifest.parts()[1].name, fmt::format("m-00002-of-{:05}.gguf", n));
  const Manifest of_whole = manifest_of(pieces);
  EXPECT_EQ(manifest.model_hash(), of_whole.model_hash());
  EXPECT_NE(manifest.text(), of_whole.text());
  EXPECT_TRUE(check_same_model(of_whole, model));

  // A slice of the split model by the other's manifest, and by its own: the same bytes.
  const SliceRequest request{{0, 1}, {4, 10}};
  ASSERT_TRUE(gguf::write_slice(*split, of_whole, request, folder.path("a"), nullptr).value());
  ASSERT_TRUE(gguf::write_slice(*split, manifest, request, folder.path("b"), nullptr).value());
  ASSERT_TRUE(gguf::write_slice(*whole, manifest, request, folder.path("c"), nullptr).value());
  const auto a = MappedFile::open(folder.path("a")).value();
  for (const char* other : {"b", "c"})
    EXPECT_TRUE(
        std::ranges::equal(a.bytes(), MappedFile::open(folder.path(other)).value().bytes()));
}

TEST(ModelManifest, CoversDraftBlocks) {
  const SynthesisPlan plan = plan_like("qwen3.5-35b-a3b", 0).value();
  ScratchFile scratch;
  ASSERT_TRUE(write_skeleton(plan, scratch.path()));
  const Model model = bound(open_file(scratch.path()));
  EXPECT_EQ(model.hp.n_mtp_blocks, 1U);
  // Not hashed: that is 20 GB. The first pieces stop it.
  ThreadPool pool(2);
  size_t calls = 0;
  auto stopped = make_manifest(model, pool, [&](uint64_t done, uint64_t all) {
    EXPECT_LE(done, all);
    EXPECT_EQ(all, model.file->tensor_bytes());
    return ++calls < 3;
  });
  ASSERT_TRUE(stopped.has_value()) << stopped.error().message;
  EXPECT_FALSE(stopped->has_value());
  EXPECT_EQ(calls, 3U);
}

TEST(ModelManifest, RefusesExpertsThatFitNoModel) {
  ThreadPool pool(1);
  ModelPieces pieces = pieces_with_10_experts();
  // A draft block's, of which binding takes no notice.
  pieces.add_tensor("blk.7.ffn_up_exps.weight", TensorType::kF32, {64, 32, 9});
  auto refused = make_manifest(bound(pieces.open()), pool, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("'blk.7.ffn_up_exps.weight'"));
  pieces = pieces_with_10_experts();
  pieces.add_tensor("blk.7.ffn_up_exps.weight", TensorType::kF32, {64, 32, 10});
  refused = make_manifest(bound(pieces.open()), pool, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("layer 7: gate, up or down is missing"));
  pieces = pieces_with_10_experts();
  pieces.add_tensor("with space", TensorType::kF32, {1});
  refused = make_manifest(bound(pieces.open()), pool, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
}

// 4096 experts in each of 12 layers, every one a unit of its own.
TEST(ModelManifest, IsNotMadeLargerThanItsReaderAllows) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_experts = 4096;
  plan.hp.n_layers = 12;
  plan.hp.layer_kinds.assign(12, LayerKind::kDeltaNet);
  plan.hp.layer_kinds.back() = LayerKind::kAttention;
  ScratchFile scratch;
  ASSERT_TRUE(write_skeleton(plan, scratch.path()));
  const auto file = open_file(scratch.path());
  gguf::Writer writer;
  for (const gguf::Value& value : file->metadata().values()) writer.add_value(value);
  writer.add_u32(gguf::kGroupSizeKey, 1);
  for (const gguf::TensorView& tensor : file->tensors())
    writer.add_tensor(tensor.info->name, tensor.info->type,
                      {tensor.info->dims.begin(), tensor.info->dims.begin() + tensor.info->n_dims});
  ScratchFile small_units;
  ASSERT_TRUE(writer.write_sparse(small_units.path()));
  ThreadPool pool(1);
  auto refused = make_manifest(bound(open_file(small_units.path())), pool, nullptr);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(refused.error().hint, HasSubstr("kvasir.expert_group_size"));
}

TEST(ModelManifest, KnowsAnotherModelWithoutReadingWeights) {
  const Manifest manifest = manifest_of(pieces_with_10_experts());
  const auto says = [&](const ModelPieces& pieces) {
    auto same = check_same_model(manifest, bound(pieces.open()));
    return same ? std::string("same") : same.error().message;
  };
  EXPECT_EQ(says(pieces_with_10_experts()), "same");
  EXPECT_THAT(says(ModelPieces(tiny_plan())), HasSubstr("the manifest is of another model"));
  EXPECT_THAT(says(pieces_with_10_experts(true)), HasSubstr("where the model has"));
  ModelPieces pieces = pieces_with_10_experts();
  pieces.set_f32("qwen35moe.rope.freq_base", 5000);
  EXPECT_THAT(says(pieces), HasSubstr("rope.freq_base"));
  pieces = pieces_with_10_experts();
  pieces.add_tensor("z", TensorType::kF32, {1});
  EXPECT_THAT(says(pieces), HasSubstr("tensors and units"));
  pieces = pieces_with_10_experts();
  TensorPiece& head = pieces.tensor("output.weight");
  head.type = TensorType::kF16;
  ModelPieces::resize(head);
  EXPECT_THAT(says(pieces), HasSubstr("'output.weight': type or shape"));
}

class SliceOfModel : public testing::Test {
 protected:
  TestFolder folder_;
};

// Every expert of the slice against the model, byte for byte.
TEST_F(SliceOfModel, HoldsTheModelsBytes) {
  for (bool fused : {false, true}) {
    const auto file = pieces_with_10_experts(fused).open();
    const Manifest manifest = manifest_of(bound(file));
    for (const SliceRequest& request : {SliceRequest{{0, 1}, {0, 10}}, SliceRequest{{1}, {8, 10}},
                                        SliceRequest{{0}, {0, 4}}, SliceRequest{{0, 1}, {4, 8}}}) {
      uint64_t last = 0;
      auto written = gguf::write_slice(*file, manifest, request, folder_.path("part.gguf"),
                                       [&](uint64_t done, uint64_t all) {
                                         EXPECT_LT(last, done);
                                         EXPECT_LE(last = done, all);
                                         return true;
                                       });
      ASSERT_TRUE(written.has_value()) << written.error().message;
      auto slice = gguf::SliceFile::open(folder_.path("part.gguf"));
      ASSERT_TRUE(slice.has_value()) << slice.error().message;
      EXPECT_EQ(slice->slice().source, manifest.model_hash());
      EXPECT_EQ(slice->slice().bytes(), last);
      EXPECT_EQ(last, gguf::slice_bytes(manifest, request).value());
      EXPECT_TRUE(gguf::check_slice(manifest, slice->slice()));
      ASSERT_EQ(slice->slice().layers.size(), request.layers.size());
      for (const gguf::SliceLayer& layer : slice->slice().layers) {
        EXPECT_EQ(layer.experts, request.experts);
        for (const gguf::SliceMatrix& matrix : layer.matrices) {
          const gguf::TensorView* whole =
              file->find(gguf::expert_tensor_name(layer.layer, matrix.role));
          ASSERT_EQ(matrix.expert_bytes, whole->data.size() / 10);
          const ByteSpan same =
              whole->data.subspan(request.experts.begin * matrix.expert_bytes, matrix.data.size());
          EXPECT_TRUE(std::ranges::equal(matrix.data, same));
        }
      }
      // Any reader of GGUF sees the model's keys.
      const auto plain = open_file(folder_.path("part.gguf"));
      EXPECT_EQ(plain->metadata().get_uint("qwen35moe.expert_count").value(), 10U);
      EXPECT_FALSE(plain->metadata().contains("tokenizer.ggml.tokens"));
      EXPECT_EQ(plain->part_header(0).unused_bytes, 0U);
    }
  }
}

TEST_F(SliceOfModel, RefusesWhatIsNotThere) {
  const auto file = pieces_with_10_experts().open();
  const Manifest manifest = manifest_of(bound(file));
  struct Case {
    SliceRequest request;
    const char* says;
    const char* hint;
  };
  const Case cases[] = {
      {{{0}, {0, 3}}, "experts 0-2 are no whole groups of 4", "around these are 0-3"},
      {{{0}, {5, 9}}, "experts 5-8 are no whole groups", "around these are 4-9"},
      {{{0}, {8, 12}}, "the model has experts 0-9", ""},
      {{{0}, {12, 16}}, "the model has experts 0-9", ""},
      {{{0}, {4, 4}}, "the model has experts 0-9", ""},
      {{{}, {0, 4}}, "needs a layer", ""},
      {{{0, 2}, {0, 4}}, "layer 2: the model has no experts there", ""},
  };
  for (const Case& bad : cases) {
    auto written = gguf::write_slice(*file, manifest, bad.request, folder_.path("x"), nullptr);
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(written.error().message, HasSubstr(bad.says));
    EXPECT_THAT(written.error().hint, HasSubstr(bad.hint));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("x")));
  }
}

// One changed weight: the slice that would hold it is not written, another one is.
TEST_F(SliceOfModel, IsNotWrittenFromDamagedWeights) {
  ModelPieces pieces = pieces_with_10_experts();
  const Manifest manifest = manifest_of(pieces);
  TensorPiece& up = pieces.tensor("blk.1.ffn_up_exps.weight");
  up.data[up.data.size() / 10 * 5] ^= std::byte{1};  // in expert 5
  const auto damaged = pieces.open();
  folder_.write("part.gguf", bytes_of("old"));
  auto written =
      gguf::write_slice(*damaged, manifest, {{0, 1}, {4, 8}}, folder_.path("part.gguf"), nullptr);
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(written.error().message,
              HasSubstr("tensor 'blk.1.ffn_up_exps.weight', experts 4-7: SHA-256 is"));
  EXPECT_EQ(text_of(MappedFile::open(folder_.path("part.gguf")).value().bytes()), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("part.gguf.partial")));
  EXPECT_TRUE(
      gguf::write_slice(*damaged, manifest, {{1}, {8, 10}}, folder_.path("part.gguf"), nullptr));
}

TEST_F(SliceOfModel, LeavesNothingBehindWhenStopped) {
  const auto file = pieces_with_10_experts().open();
  const Manifest manifest = manifest_of(bound(file));
  auto written = gguf::write_slice(*file, manifest, {{0}, {0, 10}}, folder_.path("x"),
                                   [](uint64_t, uint64_t) { return false; });
  ASSERT_TRUE(written.has_value());
  EXPECT_FALSE(*written);
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(folder_.path("x")).parent_path()));
}

// A slice whose bytes, shapes or model are others than the manifest's.
TEST_F(SliceOfModel, IsCheckedUnitByUnit) {
  const auto file = pieces_with_10_experts().open();
  const Manifest manifest = manifest_of(bound(file));
  const std::string path = folder_.path("part.gguf");
  ASSERT_TRUE(gguf::write_slice(*file, manifest, {{1}, {4, 10}}, path, nullptr).value());
  const auto slice = gguf::SliceFile::open(path).value();
  EXPECT_TRUE(gguf::check_slice(manifest, slice.slice()));
  ModelPieces others = pieces_with_10_experts();
  others.tensor("output.weight").data[0] ^= std::byte{1};
  EXPECT_THAT(gguf::check_slice(manifest_of(others), slice.slice()).error().message,
              HasSubstr("the slice is of the model"));

  gguf::Slice changed = slice.slice();
  std::vector<std::byte> copy(changed.layers[0].matrices[2].data.begin(),
                              changed.layers[0].matrices[2].data.end());
  copy.back() ^= std::byte{1};
  changed.layers[0].matrices[2].data = copy;
  EXPECT_THAT(gguf::check_slice(manifest, changed).error().message,
              HasSubstr("tensor 'blk.1.ffn_down_exps.weight', experts 8-9: SHA-256 is"));
  changed = slice.slice();
  changed.layers[0].matrices[0].n_out = 31;
  EXPECT_THAT(gguf::check_slice(manifest, changed).error().message, HasSubstr("in the manifest"));
  changed = slice.slice();
  changed.group_size = 2;
  EXPECT_THAT(gguf::check_slice(manifest, changed).error().message, HasSubstr("groups of 2"));
  changed = slice.slice();
  changed.layers[0].layer = 5;
  EXPECT_THAT(gguf::check_slice(manifest, changed).error().message, HasSubstr("layer 5"));
}

TEST_F(SliceOfModel, IsNoModel) {
  const auto file = pieces_with_10_experts().open();
  const std::string path = folder_.path("part.gguf");
  ASSERT_TRUE(
      gguf::write_slice(*file, manifest_of(bound(file)), {{1}, {4, 10}}, path, nullptr).value());
  auto model = bind_model(open_file(path), nullptr);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("the file is a slice"));
}

}  // namespace
}  // namespace kvasir::model
