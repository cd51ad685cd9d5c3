// Binding of synthesised files in every dialect, and of files with one tensor missing or wrong.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/test_data.h"
#include "model/test_model.h"

namespace kvasir::model {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::byte> bytes_of(const std::byte* data, uint64_t bytes) {
  return {data, data + bytes};
}
std::vector<std::byte> bytes_of(const Matrix& matrix) {
  return bytes_of(matrix.data, matrix.row_bytes * matrix.n_out);
}
std::vector<std::byte> bytes_of(const ExpertMatrices& experts, uint32_t expert) {
  return bytes_of(experts.data + expert * experts.expert_stride, experts.row_bytes * experts.n_out);
}

TEST(Model, BindsEveryTensorOfBothArchitectures) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const auto model = ModelPieces(tiny_plan(architecture)).bind();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->ignored_tensors, IsEmpty());
    ASSERT_EQ(model->layers.size(), 2U);
    EXPECT_EQ(model->token_embedding.n_out, 320U);
    EXPECT_EQ(model->output.name, "output.weight");
    EXPECT_EQ(model->output_norm.size, 64U);
    const bool is_hybrid = architecture == Architecture::kQwen35Moe;
    const Layer& last = model->layers.back();
    const auto& attention = std::get<AttentionTensors>(last.mixer);
    EXPECT_EQ(attention.q.n_out, is_hybrid ? 512U : 256U);
    EXPECT_EQ(attention.k.n_out, 128U);
    EXPECT_EQ(attention.output.n_in, 256U);
    EXPECT_EQ(attention.q_norm.size, 64U);
    EXPECT_EQ(last.router.n_out, 4U);
    EXPECT_EQ(last.down.n_in, 32U);
    EXPECT_EQ(last.down.expert_stride, 64U * 32 * 4);
    EXPECT_EQ(last.shared.has_value(), is_hybrid);
    EXPECT_EQ(std::holds_alternative<DeltaTensors>(model->layers.front().mixer), is_hybrid);
    if (!is_hybrid) continue;
    const auto& delta = std::get<DeltaTensors>(model->layers.front().mixer);
    EXPECT_EQ(delta.qkv.n_out, 128U);  // (2 * 2 + 4) heads of 16
    EXPECT_EQ(delta.z.n_out, 64U);
    EXPECT_EQ(delta.conv.size, 4U * 128);
    EXPECT_EQ(delta.out.n_in, 64U);
    EXPECT_EQ(last.shared->down.n_in, 32U);
  }
}

// What `part` and `file_offset` promise: reading there gives the same bytes as the mapping.
TEST(Model, KnowsWhereExpertsAreOnDisk) {
  SynthesisPlan plan = tiny_plan();
  plan.fused_gate_up = true;
  const auto model = ModelPieces(plan).bind();
  ASSERT_TRUE(model) << model.error().message;
  for (const Layer& layer : model->layers)
    for (const ExpertMatrices* experts : {&layer.gate, &layer.up, &layer.down})
      EXPECT_EQ(model->file->part_file(experts->part).bytes().data() + experts->file_offset,
                experts->data)
          << experts->name;
}

// Each tensor is taken out in turn.
// Of a model with a head of its own and of one without: all bytes are experts, token embedding or
// dense.
TEST(Model, KnowsWhatEveryTokenReads) {
  for (bool tied : {false, true}) {
    SynthesisPlan plan = tiny_plan();
    plan.tied_output = tied;
    const auto model = ModelPieces(plan).bind();
    ASSERT_TRUE(model);
    uint64_t others = tied ? 0 : model->token_embedding.n_out * model->token_embedding.row_bytes;
    for (const Layer& layer : model->layers)
      for (const ExpertMatrices* matrices : {&layer.gate, &layer.up, &layer.down})
        others += matrices->n_experts * matrices->expert_stride;
    uint64_t dense = 0;
    for (ByteSpan tensor : dense_tensors(*model)) {
      dense += tensor.size();
      EXPECT_NE(tensor.data(), model->layers[0].down.data);
    }
    EXPECT_EQ(dense + others, model->file->tensor_bytes());
  }
}

TEST(Model, NamesTheMissingTensor) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const ModelPieces whole(tiny_plan(architecture));
    for (const TensorPiece& piece : whole.tensors()) {
      if (piece.name == "output.weight") continue;  // then the head is tied
      ModelPieces pieces = whole;
      pieces.take_tensor(piece.name);
      const auto model = pieces.bind();
      ASSERT_FALSE(model) << piece.name;
      EXPECT_TRUE(model.error().kind == ErrorKind::kNotFound ||
                  model.error().kind == ErrorKind::kCorrupt);
      EXPECT_THAT(model.error().message, HasSubstr("'" + piece.name + "' is missing"));
    }
  }
}

