// Which tensors a synthetic model has, of which type, filled with what.
#include <algorithm>
#include <cmath>

#include "model/random_blocks.h"
#include "model/synthesis_parts.h"
#include "model/tensor_names.h"

namespace kvasir::model {
namespace {

using gguf::TensorType;

// What the stock Q4_K_M mix tells apart.
enum class Role : uint8_t {
  kEmbedding,
  kHead,
  kAttentionKey,
  kAttentionValue,
  kAttentionOutput,
  kDown,
  kOther,
};

// Layers that get more bits: the first and last eighth, and every third between.
bool gets_more_bits(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

// The type a stock quantiser takes when rows of n_in values do not divide into blocks of `type`.
TensorType fitting_type(TensorType type, uint32_t n_in) {
  if (n_in % gguf::type_info(type).block_length == 0) return type;
  if (n_in % 32 != 0) return TensorType::kF16;
  switch (type) {
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
      return TensorType::kQ4_0;
    case TensorType::kQ4_K:
      return TensorType::kQ5_0;
    case TensorType::kQ5_K:
      return TensorType::kQ5_1;
    case TensorType::kQ6_K:
      return TensorType::kQ8_0;
    case TensorType::kIQ4_XS:
      return TensorType::kIQ4_NL;
    default:
      return TensorType::kF16;
  }
}

class TensorList {
 public:
  explicit TensorList(const SynthesisPlan& plan) : plan_(plan), hp_(plan.hp) {}

  std::vector<SynthesisTensor> build() {
    matrix("token_embd", hp_.n_embd, {hp_.n_vocab}, Role::kEmbedding);
    norm("output_norm", hp_.n_embd);
    if (!plan_.tied_output) matrix("output", hp_.n_embd, {hp_.n_vocab}, Role::kHead);
    for (block_ = 0; block_ < n_blocks(); ++block_) {
      prefix_ = block_prefix(block_);
      const bool is_draft = block_ >= hp_.n_layers;
      norm("attn_norm", hp_.n_embd);
      norm(ffn_norm_name(hp_.architecture), hp_.n_embd);
      if (is_draft || hp_.layer_kinds[block_] == LayerKind::kAttention)
        attention();
      else
        delta_net();
      experts();
      if (is_draft) draft();
    }
    return std::move(tensors_);
  }

 private:
  uint32_t n_blocks() const { return hp_.n_layers + hp_.n_mtp_blocks; }

  void attention() {
    const uint32_t heads_width = hp_.n_heads * hp_.head_dim;
    const uint32_t q_rows = heads_width * (hp_.attention_output_gate ? 2 : 1);
    const uint32_t kv_rows = hp_.n_kv_heads * hp_.head_dim;
    if (plan_.fused_qkv) {
      matrix("attn_qkv", hp_.n_embd, {q_rows + 2 * kv_rows}, Role::kAttentionValue);
    } else {
      matrix("attn_q", hp_.n_embd, {q_rows});
      matrix("attn_k", hp_.n_embd, {kv_rows}, Role::kAttentionKey);
      matrix("attn_v", hp_.n_embd, {kv_rows}, Role::kAttentionValue);
    }
    matrix("attn_output", heads_width, {hp_.n_embd}, Role::kAttentionOutput);
    norm("attn_q_norm", hp_.head_dim);
    norm("attn_k_norm", hp_.head_dim);
  }

  void delta_net() {
    const uint32_t inner = hp_.n_value_heads * hp_.delta_head_dim;
    matrix("attn_qkv", hp_.n_embd, {hp_.conv_channels()}, Role::kAttentionValue);
    matrix("attn_gate", hp_.n_embd, {inner});
    uniform("ssm_conv1d.weight", {hp_.conv_kernel, hp_.conv_channels()}, -0.5F, 0.5F);
    // With these a head forgets between 0.1 % and 90 % of its state in a token.
    uniform("ssm_dt.bias", {hp_.n_value_heads}, -4.0F, 0.0F);
    uniform("ssm_a", {hp_.n_value_heads}, -4.0F, -0.05F);
    matrix("ssm_alpha", hp_.n_embd, {hp_.n_value_heads});
    matrix("ssm_beta", hp_.n_embd, {hp_.n_value_heads});
    norm("ssm_norm", hp_.delta_head_dim);
    matrix("ssm_out", inner, {hp_.n_embd});
  }

  void experts() {
    const uint32_t width = hp_.expert_width;
    add(prefix_ + "ffn_gate_inp.weight", TensorType::kF32, {hp_.n_embd, hp_.n_experts},
        spread(hp_.n_embd));
    if (plan_.fused_gate_up) {
      matrix("ffn_gate_up_exps", hp_.n_embd, {uint64_t{2} * width, hp_.n_experts});
    } else {
      matrix("ffn_gate_exps", hp_.n_embd, {width, hp_.n_experts});
      matrix("ffn_up_exps", hp_.n_embd, {width, hp_.n_experts});
    }
    matrix("ffn_down_exps", width, {hp_.n_embd, hp_.n_experts}, Role::kDown);
    if (hp_.shared_expert_width == 0) return;
    add(prefix_ + "ffn_gate_inp_shexp.weight", TensorType::kF32, {hp_.n_embd}, spread(hp_.n_embd));
    matrix("ffn_gate_shexp", hp_.n_embd, {hp_.shared_expert_width});
    matrix("ffn_up_shexp", hp_.n_embd, {hp_.shared_expert_width});
    matrix("ffn_down_shexp", hp_.shared_expert_width, {hp_.n_embd}, Role::kDown);
  }

  void draft() {
    matrix("nextn.eh_proj", 2 * hp_.n_embd, {hp_.n_embd});
    norm("nextn.enorm", hp_.n_embd);
    norm("nextn.hnorm", hp_.n_embd);
    norm("nextn.shared_head_norm", hp_.n_embd);
  }

  void matrix(std::string_view base, uint32_t n_in, std::vector<uint64_t> outer,
              Role role = Role::kOther) {
    std::vector<uint64_t> dims = {n_in};
    dims.insert(dims.end(), outer.begin(), outer.end());
    add(prefix_ + std::string(base) + ".weight", fitting_type(wanted_type(role), n_in),
        std::move(dims), spread(n_in));
  }

  void norm(std::string_view base, uint32_t size) {
    uniform(std::string(base) + ".weight", {size}, 0.8F, 1.2F);
  }

  void uniform(const std::string& name, std::vector<uint64_t> dims, float low, float high) {
    add(prefix_ + name, TensorType::kF32, std::move(dims), 0.0F);
    tensors_.back().low = low;
    tensors_.back().high = high;
  }

  void add(std::string name, TensorType type, std::vector<uint64_t> dims, float spread) {
    tensors_.push_back({std::move(name), type, std::move(dims), spread});
  }

  // Keeps the products of normalised rows at a spread of 1. The bound is fill_random_weights's.
  static float spread(uint32_t n_in) {
    return std::max(1.0F / std::sqrt(static_cast<float>(n_in)), 0x1p-10F);
  }

  TensorType wanted_type(Role role) const {
    if (plan_.mix == TypeMix::kUniform) return plan_.type;
    const bool more = gets_more_bits(block_, n_blocks());
    // The quantiser has an exception for the one early model with 8 experts, by their number.
    const bool has_8_experts = hp_.n_experts == 8;
    switch (role) {
      case Role::kHead:
        return TensorType::kQ6_K;
      case Role::kEmbedding:
        return plan_.tied_output ? TensorType::kQ6_K : TensorType::kQ4_K;
      // It counts the value projections instead of the layers; every block has one.
      case Role::kAttentionValue:
        if (has_8_experts && is_plain_attention()) return TensorType::kQ8_0;
        return more ? TensorType::kQ6_K : TensorType::kQ4_K;
      case Role::kDown:
        return more ? TensorType::kQ6_K : TensorType::kQ4_K;
      case Role::kAttentionKey:
        return has_8_experts ? TensorType::kQ8_0 : TensorType::kQ4_K;
      case Role::kAttentionOutput:
        return has_8_experts ? TensorType::kQ5_K : TensorType::kQ4_K;
      case Role::kOther:
        break;
    }
    return TensorType::kQ4_K;
  }

  // Whether the current block's value projection is attn_v rather than attn_qkv.
  bool is_plain_attention() const {
    return !plan_.fused_qkv &&
           (block_ >= hp_.n_layers || hp_.layer_kinds[block_] == LayerKind::kAttention);
  }

  const SynthesisPlan& plan_;
  const HyperParameters& hp_;
  uint32_t block_ = 0;
  std::string prefix_;  // of the current block, empty before the first
  std::vector<SynthesisTensor> tensors_;
};

}  // namespace

std::vector<SynthesisTensor> synthesis_tensors(const SynthesisPlan& plan) {
  return TensorList(plan).build();
}

}  // namespace kvasir::model
