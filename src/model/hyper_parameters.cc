#include "model/hyper_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "gguf/text_check.h"

namespace kvasir::model {
namespace {

using gguf::Metadata;
using gguf::Value;
using gguf::ValueType;

constexpr std::array kArchitectures = {Architecture::kQwen35Moe, Architecture::kQwen3Moe};

// The keys of one architecture: `<arch>.<name>`. Errors carry the full key.
class Keys {
 public:
  Keys(const Metadata& metadata, Architecture architecture)
      : metadata_(metadata), prefix_(architecture_name(architecture)) {
    prefix_ += '.';
  }

  const Metadata& metadata() const { return metadata_; }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  bool contains(std::string_view name) const { return metadata_.contains(full(name)); }
  const Value* find(std::string_view name) const { return metadata_.find(full(name)); }

  // The bounds proper are those of check_hyper_parameters; here only what fits the field.
  Result<uint32_t> count(std::string_view name) const {
    const std::string key = full(name);
    KVASIR_TRY(uint64_t value, metadata_.get_uint(key));
    if (value > std::numeric_limits<uint32_t>::max())
      return Error::corrupt("{}: {} is too large", key, value);
    return static_cast<uint32_t>(value);
  }
  Result<uint32_t> count_or(std::string_view name, uint32_t fallback) const {
    return contains(name) ? count(name) : Result<uint32_t>(fallback);
  }
  Result<double> real(std::string_view name) const { return metadata_.get_float(full(name)); }