// Each tensor gets one row more in turn, or one value more if it has only one row.
TEST(Model, NamesTheTensorOfTheWrongShape) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const ModelPieces whole(tiny_plan(architecture));
    for (const TensorPiece& piece : whole.tensors()) {
      ModelPieces pieces = whole;
      ++pieces.tensor(piece.name).dims.back();
      ModelPieces::resize(pieces.tensor(piece.name));
      const auto model = pieces.bind();
      ASSERT_FALSE(model) << piece.name;
      EXPECT_EQ(model.error().kind, ErrorKind::kCorrupt);
      EXPECT_THAT(model.error().message, HasSubstr("'" + piece.name + "': has shape {"));
      EXPECT_THAT(model.error().message, HasSubstr("imply {"));
    }
  }
}

// Norms, biases and the like are used as f32 where they lie. One after the other becomes F16, and
// one after the other gets a value that is not finite.
TEST(Model, RefusesVectorsThatAreNotFiniteF32) {
  const ModelPieces whole(tiny_plan());
  const auto model = whole.bind();
  ASSERT_TRUE(model) << model.error().message;
  std::set<std::string> vectors = {model->output_norm.name};
  for (const Layer& layer : model->layers) {
    vectors.insert({layer.attention_norm.name, layer.ffn_norm.name, layer.shared->gate_input.name});
    if (const auto* attention = std::get_if<AttentionTensors>(&layer.mixer))
      vectors.insert({attention->q_norm.name, attention->k_norm.name});
    if (const auto* delta = std::get_if<DeltaTensors>(&layer.mixer))
      vectors.insert({delta->conv.name, delta->dt_bias.name, delta->a.name, delta->norm.name});
  }
  ASSERT_EQ(vectors.size(), 13U);
  for (const std::string& name : vectors) {
    ModelPieces pieces = whole;
    pieces.tensor(name).type = TensorType::kF16;
    ModelPieces::resize(pieces.tensor(name));
    const auto other_type = pieces.bind();
    ASSERT_FALSE(other_type) << name;
    EXPECT_EQ(other_type.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(other_type.error().message, HasSubstr("'" + name + "': is F16, must be F32"));

    for (float value :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      pieces = whole;
      pieces.tensor(name).set_float(3, value);
      const auto not_finite = pieces.bind();
      ASSERT_FALSE(not_finite) << name;
      EXPECT_EQ(not_finite.error().kind, ErrorKind::kCorrupt);
      EXPECT_THAT(not_finite.error().message, HasSubstr("'" + name + "': value 3 is not finite"));
    }
  }
}

TEST(Model, RefusesADecayThatWouldGrow) {
  ModelPieces pieces(tiny_plan());
  pieces.tensor("blk.0.ssm_a").set_float(1, 0.5F);
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("'blk.0.ssm_a': value 1 is 0.5"));
}

TEST(Model, NamesTheTensorOfAnUnsupportedType) {
  SynthesisPlan plan = tiny_plan();
  plan.type = TensorType::kQ4_0;
  const ModelPieces pieces(plan);
  const auto model = pieces.bind([](TensorType type) { return type == TensorType::kF32; });
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("'token_embd.weight': type Q4_0"));
  EXPECT_THAT(model.error().hint, HasSubstr("F32"));
}

TEST(Model, RefusesCompanionsThatChangeAProduct) {
  for (const char* companion : {"scale", "input_scale", "bias"}) {
    ModelPieces pieces(tiny_plan());
    pieces.add_tensor(fmt::format("blk.1.ffn_down_exps.{}", companion), TensorType::kF32, {4});
    const auto model = pieces.bind();
    ASSERT_FALSE(model) << companion;
    EXPECT_EQ(model.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(model.error().message,
                HasSubstr(fmt::format("'blk.1.ffn_down_exps.{}'", companion)));
  }
}

TEST(Model, TakesTheEmbeddingAsHeadWhereThereIsNone) {
  SynthesisPlan plan = tiny_plan();
  plan.tied_output = true;
  const auto model = ModelPieces(plan).bind();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->output.data, model->token_embedding.data);
  EXPECT_EQ(model->output.name, "token_embd.weight");
  EXPECT_THAT(model->hp.dialect_notes, Contains(HasSubstr("token embedding")));
}

