// Hyper-parameters of synthesised files with one key changed or removed, and of the reference
// files.
#include "model/hyper_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_data.h"
#include "model/test_model.h"

namespace kvasir::model {
namespace {

using testing::Contains;
using testing::HasSubstr;

Result<HyperParameters> read(const ModelPieces& pieces) {
  return read_hyper_parameters(pieces.open()->metadata());
}

TEST(HyperParameters, ComeBackAsTheyWereSynthesised) {
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const HyperParameters wanted = tiny_plan(architecture).hp;
    const auto hp = read(ModelPieces(tiny_plan(architecture)));
    ASSERT_TRUE(hp) << hp.error().message;
    EXPECT_EQ(hp->architecture, architecture);
    EXPECT_EQ(hp->n_layers, wanted.n_layers);
    EXPECT_EQ(hp->n_mtp_blocks, 0U);
    EXPECT_EQ(hp->context_length, wanted.context_length);
    EXPECT_EQ(hp->n_embd, wanted.n_embd);
    EXPECT_EQ(hp->n_vocab, wanted.n_vocab);
    EXPECT_EQ(hp->layer_kinds, wanted.layer_kinds);
    EXPECT_EQ(hp->n_heads, wanted.n_heads);
    EXPECT_EQ(hp->n_kv_heads, wanted.n_kv_heads);
    EXPECT_EQ(hp->head_dim, wanted.head_dim);
    EXPECT_EQ(hp->attention_output_gate, wanted.attention_output_gate);
    EXPECT_EQ(hp->rope_dims, wanted.rope_dims);
    EXPECT_EQ(hp->rope_base, wanted.rope_base);
    EXPECT_EQ(hp->rms_eps, wanted.rms_eps);
    EXPECT_EQ(hp->n_key_heads, wanted.n_key_heads);
    EXPECT_EQ(hp->n_value_heads, wanted.n_value_heads);
    EXPECT_EQ(hp->delta_head_dim, wanted.delta_head_dim);
    EXPECT_EQ(hp->conv_kernel, wanted.conv_kernel);
    EXPECT_EQ(hp->n_experts, wanted.n_experts);
    EXPECT_EQ(hp->n_experts_used, wanted.n_experts_used);
    EXPECT_EQ(hp->expert_width, wanted.expert_width);
    EXPECT_EQ(hp->shared_expert_width, wanted.shared_expert_width);
    EXPECT_TRUE(hp->dialect_notes.empty());
  }
}

// Each key of the architecture is taken out in turn. Those that may be absent are listed; every
// other one must be named by the error.
TEST(HyperParameters, NameTheMissingKey) {
  const std::vector<std::string> optional = {
      "attention.head_count_kv",  // then equal to head_count
      "attention.key_length",     // then embedding_length / head_count, as is the other
      "attention.value_length",
      "full_attention_interval",  // then 4
      "vocab_size",               // then the number of tokens
  };
  for (Architecture architecture : {Architecture::kQwen35Moe, Architecture::kQwen3Moe}) {
    const std::string prefix = std::string(architecture_name(architecture)) + ".";
    const ModelPieces whole(tiny_plan(architecture));
    int required = 0;
    for (const std::string& key : whole.key_names()) {
      if (!key.starts_with(prefix) && key != "general.architecture") continue;
      const std::string name = key.substr(key.find('.') + 1);
      if (std::find(optional.begin(), optional.end(), name) != optional.end()) continue;
      if (architecture == Architecture::kQwen3Moe && name == "rope.dimension_count") continue;
      ModelPieces pieces = whole;
      const auto hp = read(pieces.remove_key(key));
      ASSERT_FALSE(hp) << key;
      EXPECT_EQ(hp.error().kind, ErrorKind::kNotFound) << key;
      EXPECT_THAT(hp.error().message, HasSubstr(key));
      ++required;
    }
    EXPECT_EQ(required, architecture == Architecture::kQwen35Moe ? 18 : 10);
  }
}

TEST(HyperParameters, FallBackWhereTheFormatSaysSo) {
  ModelPieces pieces(tiny_plan());
  pieces.remove_key("qwen35moe.attention.head_count_kv").remove_key("qwen35moe.vocab_size");
  pieces.remove_key("qwen35moe.full_attention_interval");
  pieces.remove_key("qwen35moe.attention.key_length");
  pieces.remove_key("qwen35moe.attention.value_length");
  pieces.remove_key("qwen35moe.expert_feed_forward_length");
  pieces.remove_key("qwen35moe.expert_shared_feed_forward_length");
  pieces.set_u32("qwen35moe.feed_forward_length", 96);
  const auto hp = read(pieces);
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_EQ(hp->n_kv_heads, 4U);
  EXPECT_EQ(hp->n_vocab, 320U);
  EXPECT_EQ(hp->head_dim, 16U);      // 64 / 4
  EXPECT_EQ(hp->expert_width, 48U);  // 96 / 2 used
  EXPECT_EQ(hp->shared_expert_width, 96U);
  EXPECT_EQ(hp->n_attention_layers(), 0U);  // two layers, every fourth
}

// No key says it, so the tokens must.
TEST(HyperParameters, NeedAVocabularySize) {
  ModelPieces pieces(tiny_plan());
  pieces.remove_key("qwen35moe.vocab_size").remove_key("tokenizer.ggml.tokens");
  const auto hp = read(pieces);
  ASSERT_FALSE(hp);
  EXPECT_EQ(hp.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(hp.error().message, HasSubstr("qwen35moe.vocab_size"));
}

TEST(HyperParameters, NameTheSupportedArchitectures) {
  for (const std::string name : {"llama", "qwen35", "qwen3next", "", "qwen35moe\x1b[2J"}) {
    ModelPieces pieces(tiny_plan());
    const auto hp = read(pieces.set_string("general.architecture", name));
    ASSERT_FALSE(hp) << name;
    EXPECT_EQ(hp.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(hp.error().hint, HasSubstr("qwen35moe, qwen3moe"));
    EXPECT_THAT(hp.error().message, testing::Not(HasSubstr("\x1b")));
  }
}

struct Contradiction {
  std::string key;
  std::function<void(ModelPieces&, const std::string& key)> change;
  std::string message;
  ErrorKind kind = ErrorKind::kCorrupt;
};

auto number(uint32_t value) {
  return [=](ModelPieces& pieces, const std::string& key) { pieces.set_u32(key, value); };
}
auto real(float value) {
  return [=](ModelPieces& pieces, const std::string& key) { pieces.set_f32(key, value); };
}
auto list(std::vector<int32_t> values) {
  return [=](ModelPieces& pieces, const std::string& key) { pieces.set_i32s(key, values); };
}
auto text(std::string value) {
  return [=](ModelPieces& pieces, const std::string& key) { pieces.set_string(key, value); };
}

// One key at a time gets a value that is out of bounds or contradicts another; the message must say
// which and why.
TEST(HyperParameters, RefuseContradictions) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Contradiction> all = {
      {"block_count", number(0), "0 is outside 1..1024"},
      {"block_count", number(1025), "1025 is outside 1..1024"},
      {"block_count", number(0xFFFFFFFF), "outside 1..1024"},
      {"block_count", text("2"), "block_count"},
      {"nextn_predict_layers", number(2), "2 of 2 blocks leave no layer"},
      {"nextn_predict_layers", number(0xFFFFFFFF), "leave no layer"},
      {"context_length", number(0), "0 is outside"},
      {"context_length", number((1U << 24) + 1), "is outside 1..16777216"},
      {"embedding_length", number(0), "0 is outside 1..65536"},
      {"embedding_length", number(65'537), "65537 is outside 1..65536"},
      {"vocab_size", number(319), "319, but tokenizer.ggml.tokens has 320"},
      {"vocab_size", number(321), "321, but tokenizer.ggml.tokens has 320"},
      {"attention.head_count", number(0), "0 is outside 1..4096"},
      {"attention.head_count", number(4097), "0..4096"},
      {"attention.head_count", number(3), "3 is no multiple of 2"},
      {"attention.head_count_kv", number(0), "0 is outside 1..4096"},
      {"attention.head_count_kv", list({2}), "1 entries for 2 blocks"},
      {"attention.head_count_kv", list({0, 2, 2}), "3 entries for 2 blocks"},
      {"attention.head_count_kv", list({2, 0}), "entry 0 is 2, but block 0 is a delta-net"},
      {"attention.head_count_kv", list({0, -2}), "every entry"},
      {"attention.head_count_kv", list({1, 2}), "entry 0 is 1"},
      {"attention.key_length", number(0), "keys have 0"},
      {"attention.value_length", number(32), "32, but keys have 64"},
      {"attention.layer_norm_rms_epsilon", real(0.0F), "0 is outside"},
      {"attention.layer_norm_rms_epsilon", real(-1e-6F), "is outside"},
      {"attention.layer_norm_rms_epsilon", real(nan), "nan is not a finite number"},
      {"attention.recurrent_layers", list({1, 1, 0}), "3 entries for 2 blocks"},
      {"full_attention_interval", number(0), "must be at least 1"},
      {"rope.dimension_count", number(0), "0 dimensions (0 pairs)"},
      {"rope.dimension_count", number(66), "33 pairs"},
      {"rope.dimension_sections", list({3, 3}), "has 2 entries"},
      {"rope.dimension_sections", list({3, 3, 2, 0, 0}), "has 5 entries"},
      {"rope.dimension_sections", list({3, 3, 3, 0}), "the sum is 9"},
      {"rope.dimension_sections", list({-1, 6, 3, 0}), "-1 is outside"},
      {"rope.freq_base", real(0.0F), "0 is outside"},
      {"rope.freq_base", real(nan), "nan is not a finite number"},
      {"rope.scaling.type", text("yarn"), "rope scaling 'yarn'", ErrorKind::kUnsupported},
      {"rope.scaling.type", text("linear"), "rope scaling 'linear'", ErrorKind::kUnsupported},
      {"rope.scaling.factor", real(4.0F), "rope scaling 'linear'", ErrorKind::kUnsupported},
      {"rope.scale_linear", real(2.0F), "rope scaling 'linear'", ErrorKind::kUnsupported},
      {"ssm.conv_kernel", number(1), "1 is outside 2..8"},
      {"ssm.conv_kernel", number(9), "9 is outside 2..8"},
      {"ssm.inner_size", number(63), "63, but 4 value heads of 16 make 64"},
      {"ssm.group_count", number(0), "0 is outside 1..4096"},
      {"ssm.group_count", number(3), "no multiple of 3"},
      {"ssm.time_step_rank", number(8), "8 value heads of 16 make 128"},
      {"ssm.state_size", number(0), "4 value heads of 0 make 0"},
      {"expert_count", number(0), "0 is outside 1..4096"},
      {"expert_count", number(4097), "4097 is outside 1..4096"},
      {"expert_used_count", number(0), "0 is outside 1..4"},
      {"expert_used_count", number(5), "5 is outside 1..4"},
      {"expert_feed_forward_length", number(0), "0 is outside 1..65536"},
      {"expert_shared_feed_forward_length", number(0), "0 is outside 1..65536"},
      {"expert_gating_func", number(2), "only softmax", ErrorKind::kUnsupported},
  };
  for (const Contradiction& one : all) {
    ModelPieces pieces(tiny_plan());
    const std::string key = "qwen35moe." + one.key;
    one.change(pieces, key);
    const auto hp = read(pieces);
    ASSERT_FALSE(hp) << key << ": " << one.message;
    EXPECT_EQ(hp.error().kind, one.kind) << hp.error().message;
    EXPECT_THAT(hp.error().message, HasSubstr(one.message));
    // Where two keys disagree the message may stand under the other one's name.
    if (one.key.starts_with("rope.scal")) continue;
    EXPECT_THAT(hp.error().message, HasSubstr("qwen35moe."));
  }
}

TEST(HyperParameters, RefuseRouterWeightsThatAreNotNormalised) {
  ModelPieces pieces(tiny_plan());
  const auto hp = read(pieces.set_bool("qwen35moe.norm_top_k_prob", false));
  ASSERT_FALSE(hp);
  EXPECT_EQ(hp.error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(read(pieces.set_bool("qwen35moe.norm_top_k_prob", true)));
}

TEST(HyperParameters, AcceptUnscaledRope) {
  ModelPieces pieces(tiny_plan());
  pieces.set_string("qwen35moe.rope.scaling.type", "none");
  pieces.set_f32("qwen35moe.rope.scaling.factor", 4.0F);
  EXPECT_TRUE(read(pieces));
  pieces.remove_key("qwen35moe.rope.scaling.type");
  pieces.set_f32("qwen35moe.rope.scaling.factor", 1.0F);
  EXPECT_TRUE(read(pieces));
}

// Arrays as one converter writes them: 0 heads where there is no attention, three sections.
TEST(HyperParameters, UnderstandArraysPerLayer) {
  ModelPieces pieces(tiny_plan());
  pieces.set_i32s("qwen35moe.attention.head_count", {4, 4});
  pieces.set_i32s("qwen35moe.attention.head_count_kv", {0, 2});
  pieces.set_i32s("qwen35moe.rope.dimension_sections", {3, 3, 2});
  const auto hp = read(pieces);
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_EQ(hp->n_heads, 4U);
  EXPECT_EQ(hp->n_kv_heads, 2U);
  EXPECT_THAT(hp->dialect_notes, Contains(HasSubstr("head_count_kv is an array")));
  EXPECT_THAT(hp->dialect_notes, Contains(HasSubstr("3 entries")));
}

TEST(HyperParameters, LetTheListOfRecurrentLayersReplaceTheInterval) {
  ModelPieces pieces(tiny_plan());
  pieces.set_i32s("qwen35moe.attention.recurrent_layers", {0, 1});
  const auto hp = read(pieces);
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_EQ(hp->layer_kinds, (std::vector{LayerKind::kAttention, LayerKind::kDeltaNet}));
}

TEST(HyperParameters, ReadTheOrderOfValueHeads) {
  ModelPieces pieces(tiny_plan());
  EXPECT_EQ(read(pieces)->value_head_order, ValueHeadOrder::kTiled);
  pieces.set_bool("qwen35moe.ssm.v_head_reordered", true);
  EXPECT_EQ(read(pieces)->value_head_order, ValueHeadOrder::kTiled);
  pieces.set_bool("qwen35moe.ssm.v_head_reordered", false);
  EXPECT_EQ(read(pieces)->value_head_order, ValueHeadOrder::kGrouped);
}

TEST(HyperParameters, CountDraftBlocksApart) {
  ModelPieces pieces(tiny_plan());
  pieces.set_u32("qwen35moe.block_count", 3).set_u32("qwen35moe.nextn_predict_layers", 1);
  // The draft block's entry is not a layer's.
  pieces.set_i32s("qwen35moe.attention.head_count_kv", {0, 2, 2});
  const auto hp = read(pieces);
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_EQ(hp->n_layers, 2U);
  EXPECT_EQ(hp->n_mtp_blocks, 1U);
  EXPECT_EQ(hp->layer_kinds.size(), 2U);
}

TEST(HyperParameters, SayWhenARotatedPairHasNoAxis) {
  ModelPieces pieces(tiny_plan());
  const auto hp = read(pieces.set_i32s("qwen35moe.rope.dimension_sections", {4, 2, 2, 0}));
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_THAT(hp->dialect_notes, Contains(HasSubstr("pair 7 no axis")));
}

// The published table: key-value and state sizes of the three hybrid models and the two plain ones.
TEST(HyperParameters, GiveThePublishedCacheSizes) {
  struct Row {
    const char* name;
    uint64_t kv_bytes;
    uint64_t state_bytes;
  };
  for (const Row& row :
       {Row{"qwen3.5-35b-a3b", 20'480, 65'863'680}, Row{"qwen3.5-122b-a10b", 24'576, 156'303'360},
        Row{"qwen3.5-397b-a17b", 30'720, 195'379'200}, Row{"qwen3-30b-a3b", 98'304, 0},
        Row{"qwen3-235b-a22b", 192'512, 0}}) {
    const HyperParameters hp = plan_like(row.name, 0)->hp;
    EXPECT_EQ(hp.kv_bytes_per_token(2), row.kv_bytes) << row.name;
    EXPECT_EQ(hp.kv_bytes_per_token(4), 2 * row.kv_bytes) << row.name;
    EXPECT_EQ(hp.state_bytes_per_sequence(), row.state_bytes) << row.name;
  }
}

TEST(HyperParameters, OfTheTaleModelAreThoseOfItsCard) {
  const auto file = open_file(source_path("models/kvasir-tales-q4_k_m.gguf"));
  const auto hp = read_hyper_parameters(file->metadata());
  ASSERT_TRUE(hp) << hp.error().message;
  EXPECT_EQ(hp->n_layers, 4U);
  EXPECT_EQ(hp->n_embd, 256U);
  EXPECT_EQ(hp->n_experts, 32U);
  EXPECT_EQ(hp->n_experts_used, 4U);
  EXPECT_EQ(hp->n_key_heads, 4U);
  EXPECT_EQ(hp->n_value_heads, 8U);
  EXPECT_EQ(hp->delta_head_dim, 64U);
  EXPECT_EQ(hp->rope_dims, 16U);
  EXPECT_EQ(hp->rope_base, 10000.0);
  EXPECT_EQ(hp->n_vocab, 4096U);
  EXPECT_EQ(hp->context_length, 512U);
  EXPECT_EQ(hp->layer_kinds.back(), LayerKind::kAttention);
  EXPECT_EQ(hp->n_attention_layers(), 1U);
}

TEST(HyperParameters, OfTheReferenceFilesAreReadable) {
  KVASIR_NEED_GOLDEN("tiny-f32.gguf");
  for (const std::string name :
       {"tiny-f32", "small-q4_k_m", "tied-q4_k_m", "qwen3moe-q4_k_m", "mini-q8_0"}) {
    const auto file = open_file(golden_data(name + ".gguf"));
    const auto hp = read_hyper_parameters(file->metadata());
    ASSERT_TRUE(hp) << name << ": " << hp.error().message;
    EXPECT_EQ(hp->n_vocab, 320U) << name;
    EXPECT_EQ(hp->n_heads, 4U) << name;
    EXPECT_EQ(hp->n_kv_heads, 2U) << name;
    EXPECT_EQ(hp->n_embd, name == "tiny-f32" ? 64U : 256U) << name;
    EXPECT_EQ(hp->architecture == Architecture::kQwen3Moe, name == "qwen3moe-q4_k_m") << name;
  }
}

}  // namespace
}  // namespace kvasir::model
