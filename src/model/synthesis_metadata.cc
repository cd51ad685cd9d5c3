// The keys of a synthetic model: hyper-parameters as a converter writes them, and a small
// tokenizer.
#include <algorithm>
#include <array>
#include <optional>

#include "model/synthesis_parts.h"

namespace kvasir::model {
namespace {

using gguf::TensorType;

// Token types of tokenizer.ggml.token_type.
constexpr int32_t kNormalToken = 1;
constexpr int32_t kControlToken = 3;
constexpr int32_t kUnusedToken = 5;

// Left and right half of merged tokens, in rank order: frequent pieces of English. "Ġ" is the byte
// alphabet's space. Every half is a byte or an earlier result.
constexpr std::array<std::pair<std::string_view, std::string_view>, 40> kMerges = {{
    {"Ġ", "t"}, {"h", "e"},  {"Ġ", "a"},   {"Ġt", "he"}, {"i", "n"},  {"e", "r"},  {"o", "n"},
    {"r", "e"}, {"n", "d"},  {"Ġ", "s"},   {"Ġ", "w"},   {"a", "t"},  {"o", "u"},  {"e", "n"},
    {"i", "s"}, {"e", "d"},  {"Ġa", "nd"}, {"in", "g"},  {"Ġt", "o"}, {"Ġ", "o"},  {"o", "r"},
    {"e", "s"}, {"a", "s"},  {"i", "t"},   {"Ġo", "f"},  {"a", "n"},  {"Ġ", "h"},  {"a", "r"},
    {"l", "l"}, {"Ġ", "in"}, {"Ġw", "as"}, {"Ġh", "e"},  {"Ġ", "it"}, {"Ġ", "is"}, {"l", "e"},
    {"Ġ", "c"}, {"Ġ", "b"},  {"s", "t"},   {"v", "e"},   {"u", "t"},
}};
constexpr std::array<std::string_view, 3> kControlTokens = {"<|endoftext|>", "<|im_start|>",
                                                            "<|im_end|>"};
static_assert(256 + kMerges.size() + kControlTokens.size() <= kSynthesisVocabularyMin);

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The character that stands for a byte in token strings: itself where it is printable Latin-1, else
// the next one from U+0100 on.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  uint32_t next_stand_in = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_itself =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint32_t code_point = is_itself ? byte : next_stand_in++;
    std::string character;
    if (code_point < 0x80) {
      character += static_cast<char>(code_point);
    } else {
      character += static_cast<char>(0xC0 | (code_point >> 6));
      character += static_cast<char>(0x80 | (code_point & 0x3F));
    }
    alphabet.push_back(std::move(character));
  }
  return alphabet;
}

void add_tokenizer(gguf::Writer& writer, const SynthesisPlan& plan) {
  std::vector<std::string> tokens = byte_alphabet();
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) {
    merges.push_back(fmt::format("{} {}", left, right));
    tokens.push_back(fmt::format("{}{}", left, right));
  }
  std::vector<int32_t> types(tokens.size(), kNormalToken);
  const auto first_control = static_cast<uint32_t>(tokens.size());
  tokens.insert(tokens.end(), kControlTokens.begin(), kControlTokens.end());
  types.resize(tokens.size(), kControlToken);
  while (tokens.size() < plan.hp.n_vocab) tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
  types.resize(tokens.size(), kUnusedToken);

  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre",
                    plan.hp.architecture == Architecture::kQwen35Moe ? "qwen35" : "qwen2");
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  writer.add_i32s("tokenizer.ggml.token_type", types);
  writer.add_strings("tokenizer.ggml.merges", merges);
  writer.add_u32("tokenizer.ggml.eos_token_id", first_control + 2);
  writer.add_u32("tokenizer.ggml.padding_token_id", first_control);
  writer.add_bool("tokenizer.ggml.add_bos_token", false);
  writer.add_string("tokenizer.chat_template", kChatTemplate);
}

// general.file_type where there is a number for what was asked for; it informs people only.
std::optional<uint32_t> file_type(const SynthesisPlan& plan) {
  if (plan.mix == TypeMix::kQ4KM) return 15;
  switch (plan.type) {
    case TensorType::kF32:
      return 0;
    case TensorType::kF16:
      return 1;
    case TensorType::kQ8_0:
      return 7;
    case TensorType::kQ6_K:
      return 18;
    default:
      return std::nullopt;
  }
}