// The fused tensor holds, expert by expert, the gate rows and then the up rows.
TEST(Model, SplitsFusedGateUp) {
  for (TensorType type : {TensorType::kF32, TensorType::kQ4_0}) {
    SynthesisPlan plan = tiny_plan();
    plan.type = type;
    const ModelPieces separate(plan);
    ModelPieces fused = separate;
    for (const std::string block : {"blk.0.", "blk.1."}) {
      const TensorPiece gate = fused.take_tensor(block + "ffn_gate_exps.weight");
      const TensorPiece up = fused.take_tensor(block + "ffn_up_exps.weight");
      fused.add_tensor(block + "ffn_gate_up_exps.weight", type, {64, 2 * 32, 4});
      auto& data = fused.tensor(block + "ffn_gate_up_exps.weight").data;
      const auto half = static_cast<ptrdiff_t>(gate.data.size() / 4);
      for (ptrdiff_t expert = 0; expert < 4; ++expert) {
        std::copy_n(gate.data.begin() + expert * half, half, data.begin() + 2 * expert * half);
        std::copy_n(up.data.begin() + expert * half, half, data.begin() + (2 * expert + 1) * half);
      }
    }
    const auto expected = separate.bind();
    const auto model = fused.bind();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->ignored_tensors, IsEmpty());
    EXPECT_THAT(model->hp.dialect_notes, Contains(HasSubstr("ffn_gate_up_exps")));
    for (size_t i = 0; i < 2; ++i)
      for (uint32_t expert = 0; expert < 4; ++expert) {
        EXPECT_EQ(bytes_of(model->layers[i].gate, expert),
                  bytes_of(expected->layers[i].gate, expert));
        EXPECT_EQ(bytes_of(model->layers[i].up, expert), bytes_of(expected->layers[i].up, expert));
      }
  }
}

TEST(Model, RefusesGateAndUpBothFusedAndSeparate) {
  ModelPieces pieces(tiny_plan());
  pieces.add_tensor("blk.1.ffn_gate_up_exps.weight", TensorType::kF32, {64, 64, 4});
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("'blk.1.ffn_gate_up_exps.weight'"));
}

TEST(Model, SplitsFusedQkv) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const ModelPieces separate(tiny_plan(architecture));
    ModelPieces fused = separate;
    const TensorPiece q = fused.take_tensor("blk.1.attn_q.weight");
    const TensorPiece k = fused.take_tensor("blk.1.attn_k.weight");
    const TensorPiece v = fused.take_tensor("blk.1.attn_v.weight");
    fused.add_tensor("blk.1.attn_qkv.weight", TensorType::kF32,
                     {64, q.dims[1] + k.dims[1] + v.dims[1]});
    auto& data = fused.tensor("blk.1.attn_qkv.weight").data;
    auto end = std::copy(q.data.begin(), q.data.end(), data.begin());
    end = std::copy(k.data.begin(), k.data.end(), end);
    end = std::copy(v.data.begin(), v.data.end(), end);
    ASSERT_EQ(end, data.end());
    const auto expected = separate.bind();
    const auto model = fused.bind();
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->ignored_tensors, IsEmpty());
    const auto& got = std::get<AttentionTensors>(model->layers[1].mixer);
    const auto& want = std::get<AttentionTensors>(expected->layers[1].mixer);
    EXPECT_EQ(bytes_of(got.q), bytes_of(want.q));
    EXPECT_EQ(bytes_of(got.k), bytes_of(want.k));
    EXPECT_EQ(bytes_of(got.v), bytes_of(want.v));
  }
}

