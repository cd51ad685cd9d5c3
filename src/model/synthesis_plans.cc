// The models synthesis knows by name.
#include <algorithm>
#include <array>

#include "model/synthesis.h"

namespace kvasir::model {
namespace {

// Dimensions as published; what all models of an architecture share is added by plan_like.
struct Published {
  std::string_view name;
  Architecture architecture;
  uint32_t n_layers;
  uint32_t n_embd;
  uint32_t n_heads;
  uint32_t n_kv_heads;
  uint32_t n_experts;
  uint32_t n_experts_used;
  uint32_t expert_width;
  uint32_t n_value_heads;
};

constexpr std::array kPublished = {
    Published{"qwen3.5-35b-a3b", Architecture::kQwen35Moe, 40, 2048, 16, 2, 256, 8, 512, 32},
    Published{"qwen3.5-122b-a10b", Architecture::kQwen35Moe, 48, 3072, 32, 2, 256, 8, 1024, 64},
    Published{"qwen3.5-397b-a17b", Architecture::kQwen35Moe, 60, 4096, 32, 2, 512, 10, 1024, 64},
    Published{"qwen3-30b-a3b", Architecture::kQwen3Moe, 48, 2048, 32, 4, 128, 8, 768, 0},
    Published{"qwen3-235b-a22b", Architecture::kQwen3Moe, 94, 4096, 64, 4, 128, 8, 1536, 0},
};

// Every `interval`-th layer is full attention.
std::vector<LayerKind> hybrid_kinds(uint32_t n_layers, uint32_t interval) {
  std::vector<LayerKind> kinds(n_layers, LayerKind::kDeltaNet);
  for (uint32_t i = interval - 1; i < n_layers; i += interval) kinds[i] = LayerKind::kAttention;
  return kinds;
}

void set_qwen35moe_constants(HyperParameters& hp) {
  hp.context_length = 262'144;
  hp.n_vocab = 248'320;
  hp.layer_kinds = hybrid_kinds(hp.n_layers, 4);
  hp.head_dim = 256;
  hp.attention_output_gate = true;
  hp.rope_dims = 64;
  hp.rope_base = 1e7;
  hp.n_key_heads = 16;
  hp.delta_head_dim = 128;
  hp.conv_kernel = 4;
  hp.shared_expert_width = hp.expert_width;
}

void set_qwen3moe_constants(HyperParameters& hp) {
  hp.context_length = 40'960;
  hp.n_vocab = 151'936;
  hp.layer_kinds.assign(hp.n_layers, LayerKind::kAttention);
  hp.head_dim = 128;
  hp.rope_dims = 128;
  hp.rope_base = 1e6;
}

}  // namespace

SynthesisPlan small_plan(Architecture architecture) {
  SynthesisPlan plan;
  HyperParameters& hp = plan.hp;
  hp.architecture = architecture;
  hp.n_layers = 4;
  hp.context_length = 4096;
  hp.n_embd = 256;
  hp.n_vocab = 320;
  hp.n_heads = 4;
  hp.n_kv_heads = 2;
  hp.head_dim = 64;
  hp.rope_base = 1e6;
  hp.n_experts = 8;
  hp.n_experts_used = 2;
  hp.expert_width = 256;
  if (architecture == Architecture::kQwen3Moe) {
    hp.layer_kinds.assign(hp.n_layers, LayerKind::kAttention);
    hp.rope_dims = hp.head_dim;
    return plan;
  }
  hp.layer_kinds = hybrid_kinds(hp.n_layers, 4);
  hp.attention_output_gate = true;
  hp.rope_dims = 16;
  hp.n_key_heads = 2;
  hp.n_value_heads = 4;
  hp.delta_head_dim = 64;
  hp.conv_kernel = 4;
  hp.shared_expert_width = 256;
  return plan;
}

Result<SynthesisPlan> plan_like(const std::string& published_name, uint32_t n_layers) {
  const auto found = std::find_if(kPublished.begin(), kPublished.end(),
                                  [&](const Published& one) { return one.name == published_name; });
  if (found == kPublished.end()) {
    std::string names;
    for (const Published& one : kPublished)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    return Error::not_found("no published model called '{}' is known", published_name)
        .with_hint("known: " + names);
  }
  if (n_layers > found->n_layers)
    return Error::invalid("{} has {} layers, {} were asked for", found->name, found->n_layers,
                          n_layers);
  SynthesisPlan plan;
  plan.name = fmt::format("synthetic {}", found->name);
  plan.mix = TypeMix::kQ4KM;
  HyperParameters& hp = plan.hp;
  hp.architecture = found->architecture;
  hp.n_layers = n_layers == 0 ? found->n_layers : n_layers;
  hp.n_embd = found->n_embd;
  hp.n_heads = found->n_heads;
  hp.n_kv_heads = found->n_kv_heads;
  hp.n_experts = found->n_experts;
  hp.n_experts_used = found->n_experts_used;
  hp.expert_width = found->expert_width;
  hp.n_value_heads = found->n_value_heads;
  if (found->architecture == Architecture::kQwen35Moe) {
    set_qwen35moe_constants(hp);
    hp.n_mtp_blocks = n_layers == 0 ? 1 : 0;
  } else {
    set_qwen3moe_constants(hp);
  }
  return plan;
}

}  // namespace kvasir::model
