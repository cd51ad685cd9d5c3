// Inspection of full-size skeletons against figures computed by hand, and of files that cannot run.
#include "model/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_data.h"
#include "model/test_model.h"

namespace kvasir::model {
namespace {

using testing::Contains;
using testing::HasSubstr;

Inspection inspect_file(const gguf::ModelFile& file) {
  auto facts = inspect(file);
  if (!facts) ADD_FAILURE() << facts.error().message;
  return facts.value();
}

Inspection inspect_skeleton(const SynthesisPlan& plan) {
  ScratchFile scratch;
  const auto written = write_skeleton(plan, scratch.path());
  if (!written) ADD_FAILURE() << written.error().message;
  return inspect_file(*open_file(scratch.path()));
}

// The weight bytes were added up from the published table of dimensions and the stock mix.
TEST(Inspection, GivesTheFiguresOfTheLargeModel) {
  const Inspection facts = inspect_skeleton(plan_like("qwen3.5-122b-a10b", 0).value());
  EXPECT_TRUE(facts.supported) << facts.why_unsupported;
  EXPECT_EQ(facts.architecture, "qwen35moe");
  EXPECT_EQ(facts.parts, 1U);
  EXPECT_EQ(facts.tensors, 899U);
  EXPECT_EQ(facts.hp.n_layers, 48U);
  EXPECT_EQ(facts.hp.n_mtp_blocks, 1U);
  EXPECT_EQ(facts.hp.n_embd, 3072U);
  EXPECT_EQ(facts.hp.n_experts, 256U);
  EXPECT_EQ(facts.hp.n_experts_used, 8U);
  EXPECT_EQ(facts.experts_total, 12'544U);
  EXPECT_EQ(facts.experts_main, 12'288U);
  EXPECT_EQ(facts.expert_bytes_min, 5'308'416U);
  EXPECT_EQ(facts.expert_bytes_max, 6'119'424U);
  EXPECT_EQ(facts.all_expert_bytes, 256 * (24 * 5'308'416ULL + 25 * 6'119'424ULL));
  EXPECT_DOUBLE_EQ(facts.expert_bytes_mean, (24 * 5'308'416.0 + 25 * 6'119'424.0) / 49);
  EXPECT_EQ(facts.weight_bytes, 75'832'911'872U);
  EXPECT_NEAR(facts.expert_share, 0.94654, 1e-5);
  EXPECT_EQ(facts.expert_dimension, 2U);
  EXPECT_EQ(facts.kv_bytes_per_token_f16, 24'576U);
  EXPECT_EQ(facts.kv_bytes_per_token_f32, 49'152U);
  EXPECT_EQ(facts.state_bytes_per_sequence, 156'303'360U);
  EXPECT_GT(facts.file_bytes, facts.weight_bytes);
  EXPECT_THAT(facts.notes, Contains(HasSubstr("1 MTP (draft) block after the 48 layers")));
}

TEST(Inspection, GivesTheFiguresOfTheSmallerModelWithAndWithoutDraftBlock) {
  SynthesisPlan plan = plan_like("qwen3.5-35b-a3b", 0).value();
  Inspection facts = inspect_skeleton(plan);
  EXPECT_EQ(facts.tensors, 753U);
  EXPECT_EQ(facts.experts_total, 10'496U);
  EXPECT_EQ(facts.weight_bytes, 21'702'472'192U);
  plan.hp.n_mtp_blocks = 0;
  facts = inspect_skeleton(plan);
  EXPECT_EQ(facts.tensors, 733U);
  EXPECT_EQ(facts.experts_total, 10'240U);
  EXPECT_EQ(facts.expert_bytes_min, 1'769'472U);
  EXPECT_EQ(facts.expert_bytes_max, 2'039'808U);
  EXPECT_EQ(facts.weight_bytes, 21'155'768'832U);
  EXPECT_NEAR(facts.expert_share, 0.92190, 1e-5);
}

TEST(Inspection, CountsTypes) {
  const Inspection facts = inspect_file(*open_file(source_path("models/kvasir-tales-q4_k_m.gguf")));
  EXPECT_TRUE(facts.supported) << facts.why_unsupported;
  EXPECT_EQ(facts.name, "kvasir-tales");
  EXPECT_EQ(facts.experts_total, 128U);
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  for (const auto& [name, use] : facts.types) {
    tensors += use.tensors;
    bytes += use.bytes;
  }
  EXPECT_EQ(tensors, facts.tensors);
  EXPECT_EQ(bytes, facts.weight_bytes);
  EXPECT_TRUE(facts.types.contains("Q4_K") && facts.types.contains("Q6_K"));
}

TEST(Inspection, CountsFusedExpertsLikeSeparateOnes) {
  SynthesisPlan plan = tiny_plan();
  const Inspection separate = inspect_file(*ModelPieces(plan).open());
  plan.fused_gate_up = true;
  const Inspection fused = inspect_file(*ModelPieces(plan).open());
  EXPECT_EQ(separate.expert_bytes_min, 3U * 64 * 32 * 4);
  EXPECT_EQ(fused.expert_bytes_min, separate.expert_bytes_min);
  EXPECT_EQ(fused.all_expert_bytes, separate.all_expert_bytes);
  EXPECT_THAT(fused.notes, Contains(HasSubstr("ffn_gate_up_exps")));
}

TEST(Inspection, TellsOfTensorsWithoutARole) {
  ModelPieces pieces(tiny_plan());
  pieces.add_tensor("v.patch_embed.weight", TensorType::kF16, {16, 16});
  pieces.add_tensor("mm.0.weight", TensorType::kF16, {16, 16});
  EXPECT_THAT(inspect_file(*pieces.open()).notes,
              Contains("2 tensors without a role here, the first is 'v.patch_embed.weight'"));
}

TEST(Inspection, TellsOfAnAnnouncedDraftBlockThatIsNotThere) {
  ModelPieces pieces(tiny_plan());
  pieces.set_u32("qwen35moe.block_count", 3).set_u32("qwen35moe.nextn_predict_layers", 1);
  const Inspection facts = inspect_file(*pieces.open());
  EXPECT_TRUE(facts.supported) << facts.why_unsupported;
  EXPECT_EQ(facts.experts_total, 8U);
  EXPECT_THAT(facts.notes, Contains(HasSubstr("the file holds none")));
}

TEST(Inspection, DescribesWhatCannotRun) {
  ModelPieces other(tiny_plan());
  other.set_string("general.architecture", "llama");
  Inspection facts = inspect_file(*other.open());
  EXPECT_FALSE(facts.supported);
  EXPECT_THAT(facts.why_unsupported, HasSubstr("'llama'"));
  EXPECT_THAT(facts.why_unsupported, HasSubstr("qwen35moe, qwen3moe"));
  EXPECT_EQ(facts.architecture, "llama");
  EXPECT_GT(facts.tensors, 0U);

  ModelPieces nameless(tiny_plan());
  nameless.remove_key("general.architecture").remove_key("general.name");
  facts = inspect_file(*nameless.open());
  EXPECT_FALSE(facts.supported);
  EXPECT_THAT(facts.why_unsupported, HasSubstr("general.architecture"));
  EXPECT_EQ(facts.name, "");

  ModelPieces vocabulary(tiny_plan());
  vocabulary.remove_tensors_with("");
  facts = inspect_file(*vocabulary.open());
  EXPECT_FALSE(facts.supported);
  EXPECT_THAT(facts.why_unsupported, HasSubstr("vocabulary and no weights"));
  EXPECT_EQ(facts.hp.n_experts, 4U);  // the metadata are complete all the same
  EXPECT_EQ(facts.experts_total, 0U);
}

TEST(Inspection, CountsTheExpertsOfADraftOnlyFile) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_mtp_blocks = 1;
  ModelPieces pieces(plan);
  pieces.remove_tensors_with("blk.0.").remove_tensors_with("blk.1.");
  const Inspection facts = inspect_file(*pieces.open());
  EXPECT_FALSE(facts.supported);
  EXPECT_THAT(facts.why_unsupported, HasSubstr("MTP (draft) block only"));
  EXPECT_EQ(facts.experts_total, 4U);
  EXPECT_EQ(facts.experts_main, 0U);
}

TEST(Inspection, NamesATypeThatCannotBeComputed) {
  SynthesisPlan plan = tiny_plan();
  plan.type = TensorType::kQ5_1;
  const auto file = ModelPieces(plan).open();
  EXPECT_TRUE(inspect_file(*file).supported);
  const auto facts = inspect(*file, [](TensorType type) { return type != TensorType::kQ5_1; });
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->supported);
  EXPECT_THAT(facts->why_unsupported, HasSubstr("type Q5_1"));
}

TEST(Inspection, ReadsAVocabularyOnlyReferenceFile) {
  KVASIR_NEED_GOLDEN("tokenizer/qwen3-vocab.gguf");
  const Inspection facts = inspect_file(*open_file(golden_data("tokenizer/qwen3-vocab.gguf")));
  EXPECT_FALSE(facts.supported);
  EXPECT_EQ(facts.architecture, "qwen3moe");
  EXPECT_EQ(facts.name, "vocabulary only");
  EXPECT_EQ(facts.tensors, 0U);
  EXPECT_THAT(facts.why_unsupported, HasSubstr("vocabulary and no weights"));
}

}  // namespace
}  // namespace kvasir::model