// The interval that gives these layers, the usual 4 first; nothing if there is none.
std::optional<uint32_t> attention_interval(const std::vector<LayerKind>& kinds) {
  const auto fits = [&](uint32_t interval) {
    for (size_t i = 0; i < kinds.size(); ++i)
      if ((kinds[i] == LayerKind::kAttention) != ((i + 1) % interval == 0)) return false;
    return true;
  };
  if (fits(4)) return 4;
  for (uint32_t interval = 1; interval <= kinds.size() + 1; ++interval)
    if (fits(interval)) return interval;
  return std::nullopt;
}

void add_layer_kinds(gguf::Writer& writer, const HyperParameters& hp, const std::string& prefix) {
  if (auto interval = attention_interval(hp.layer_kinds)) {
    writer.add_u32(prefix + "full_attention_interval", *interval);
    return;
  }
  std::vector<uint32_t> recurrent(hp.n_layers + hp.n_mtp_blocks, 0);
  std::transform(hp.layer_kinds.begin(), hp.layer_kinds.end(), recurrent.begin(),
                 [](LayerKind kind) { return kind == LayerKind::kDeltaNet ? 1 : 0; });
  writer.add_u32s(prefix + "attention.recurrent_layers", recurrent);
}

void add_hybrid_keys(gguf::Writer& writer, const HyperParameters& hp, const std::string& prefix) {
  add_layer_kinds(writer, hp, prefix);
  // Pairs are dealt to three axes in turn.
  const auto pairs = static_cast<int32_t>(hp.rope_dims / 2);
  writer.add_i32s(prefix + "rope.dimension_sections",
                  std::array{(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
  writer.add_u32(prefix + "expert_shared_feed_forward_length", hp.shared_expert_width);
  writer.add_u32(prefix + "ssm.conv_kernel", hp.conv_kernel);
  writer.add_u32(prefix + "ssm.inner_size", hp.n_value_heads * hp.delta_head_dim);
  writer.add_u32(prefix + "ssm.state_size", hp.delta_head_dim);
  writer.add_u32(prefix + "ssm.time_step_rank", hp.n_value_heads);
  writer.add_u32(prefix + "ssm.group_count", hp.n_key_heads);
  if (hp.value_head_order == ValueHeadOrder::kGrouped)
    writer.add_bool(prefix + "ssm.v_head_reordered", false);
}

}  // namespace

void add_synthesis_metadata(gguf::Writer& writer, const SynthesisPlan& plan) {
  const HyperParameters& hp = plan.hp;
  const std::string architecture(architecture_name(hp.architecture));
  const std::string prefix = architecture + ".";
  writer.add_string("general.architecture", architecture);
  writer.add_string("general.name", plan.name);
  if (auto type = file_type(plan)) writer.add_u32("general.file_type", *type);
  writer.add_u32("general.quantization_version", 2);
  writer.add_u32(prefix + "block_count", hp.n_layers + hp.n_mtp_blocks);
  if (hp.n_mtp_blocks > 0) writer.add_u32(prefix + "nextn_predict_layers", hp.n_mtp_blocks);
  writer.add_u32(prefix + "context_length", hp.context_length);
  writer.add_u32(prefix + "embedding_length", hp.n_embd);
  writer.add_u32(prefix + "vocab_size", hp.n_vocab);
  writer.add_u32(prefix + "attention.head_count", hp.n_heads);
  writer.add_u32(prefix + "attention.head_count_kv", hp.n_kv_heads);
  writer.add_u32(prefix + "attention.key_length", hp.head_dim);
  writer.add_u32(prefix + "attention.value_length", hp.head_dim);
  writer.add_f32(prefix + "attention.layer_norm_rms_epsilon", hp.rms_eps);
  writer.add_u32(prefix + "rope.dimension_count", hp.rope_dims);
  writer.add_f32(prefix + "rope.freq_base", static_cast<float>(hp.rope_base));
  writer.add_u32(prefix + "expert_count", hp.n_experts);
  writer.add_u32(prefix + "expert_used_count", hp.n_experts_used);
  writer.add_u32(prefix + "expert_feed_forward_length", hp.expert_width);
  if (hp.architecture == Architecture::kQwen35Moe) add_hybrid_keys(writer, hp, prefix);
  add_tokenizer(writer, plan);
}

}  // namespace kvasir::model