// One converter's dialect in full: other name for the time step bias, {E, 1} for the shared gate,
// arrays, extra keys, and the tensors of an image encoder and a draft head in the same file.
TEST(Model, ReadsTheDialectWithImageAndDraftTensors) {
  const ModelPieces plain(tiny_plan());
  ModelPieces pieces = plain;
  pieces.set_i32s("qwen35moe.attention.head_count_kv", {0, 2});
  pieces.set_i32s("qwen35moe.rope.dimension_sections", {3, 3, 2});
  pieces.set_bool("qwen35moe.ssm.v_head_reordered", true);
  pieces.set_bool("qwen35moe.rope.mrope_interleaved", true);
  pieces.set_bool("qwen35moe.norm_top_k_prob", true);
  pieces.set_u32("qwen35moe.feed_forward_length", 0);
  pieces.set_i32s("tokenizer.ggml.eos_token_ids", {298, 296});
  pieces.tensor("blk.0.ssm_dt.bias").name = "blk.0.ssm_dt";
  for (const char* name : {"blk.0.ffn_gate_inp_shexp.weight", "blk.1.ffn_gate_inp_shexp.weight"})
    pieces.tensor(name).dims = {64, 1};
  pieces.add_tensor("v.patch_embed.weight", TensorType::kF16, {16, 16, 3});
  pieces.add_tensor("mm.0.weight", TensorType::kBF16, {64, 64});
  pieces.add_tensor("mtp.fc.weight", TensorType::kQ8_0, {128, 64});

  const auto model = pieces.bind();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->ignored_tensors,
            (std::vector<std::string>{"v.patch_embed.weight", "mm.0.weight", "mtp.fc.weight"}));
  EXPECT_THAT(model->hp.dialect_notes, Contains(HasSubstr("ssm_dt")));
  const auto expected = plain.bind();
  const auto& delta = std::get<DeltaTensors>(model->layers[0].mixer);
  EXPECT_EQ(delta.dt_bias.data[2],
            std::get<DeltaTensors>(expected->layers[0].mixer).dt_bias.data[2]);
  EXPECT_EQ(model->layers[1].shared->gate_input.size, 64U);
}

TEST(Model, SkipsTheDraftBlock) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_mtp_blocks = 1;
  const auto model = ModelPieces(plan).bind();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers.size(), 2U);
  EXPECT_EQ(model->ignored_tensors.size(), 20U);
  EXPECT_THAT(model->ignored_tensors, testing::Each(testing::StartsWith("blk.2.")));
}

TEST(Model, RefusesAFileWithTheDraftBlockOnly) {
  SynthesisPlan plan = tiny_plan();
  plan.hp.n_mtp_blocks = 1;
  ModelPieces pieces(plan);
  pieces.remove_tensors_with("blk.0.").remove_tensors_with("blk.1.");
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("MTP (draft) block only"));
  EXPECT_THAT(model.error().hint, HasSubstr("companion"));
}

TEST(Model, RefusesToLeaveLayersOut) {
  ModelPieces pieces(tiny_plan());
  pieces.set_u32("qwen35moe.block_count", 1);
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(model.error().message, HasSubstr("say 1 blocks"));
  EXPECT_THAT(model.error().message, HasSubstr("'blk.1.attn_norm.weight'"));
}

// The metadata's kinds of layers and the tensors must tell the same story.
TEST(Model, SeesThatALayerIsOfTheOtherKind) {
  ModelPieces pieces(tiny_plan());
  pieces.set_i32s("qwen35moe.attention.recurrent_layers", {0, 1});
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(model.error().message,
              HasSubstr("block 0: an attention layer by its metadata, but the file holds "
                        "'blk.0.ssm_conv1d.weight'"));
}

TEST(Model, RefusesAVocabularyWithoutWeights) {
  ModelPieces pieces(tiny_plan());
  pieces.remove_tensors_with("");
  const auto model = pieces.bind();
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(model.error().message, HasSubstr("vocabulary and no weights"));
  EXPECT_THAT(model.error().message, HasSubstr(".gguf: "));
}

TEST(Model, BindsTheTaleModel) {
  const auto model =
      bind_model(open_file(source_path("models/kvasir-tales-q4_k_m.gguf")), any_type);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->ignored_tensors, IsEmpty());
  EXPECT_EQ(model->layers[3].down.type, TensorType::kQ6_K);
  EXPECT_EQ(model->layers[0].gate.expert_stride, 256U * 144);
}

TEST(Model, BindsTheReferenceFiles) {
  KVASIR_NEED_GOLDEN("tiny-f32.gguf");
  for (const std::string name :
       {"tiny-f32", "small-q4_k_m", "tied-q4_k_m", "qwen3moe-q4_k_m", "mini-q8_0", "mini-mxfp4_moe",
        "mini-iq4_xs", "mini-q2_k", "mini-q3_k_m", "mini-bf16", "mini-f16"}) {
    const auto model = bind_model(open_file(golden_data(name + ".gguf")), any_type);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->ignored_tensors, IsEmpty()) << name;
    EXPECT_EQ(model->output.data == model->token_embedding.data, name == "tied-q4_k_m") << name;
  }
}

}  // namespace
}  // namespace kvasir::model
