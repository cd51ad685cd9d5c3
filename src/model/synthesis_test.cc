// Synthetic files are read back by the ordinary reader.
#include "model/synthesis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <set>

#include "model/test_model.h"

namespace kvasir::model {
namespace {

using testing::HasSubstr;

std::shared_ptr<const gguf::ModelFile> written(const SynthesisPlan& plan) {
  ScratchFile scratch;
  const auto result = write_synthetic(plan, scratch.path(), nullptr);
  if (!result) ADD_FAILURE() << result.error().message;
  return open_file(scratch.path());
}

std::shared_ptr<const gguf::ModelFile> skeleton(const SynthesisPlan& plan) {
  ScratchFile scratch;
  const auto result = write_skeleton(plan, scratch.path());
  if (!result) ADD_FAILURE() << result.error().message;
  return open_file(scratch.path());
}

TensorType type_of(const gguf::ModelFile& file, const std::string& name) {
  const gguf::TensorView* tensor = file.find(name);
  if (tensor == nullptr) ADD_FAILURE() << name << " is missing";
  return tensor->info->type;
}

TEST(Synthesis, WritesModelsThatBindInEveryVariant) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe})
    for (int variant = 0; variant < 16; ++variant) {
      SynthesisPlan plan = tiny_plan(architecture);
      plan.fused_gate_up = (variant & 1) != 0;
      plan.fused_qkv = (variant & 2) != 0;
      plan.tied_output = (variant & 4) != 0;
      plan.mix = (variant & 8) != 0 ? TypeMix::kQ4KM : TypeMix::kUniform;
      plan.type = TensorType::kQ8_0;
      const auto model = bind_model(written(plan), any_type);
      ASSERT_TRUE(model) << variant << ": " << model.error().message;
      EXPECT_TRUE(model->ignored_tensors.empty()) << variant;
    }
}

TEST(Synthesis, KeepsLayerKindsValueHeadOrderAndDraftBlocks) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_layers = 5;
  plan.hp.layer_kinds = {LayerKind::kAttention, LayerKind::kDeltaNet, LayerKind::kDeltaNet,
                         LayerKind::kAttention, LayerKind::kDeltaNet};
  plan.hp.n_mtp_blocks = 1;
  plan.hp.value_head_order = ValueHeadOrder::kGrouped;
  const auto model = bind_model(written(plan), any_type);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->hp.layer_kinds, plan.hp.layer_kinds);
  EXPECT_EQ(model->hp.n_mtp_blocks, 1U);
  EXPECT_EQ(model->hp.value_head_order, ValueHeadOrder::kGrouped);
}

// The same plan twice: equal files. Another seed: every weight matrix differs.
TEST(Synthesis, IsDeterministic) {
  SynthesisPlan plan = tiny_plan();
  const auto first = written(plan);
  const auto again = written(plan);
  EXPECT_TRUE(std::ranges::equal(first->part_file(0).bytes(), again->part_file(0).bytes()));
  plan.seed = 2;
  const auto other = written(plan);
  for (const gguf::TensorView& tensor : first->tensors())
    EXPECT_FALSE(std::ranges::equal(tensor.data, other->find(tensor.info->name)->data))
        << tensor.info->name;
}

TEST(Synthesis, ReportsProgressUpToTheEnd) {
  ScratchFile scratch;
  uint64_t last = 0;
  uint64_t all = 0;
  const auto result = write_synthetic(small_plan(Architecture::kQwen35Moe), scratch.path(),
                                      [&](uint64_t done, uint64_t total) -> Result<void> {
                                        EXPECT_GT(done, last);
                                        last = done;
                                        all = total;
                                        return {};
                                      });
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(all, 20'000'000U);
  EXPECT_EQ(last, all);
}