  // A key that may be one number for all blocks or an array with one entry a block.
  struct PerBlock {
    std::vector<int64_t> values;  // [blocks]
    bool is_array = false;
  };
  Result<PerBlock> per_block(std::string_view name, uint32_t blocks) const {
    const std::string key = full(name);
    PerBlock result;
    KVASIR_TRY(result.values, metadata_.get_ints(key));
    result.is_array = metadata_.find(key)->type == ValueType::kArray;
    if (!result.is_array) {
      result.values.assign(blocks, result.values.front());
    } else if (result.values.size() != blocks) {
      return Error::corrupt("{}: has {} entries for {} blocks", key, result.values.size(), blocks);
    }
    return result;
  }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

Result<Architecture> read_architecture(const Metadata& metadata) {
  KVASIR_TRY(std::string_view name, metadata.get_string("general.architecture"));
  for (Architecture architecture : kArchitectures)
    if (architecture_name(architecture) == name) return architecture;
  return Error::unsupported("architecture '{}' cannot be run", gguf::printable(name))
      .with_hint("supported: " + supported_architectures());
}

// block_count counts the draft blocks as well; they come last.
Result<void> read_blocks(const Keys& keys, HyperParameters& hp) {
  KVASIR_TRY(uint32_t blocks, keys.count("block_count"));
  KVASIR_TRY(hp.n_mtp_blocks, keys.count_or("nextn_predict_layers", 0));
  if (blocks == 0 || blocks > kLayersMax)
    return Error::corrupt("{}: {} is outside 1..{}", keys.full("block_count"), blocks, kLayersMax);
  if (hp.n_mtp_blocks >= blocks)
    return Error::corrupt("{}: {} of {} blocks leave no layer", keys.full("nextn_predict_layers"),
                          hp.n_mtp_blocks, blocks);
  hp.n_layers = blocks - hp.n_mtp_blocks;
  if (hp.n_mtp_blocks > 0)
    hp.dialect_notes.push_back(fmt::format("{} MTP (draft) block{} after the {} layers, not run",
                                           hp.n_mtp_blocks, hp.n_mtp_blocks == 1 ? "" : "s",
                                           hp.n_layers));
  return {};
}

Result<void> read_vocabulary(const Keys& keys, HyperParameters& hp) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const Value* tokens = keys.metadata().find(kTokens);
  if (tokens != nullptr && tokens->type != ValueType::kArray)
    return Error::corrupt("{}: is {}, must be an array", kTokens,
                          gguf::value_type_name(tokens->type));
  if (!keys.contains("vocab_size")) {
    if (tokens == nullptr)
      return Error::not_found("neither {} nor {} says how large the vocabulary is",
                              keys.full("vocab_size"), kTokens);
    if (tokens->count > kVocabularyMax)
      return Error::corrupt("{}: {} tokens, more than {}", kTokens, tokens->count, kVocabularyMax);
    hp.n_vocab = static_cast<uint32_t>(tokens->count);
    return {};
  }
  KVASIR_TRY(hp.n_vocab, keys.count("vocab_size"));
  // A head row without a token could be sampled and not be written; a token without a row not read.
  if (tokens != nullptr && tokens->count != hp.n_vocab)
    return Error::corrupt("{}: {}, but {} has {} entries", keys.full("vocab_size"), hp.n_vocab,
                          kTokens, tokens->count);
  return {};
}

// attention.recurrent_layers where present, else the interval rule.
Result<void> read_hybrid_layer_kinds(const Keys& keys, HyperParameters& hp) {
  hp.layer_kinds.resize(hp.n_layers);
  if (keys.contains("attention.recurrent_layers")) {
    KVASIR_TRY(auto recurrent,
               keys.per_block("attention.recurrent_layers", hp.n_layers + hp.n_mtp_blocks));
    for (uint32_t i = 0; i < hp.n_layers; ++i)
      hp.layer_kinds[i] = recurrent.values[i] != 0 ? LayerKind::kDeltaNet : LayerKind::kAttention;
    hp.dialect_notes.emplace_back("layer kinds listed one by one (attention.recurrent_layers)");
    return {};
  }
  KVASIR_TRY(uint32_t interval, keys.count_or("full_attention_interval", 4));
  if (interval == 0)
    return Error::corrupt("{}: must be at least 1", keys.full("full_attention_interval"));
  for (uint32_t i = 0; i < hp.n_layers; ++i)
    hp.layer_kinds[i] = (i + 1) % interval == 0 ? LayerKind::kAttention : LayerKind::kDeltaNet;
  return {};
}

// One number of heads for all attention layers. An array may hold 0 for the delta-net layers, then
// for all of them and for no other. Entries of draft blocks are not looked at.
Result<uint32_t> read_head_count(const Keys& keys, std::string_view name, HyperParameters& hp) {
  KVASIR_TRY(auto counts, keys.per_block(name, hp.n_layers + hp.n_mtp_blocks));
  const std::string key = keys.full(name);
  const auto layers_end = counts.values.begin() + hp.n_layers;
  if (std::any_of(counts.values.begin(), counts.values.end(),
                  [](int64_t n) { return n < 0 || n > static_cast<int64_t>(kHeadsMax); }))
    return Error::corrupt("{}: every entry must be within 0..{}", key, kHeadsMax);
  const int64_t most = *std::max_element(counts.values.begin(), layers_end);
  const bool has_zeros = std::find(counts.values.begin(), layers_end, 0) != layers_end;
  for (uint32_t i = 0; i < hp.n_layers; ++i) {
    const bool is_delta = hp.layer_kinds[i] == LayerKind::kDeltaNet;
    const int64_t expected = has_zeros && is_delta ? 0 : most;
    if (counts.values[i] == expected) continue;
    return Error::corrupt("{}: entry {} is {}, but block {} is {} layer with {} heads", key, i,
                          counts.values[i], i, is_delta ? "a delta-net" : "an attention", expected);
  }
  if (counts.is_array) hp.dialect_notes.push_back(fmt::format("{} is an array", name));
  return static_cast<uint32_t>(most);
}

Result<void> read_attention(const Keys& keys, HyperParameters& hp) {
  KVASIR_TRY(hp.n_heads, read_head_count(keys, "attention.head_count", hp));
  hp.n_kv_heads = hp.n_heads;
  if (keys.contains("attention.head_count_kv")) {
    KVASIR_TRY(hp.n_kv_heads, read_head_count(keys, "attention.head_count_kv", hp));
  }
  // The fallback is the reference's; where it is wrong the tensors' shapes say so.
  const uint32_t fallback = hp.n_heads == 0 ? 0 : hp.n_embd / hp.n_heads;
  KVASIR_TRY(hp.head_dim, keys.count_or("attention.key_length", fallback));
  KVASIR_TRY(uint32_t value_dim, keys.count_or("attention.value_length", fallback));
  if (value_dim != hp.head_dim)
    return Error::corrupt("{}: {}, but keys have {}", keys.full("attention.value_length"),
                          value_dim, hp.head_dim);
  KVASIR_TRY(double eps, keys.real("attention.layer_norm_rms_epsilon"));
  hp.rms_eps = static_cast<float>(eps);
  return {};
}

// Scaled rope (YaRN, linear) changes every angle; running such a file unscaled would give fluent
// nonsense beyond the original context.
Result<void> refuse_rope_scaling(const Keys& keys) {
  const auto is_scaled = [&](std::string_view name) -> Result<bool> {
    if (!keys.contains(name)) return false;
    KVASIR_TRY(double factor, keys.real(name));
    return factor != 0.0 && factor != 1.0;
  };
  std::string_view kind;
  if (keys.contains("rope.scaling.type")) {
    KVASIR_TRY(kind, keys.metadata().get_string(keys.full("rope.scaling.type")));
    if (kind == "none") return {};
  } else {
    // Without a type a factor means linear scaling.
    KVASIR_TRY(bool factor, is_scaled("rope.scaling.factor"));
    KVASIR_TRY(bool old_factor, is_scaled("rope.scale_linear"));
    if (!factor && !old_factor) return {};
    kind = "linear";
  }
  return Error::unsupported("{}: rope scaling '{}' is not supported", keys.full("rope.scaling"),
                            kind)
      .with_hint("use a file of this model without rope scaling");
}

// The sections spread the rotated pairs over the axes of an image; text has one position for all of
// them, so they are only checked.
Result<void> check_rope_sections(const Keys& keys, HyperParameters& hp) {
  const std::string key = keys.full("rope.dimension_sections");
  KVASIR_TRY(std::vector<int64_t> sections, keys.metadata().get_ints(key));
  if (sections.size() != 3 && sections.size() != 4)
    return Error::corrupt("{}: has {} entries, must have 4", key, sections.size());
  if (sections.size() == 3) {
    hp.dialect_notes.emplace_back("rope.dimension_sections has 3 entries");
    sections.resize(4);
  }
  int64_t sum = 0;
  for (int64_t section : sections) {
    if (section < 0 || section > static_cast<int64_t>(kHeadDimMax))
      return Error::corrupt("{}: {} is outside 0..{}", key, section, kHeadDimMax);
    sum += section;
  }
  if (2 * sum != hp.rope_dims)
    return Error::corrupt("{}: the sum is {}, but {} dimensions ({} pairs) are rotated", key, sum,
                          hp.rope_dims, hp.rope_dims / 2);
  // Pairs are dealt to the axes in turn; one that finds its axis full belongs to none, and some
  // engines then do not rotate it.
  for (int64_t pair = 0; pair < sum; ++pair) {
    if (pair < 3 * sections[static_cast<size_t>(pair % 3)]) continue;
    hp.dialect_notes.push_back(fmt::format(
        "rope.dimension_sections give pair {} no axis; it is rotated by the text position", pair));
    break;
  }
  return {};
}

Result<void> read_rope(const Keys& keys, HyperParameters& hp) {
  // No fallback: the reference's 10000 is wrong for every published model of these architectures.
  KVASIR_TRY(hp.rope_base, keys.real("rope.freq_base"));
  KVASIR_TRY_VOID(refuse_rope_scaling(keys));
  if (hp.architecture == Architecture::kQwen3Moe) {
    KVASIR_TRY(hp.rope_dims, keys.count_or("rope.dimension_count", hp.head_dim));
    return {};
  }
  // Nor here: key_length would rotate four times too many dimensions.
  KVASIR_TRY(hp.rope_dims, keys.count("rope.dimension_count"));
  return check_rope_sections(keys, hp);
}

Result<void> read_delta_net(const Keys& keys, HyperParameters& hp) {
  KVASIR_TRY(hp.n_key_heads, keys.count("ssm.group_count"));
  KVASIR_TRY(hp.n_value_heads, keys.count("ssm.time_step_rank"));
  KVASIR_TRY(hp.delta_head_dim, keys.count("ssm.state_size"));
  KVASIR_TRY(hp.conv_kernel, keys.count("ssm.conv_kernel"));
  KVASIR_TRY(uint64_t inner, keys.metadata().get_uint(keys.full("ssm.inner_size")));
  if (inner != uint64_t{hp.n_value_heads} * hp.delta_head_dim)
    return Error::corrupt("{}: {}, but {} value heads of {} make {}", keys.full("ssm.inner_size"),
                          inner, hp.n_value_heads, hp.delta_head_dim,
                          uint64_t{hp.n_value_heads} * hp.delta_head_dim);
  const std::string reordered_key = keys.full("ssm.v_head_reordered");
  KVASIR_TRY(bool reordered, keys.metadata().get_bool_or(reordered_key, true));
  hp.value_head_order = reordered ? ValueHeadOrder::kTiled : ValueHeadOrder::kGrouped;
  if (!reordered)
    hp.dialect_notes.emplace_back("value heads in grouped order (ssm.v_head_reordered is false)");
  return {};
}

Result<void> read_experts(const Keys& keys, HyperParameters& hp) {
  KVASIR_TRY(hp.n_experts, keys.count("expert_count"));
  KVASIR_TRY(hp.n_experts_used, keys.count("expert_used_count"));
  // The width of a dense block, from which the others follow where they are not given.
  std::optional<uint32_t> dense_width;
  if (keys.contains("feed_forward_length")) {
    KVASIR_TRY(auto widths, keys.per_block("feed_forward_length", hp.n_layers + hp.n_mtp_blocks));
    if (widths.values.front() < 0 || widths.values.front() > std::numeric_limits<int32_t>::max())
      return Error::corrupt("{}: {} is out of range", keys.full("feed_forward_length"),
                            widths.values.front());
    dense_width = static_cast<uint32_t>(widths.values.front());
  }
  if (!keys.contains("expert_feed_forward_length") && dense_width && hp.n_experts_used > 0) {
    hp.expert_width = *dense_width / hp.n_experts_used;
  } else {
    KVASIR_TRY(hp.expert_width, keys.count("expert_feed_forward_length"));
  }
  if (hp.architecture == Architecture::kQwen35Moe) {
    if (!keys.contains("expert_shared_feed_forward_length") && dense_width) {
      hp.shared_expert_width = *dense_width;
    } else {
      KVASIR_TRY(hp.shared_expert_width, keys.count("expert_shared_feed_forward_length"));
    }
  }
  // Both architectures take a softmax over all experts and renormalise the chosen ones.
  KVASIR_TRY(uint32_t gating, keys.count_or("expert_gating_func", 0));
  if (gating > 1)
    return Error::unsupported("{}: {} is not supported, only softmax (1)",
                              keys.full("expert_gating_func"), gating);
  const std::string norm_key = keys.full("norm_top_k_prob");
  KVASIR_TRY(bool renormalised, keys.metadata().get_bool_or(norm_key, true));
  if (!renormalised)
    return Error::unsupported("{}: router weights that are not normalised are not supported",
                              norm_key);
  return {};
}

// One number with its bounds, under the name of its key.
struct Bounds {
  std::string_view key;
  uint64_t value;
  uint64_t min;
  uint64_t max;
};

template <size_t N>
Result<void> check_bounds(std::string_view architecture, const std::array<Bounds, N>& all) {
  for (const Bounds& one : all)
    if (one.value < one.min || one.value > one.max)
      return Error::corrupt("{}.{}: {} is outside {}..{}", architecture, one.key, one.value,
                            one.min, one.max);
  return {};
}

Result<void> check_delta_net(const HyperParameters& hp) {
  const std::string_view architecture = architecture_name(hp.architecture);
  const std::array bounds = {
      Bounds{"ssm.group_count", hp.n_key_heads, 1, kHeadsMax},
      Bounds{"ssm.time_step_rank", hp.n_value_heads, 1, kHeadsMax},
      Bounds{"ssm.state_size", hp.delta_head_dim, 1, kHeadDimMax},
      Bounds{"ssm.conv_kernel", hp.conv_kernel, kConvKernelMin, kConvKernelMax},
      Bounds{"expert_shared_feed_forward_length", hp.shared_expert_width, 1, kEmbeddingMax},
  };
  KVASIR_TRY_VOID(check_bounds(architecture, bounds));
  if (hp.n_value_heads % hp.n_key_heads != 0)
    return Error::corrupt("{}.ssm.time_step_rank: {} value heads are no multiple of {} key heads",
                          architecture, hp.n_value_heads, hp.n_key_heads);
  return {};
}

}  // namespace

std::string_view architecture_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen35Moe:
      return "qwen35moe";
    case Architecture::kQwen3Moe:
      return "qwen3moe";
  }
  return "unknown";
}