TEST(Synthesis, EndsWithTheErrorOfItsProgress) {
  ScratchFile scratch;
  const auto result =
      write_synthetic(small_plan(Architecture::kQwen35Moe), scratch.path(),
                      [](uint64_t, uint64_t) -> Result<void> { return Error::limit("enough"); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "enough");
  EXPECT_FALSE(std::filesystem::exists(scratch.path()));
}

// Rows of 96 and 80 values in types with blocks of 256 and 32.
TEST(Synthesis, FallsBackWhereRowsDoNotDivideIntoBlocks) {
  const std::map<TensorType, TensorType> fallbacks = {
      {TensorType::kQ2_K, TensorType::kQ4_0}, {TensorType::kQ3_K, TensorType::kQ4_0},
      {TensorType::kQ4_K, TensorType::kQ5_0}, {TensorType::kQ5_K, TensorType::kQ5_1},
      {TensorType::kQ6_K, TensorType::kQ8_0}, {TensorType::kIQ4_XS, TensorType::kIQ4_NL}};
  for (const auto& [type, fallback] : fallbacks) {
    SynthesisPlan plan = tiny_plan(Architecture::kQwen3Moe);
    plan.type = type;
    plan.hp.expert_width = 96;
    EXPECT_EQ(type_of(*skeleton(plan), "blk.0.ffn_down_exps.weight"), fallback);
    plan.hp.expert_width = 80;
    EXPECT_EQ(type_of(*skeleton(plan), "blk.0.ffn_down_exps.weight"), TensorType::kF16);
    // Rows that fit keep the type: the attention's output has 4 * 64 = 256 inputs.
    EXPECT_EQ(type_of(*skeleton(plan), "blk.0.attn_output.weight"), type);
  }
}

TEST(Synthesis, KeepsRoutersAndVectorsInF32) {
  SynthesisPlan plan = tiny_plan();
  plan.type = TensorType::kQ4_0;
  const auto file = skeleton(plan);
  for (const char* name :
       {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_inp_shexp.weight", "blk.0.ssm_conv1d.weight",
        "blk.0.ssm_dt.bias", "blk.0.ssm_a", "blk.0.ssm_norm.weight", "blk.1.attn_q_norm.weight",
        "output_norm.weight"})
    EXPECT_EQ(type_of(*file, name), TensorType::kF32) << name;
  for (const char* name : {"token_embd.weight", "output.weight", "blk.0.ssm_alpha.weight"})
    EXPECT_EQ(type_of(*file, name), TensorType::kQ4_0) << name;
}

// Layers whose down matrices the stock mix gives more bits, per published model.
TEST(Synthesis, MixesTypesLikeTheStockQuantiser) {
  const auto q6_layers = [](const gguf::ModelFile& file, const char* tensor) {
    std::set<uint32_t> layers;
    for (uint32_t i = 0; i < 64; ++i) {
      const auto* found = file.find(fmt::format("blk.{}.{}.weight", i, tensor));
      if (found != nullptr && found->info->type == TensorType::kQ6_K) layers.insert(i);
    }
    return layers;
  };
  const auto file = skeleton(plan_like("qwen3.5-35b-a3b", 0).value());
  const std::set<uint32_t> expected = {0,  1,  2,  3,  4,  7,  10, 13, 16, 19, 22,
                                       25, 28, 31, 34, 35, 36, 37, 38, 39, 40};
  EXPECT_EQ(q6_layers(*file, "ffn_down_exps"), expected);
  EXPECT_EQ(q6_layers(*file, "ffn_down_shexp"), expected);
  EXPECT_EQ(q6_layers(*file, "ffn_up_exps"), std::set<uint32_t>{});
  EXPECT_EQ(type_of(*file, "output.weight"), TensorType::kQ6_K);
  EXPECT_EQ(type_of(*file, "token_embd.weight"), TensorType::kQ4_K);
  EXPECT_EQ(type_of(*file, "blk.3.attn_v.weight"), TensorType::kQ6_K);
  EXPECT_EQ(type_of(*file, "blk.7.attn_v.weight"), TensorType::kQ6_K);
  EXPECT_EQ(type_of(*file, "blk.11.attn_v.weight"), TensorType::kQ4_K);
  EXPECT_EQ(type_of(*file, "blk.5.attn_qkv.weight"), TensorType::kQ4_K);
  EXPECT_EQ(type_of(*file, "blk.40.nextn.eh_proj.weight"), TensorType::kQ4_K);

  // 60 + 1 blocks: the rule runs with 61, so layer 52 is not among them.
  const auto large =
      q6_layers(*skeleton(plan_like("qwen3.5-397b-a17b", 0).value()), "ffn_down_exps");
  EXPECT_FALSE(large.contains(52));
  EXPECT_TRUE(large.contains(51) && large.contains(53) && large.contains(60));

  SynthesisPlan tied = small_plan(Architecture::kQwen35Moe);
  tied.mix = TypeMix::kQ4KM;
  tied.tied_output = true;
  EXPECT_EQ(type_of(*skeleton(tied), "token_embd.weight"), TensorType::kQ6_K);
  // Eight experts: the quantiser's exception.
  EXPECT_EQ(type_of(*skeleton(tied), "blk.3.attn_k.weight"), TensorType::kQ8_0);
  EXPECT_EQ(type_of(*skeleton(tied), "blk.3.attn_v.weight"), TensorType::kQ8_0);
  EXPECT_EQ(type_of(*skeleton(tied), "blk.3.attn_output.weight"), TensorType::kQ5_K);
  EXPECT_EQ(type_of(*skeleton(tied), "blk.2.attn_qkv.weight"), TensorType::kQ6_K);
}

// Parameters of the text model, as published (without embedding of images and without drafts).
TEST(Synthesis, HasThePublishedNumberOfParameters) {
  for (const auto& [name, expected] :
       std::map<std::string, uint64_t>{{"qwen3.5-35b-a3b", 34'660'610'688},
                                       {"qwen3.5-122b-a10b", 122'111'526'912},
                                       {"qwen3.5-397b-a17b", 396'346'350'336},
                                       {"qwen3-30b-a3b", 30'532'122'624},
                                       {"qwen3-235b-a22b", 235'093'634'560}}) {
    SynthesisPlan plan = plan_like(name, 0).value();
    plan.hp.n_mtp_blocks = 0;
    uint64_t parameters = 0;
    const auto file = skeleton(plan);
    for (const gguf::TensorView& tensor : file->tensors()) {
      const auto& dims = tensor.info->dims;
      parameters += dims[0] * dims[1] * dims[2] * dims[3];
    }
    EXPECT_EQ(parameters, expected) << name;
  }
}

TEST(Synthesis, CutsAPublishedModelToTheFirstLayers) {
  const SynthesisPlan plan = plan_like("qwen3.5-122b-a10b", 4).value();
  EXPECT_EQ(plan.hp.n_layers, 4U);
  EXPECT_EQ(plan.hp.n_mtp_blocks, 0U);
  EXPECT_EQ(plan.hp.layer_kinds, (std::vector{LayerKind::kDeltaNet, LayerKind::kDeltaNet,
                                              LayerKind::kDeltaNet, LayerKind::kAttention}));
  const auto model = bind_model(skeleton(plan), any_type);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers[0].gate.expert_stride, 1'769'472U);
}

TEST(Synthesis, NamesTheKnownModels) {
  const auto unknown = plan_like("qwen9", 0);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(unknown.error().hint, HasSubstr("qwen3.5-35b-a3b, qwen3.5-122b-a10b"));
  const auto too_deep = plan_like("qwen3-30b-a3b", 49);
  ASSERT_FALSE(too_deep);
  EXPECT_EQ(too_deep.error().kind, ErrorKind::kInvalid);
}

// 75.8 GB that take up little more than the header.
TEST(Synthesis, WritesASkeletonThatUsesNoDisk) {
  ScratchFile scratch;
  const auto result = write_skeleton(plan_like("qwen3.5-122b-a10b", 0).value(), scratch.path());
  ASSERT_TRUE(result) << result.error().message;
  struct stat status;
  ASSERT_EQ(::stat(scratch.path().c_str(), &status), 0);
  EXPECT_GT(status.st_size, 75'832'911'872);
  EXPECT_LT(status.st_blocks * 512, 32 << 20);
}

// Every merge joins two tokens that exist by then into one that exists; no token comes twice.
TEST(Synthesis, HasAConsistentTokenizer) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_vocab = 310;
  const auto file = skeleton(plan);
  const gguf::Metadata& metadata = file->metadata();
  const auto tokens = metadata.get_strings("tokenizer.ggml.tokens").value();
  const auto types = metadata.get_ints("tokenizer.ggml.token_type").value();
  const auto merges = metadata.get_strings("tokenizer.ggml.merges").value();
  ASSERT_EQ(tokens.size(), 310U);
  ASSERT_EQ(types.size(), 310U);
  EXPECT_EQ((std::set<std::string_view>(tokens.begin(), tokens.end()).size()), 310U);
  EXPECT_EQ(tokens[' '], "Ġ");
  EXPECT_EQ(tokens['\n'], "Ċ");
  EXPECT_EQ(tokens['a'], "a");
  EXPECT_EQ(tokens[0xFF], "ÿ");
  EXPECT_EQ(tokens[0xAD], "Ń");
  std::set<std::string> known(tokens.begin(), tokens.begin() + 256);
  size_t next = 256;
  for (std::string_view merge : merges) {
    const size_t space = merge.find(' ');
    ASSERT_NE(space, std::string_view::npos);
    const std::string left(merge.substr(0, space));
    const std::string right(merge.substr(space + 1));
    EXPECT_TRUE(known.contains(left)) << merge;
    EXPECT_TRUE(known.contains(right)) << merge;
    EXPECT_EQ(tokens[next++], left + right);
    known.insert(left + right);
  }
  const auto eos = metadata.get_uint("tokenizer.ggml.eos_token_id").value();
  EXPECT_EQ(tokens[eos], "<|im_end|>");
  EXPECT_EQ(types[eos], 3);
  EXPECT_EQ(tokens[309], "[PAD309]");
  EXPECT_EQ(types[309], 5);
}

TEST(Synthesis, RefusesPlansThatNoReaderWouldAccept) {
  struct Case {
    std::function<void(SynthesisPlan&)> spoil;
    const char* message;
  };
  for (const Case& one :
       std::vector<Case>{{[](auto& plan) { plan.hp.n_vocab = 299; }, "299"},
                         {[](auto& plan) { plan.hp.n_experts_used = 5; }, "expert_used_count: 5"},
                         {[](auto& plan) { plan.hp.n_layers = 3; }, "2 layer kinds for 3 layers"},
                         {[](auto& plan) { plan.hp.n_embd = 0; }, "embedding_length"},
                         {[](auto& plan) { plan.hp.n_mtp_blocks = 1023; }, "block_count: 1025"},
                         {[](auto& plan) { plan.hp.n_value_heads = 3; }, "ssm.time_step_rank"},
                         {[](auto& plan) { plan.hp.rope_dims = 15; }, "15 is odd"},
                         {[](auto& plan) { plan.type = TensorType::kIQ2_XXS; }, "IQ2_XXS"}}) {
    SynthesisPlan plan = tiny_plan();
    one.spoil(plan);
    ScratchFile scratch;
    const auto result = write_synthetic(plan, scratch.path(), nullptr);
    ASSERT_FALSE(result) << one.message;
    EXPECT_THAT(result.error().message, HasSubstr(one.message));
    EXPECT_FALSE(std::filesystem::exists(scratch.path()));
  }
}

TEST(Synthesis, RefusesDeltaNetLayersWhereThereAreNone) {
  SynthesisPlan plan = tiny_plan(Architecture::kQwen3Moe);
  plan.hp.layer_kinds[0] = LayerKind::kDeltaNet;
  ScratchFile scratch;
  const auto result = write_skeleton(plan, scratch.path());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
}

}  // namespace
}  // namespace kvasir::model