std::string supported_architectures() {
  std::string names;
  for (Architecture architecture : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += architecture_name(architecture);
  }
  return names;
}

uint32_t HyperParameters::n_attention_layers() const {
  return static_cast<uint32_t>(
      std::count(layer_kinds.begin(), layer_kinds.end(), LayerKind::kAttention));
}

uint32_t HyperParameters::n_delta_layers() const {
  return n_layers - n_attention_layers();
}

uint64_t HyperParameters::kv_bytes_per_token(uint32_t kv_value_bytes) const {
  return uint64_t{n_attention_layers()} * n_kv_heads * head_dim * 2 * kv_value_bytes;
}

uint64_t HyperParameters::state_bytes_per_sequence() const {
  if (n_delta_layers() == 0) return 0;
  const uint64_t window = uint64_t{conv_kernel - 1} * conv_channels();
  const uint64_t matrices = uint64_t{n_value_heads} * delta_head_dim * delta_head_dim;
  return n_delta_layers() * (window + matrices) * sizeof(float);
}

Result<void> check_hyper_parameters(const HyperParameters& hp) {
  const std::string_view architecture = architecture_name(hp.architecture);
  const std::array bounds = {
      Bounds{"block_count", uint64_t{hp.n_layers} + hp.n_mtp_blocks, 1, kLayersMax},
      Bounds{"block_count (without draft blocks)", hp.n_layers, 1, kLayersMax},
      Bounds{"context_length", hp.context_length, 1, kContextMax},
      Bounds{"embedding_length", hp.n_embd, 1, kEmbeddingMax},
      Bounds{"vocab_size", hp.n_vocab, 1, kVocabularyMax},
      Bounds{"attention.head_count", hp.n_heads, 1, kHeadsMax},
      Bounds{"attention.head_count_kv", hp.n_kv_heads, 1, kHeadsMax},
      Bounds{"attention.key_length", hp.head_dim, 1, kHeadDimMax},
      Bounds{"rope.dimension_count", hp.rope_dims, 2, hp.head_dim},
      Bounds{"expert_count", hp.n_experts, 1, kExpertsMax},
      Bounds{"expert_used_count", hp.n_experts_used, 1, hp.n_experts},
      Bounds{"expert_feed_forward_length", hp.expert_width, 1, kEmbeddingMax},
  };
  KVASIR_TRY_VOID(check_bounds(architecture, bounds));
  if (hp.layer_kinds.size() != hp.n_layers)
    return Error::corrupt("{}: {} layer kinds for {} layers", architecture, hp.layer_kinds.size(),
                          hp.n_layers);
  if (hp.n_heads % hp.n_kv_heads != 0)
    return Error::corrupt("{}.attention.head_count: {} is no multiple of {} key-value heads",
                          architecture, hp.n_heads, hp.n_kv_heads);
  if (hp.rope_dims % 2 != 0)
    return Error::corrupt("{}.rope.dimension_count: {} is odd", architecture, hp.rope_dims);
  // Written so that a NaN fails as well.
  if (!(hp.rope_base > 1.0 && hp.rope_base <= 1e15))
    return Error::corrupt("{}.rope.freq_base: {} is outside 1..1e15", architecture, hp.rope_base);
  if (!(hp.rms_eps > 0.0F && hp.rms_eps < 1.0F))
    return Error::corrupt("{}.attention.layer_norm_rms_epsilon: {} is outside 0..1", architecture,
                          hp.rms_eps);
  if (hp.architecture == Architecture::kQwen35Moe) return check_delta_net(hp);
  if (hp.n_delta_layers() != 0)
    return Error::corrupt("{}: has no delta-net layers, {} were asked for", architecture,
                          hp.n_delta_layers());
  return {};
}

Result<HyperParameters> read_hyper_parameters(const Metadata& metadata) {
  HyperParameters hp;
  KVASIR_TRY(hp.architecture, read_architecture(metadata));
  const Keys keys(metadata, hp.architecture);
  const bool is_hybrid = hp.architecture == Architecture::kQwen35Moe;

  KVASIR_TRY_VOID(read_blocks(keys, hp));
  KVASIR_TRY(hp.context_length, keys.count("context_length"));
  KVASIR_TRY(hp.n_embd, keys.count("embedding_length"));
  KVASIR_TRY_VOID(read_vocabulary(keys, hp));
  if (is_hybrid) {
    KVASIR_TRY_VOID(read_hybrid_layer_kinds(keys, hp));
  } else {
    hp.layer_kinds.assign(hp.n_layers, LayerKind::kAttention);
  }
  hp.attention_output_gate = is_hybrid;
  KVASIR_TRY_VOID(read_attention(keys, hp));
  KVASIR_TRY_VOID(read_rope(keys, hp));
  if (is_hybrid) KVASIR_TRY_VOID(read_delta_net(keys, hp));
  KVASIR_TRY_VOID(read_experts(keys, hp));
  KVASIR_TRY_VOID(check_hyper_parameters(hp));
  return hp;
}

}  // namespace kvasir::model
