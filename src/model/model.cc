#include "model/model.h"

#include <algorithm>
#include <set>

#include "model/tensor_finder.h"
#include "model/tensor_names.h"

namespace kvasir::model {
namespace {

// Binds one layer after the other. What differs between the architectures comes from the
// hyper-parameters: the width of q with an output gate, whether there is a shared expert.
class Binder {
 public:
  Binder(const gguf::ModelFile& file, HyperParameters& hp, bool (*is_supported)(TensorType),
         VectorCheck vector_check)
      : finder_(file, is_supported, vector_check), vector_check_(vector_check), hp_(hp) {}

  Result<void> globals(Model& model) {
    KVASIR_TRY(model.token_embedding, finder_.matrix("token_embd", hp_.n_embd, hp_.n_vocab));
    KVASIR_TRY(model.output_norm, finder_.vector("output_norm.weight", {hp_.n_embd}));
    if (finder_.contains("output.weight")) {
      KVASIR_TRY(model.output, finder_.matrix("output", hp_.n_embd, hp_.n_vocab));
    } else {
      model.output = model.token_embedding;
      note("the head is the token embedding (no output.weight)");
    }
    return {};
  }

  Result<Layer> layer(uint32_t index) {
    const std::string block = block_prefix(index);
    Layer layer;
    layer.kind = hp_.layer_kinds[index];
    KVASIR_TRY_VOID(check_kind(index));
    KVASIR_TRY(layer.attention_norm, finder_.vector(block + "attn_norm.weight", {hp_.n_embd}));
    KVASIR_TRY(layer.ffn_norm,
               finder_.vector(block + std::string(ffn_norm_name(hp_.architecture)) + ".weight",
                              {hp_.n_embd}));
    if (layer.kind == LayerKind::kAttention) {
      KVASIR_TRY(layer.mixer, attention(block));
    } else {
      KVASIR_TRY(layer.mixer, delta_net(block));
    }
    KVASIR_TRY(layer.router, finder_.matrix(block + "ffn_gate_inp", hp_.n_embd, hp_.n_experts));
    KVASIR_TRY_VOID(experts(block, layer));
    if (hp_.shared_expert_width > 0) {
      KVASIR_TRY(layer.shared, shared_expert(block));
    }
    return layer;
  }

  std::vector<std::string> unused() const { return finder_.unused(); }

 private:
  // The metadata say which kind a layer is; the tensors only one kind has must agree.
  Result<void> check_kind(uint32_t index) {
    const std::string block = block_prefix(index);
    const bool is_delta = hp_.layer_kinds[index] == LayerKind::kDeltaNet;
    const std::string own = block + (is_delta ? "ssm_conv1d.weight" : "attn_q_norm.weight");
    const std::string other = block + (is_delta ? "attn_q_norm.weight" : "ssm_conv1d.weight");
    if (!finder_.contains(own) && finder_.contains(other))
      return Error::corrupt("block {}: {} layer by its metadata, but the file holds '{}'", index,
                            is_delta ? "a delta-net" : "an attention", other);
    return {};
  }

  Result<AttentionTensors> attention(const std::string& block) {
    const uint32_t heads_width = hp_.n_heads * hp_.head_dim;
    const uint32_t q_rows = heads_width * (hp_.attention_output_gate ? 2 : 1);
    const uint32_t kv_rows = hp_.n_kv_heads * hp_.head_dim;
    AttentionTensors tensors;
    if (!finder_.contains(block + "attn_q.weight") && finder_.contains(block + "attn_qkv.weight")) {
      KVASIR_TRY(Matrix qkv, finder_.matrix(block + "attn_qkv", hp_.n_embd, q_rows + 2 * kv_rows));
      tensors.q = rows_of(qkv, 0, q_rows);
      tensors.k = rows_of(qkv, q_rows, kv_rows);
      tensors.v = rows_of(qkv, q_rows + kv_rows, kv_rows);
      note("attention layers hold q, k and v as one tensor (attn_qkv)");
    } else {
      KVASIR_TRY(tensors.q, finder_.matrix(block + "attn_q", hp_.n_embd, q_rows));
      KVASIR_TRY(tensors.k, finder_.matrix(block + "attn_k", hp_.n_embd, kv_rows));
      KVASIR_TRY(tensors.v, finder_.matrix(block + "attn_v", hp_.n_embd, kv_rows));
    }
    KVASIR_TRY(tensors.output, finder_.matrix(block + "attn_output", heads_width, hp_.n_embd));
    KVASIR_TRY(tensors.q_norm, finder_.vector(block + "attn_q_norm.weight", {hp_.head_dim}));
    KVASIR_TRY(tensors.k_norm, finder_.vector(block + "attn_k_norm.weight", {hp_.head_dim}));
    return tensors;
  }

  Result<DeltaTensors> delta_net(const std::string& block) {
    const uint32_t inner = hp_.n_value_heads * hp_.delta_head_dim;
    const uint32_t channels = hp_.conv_channels();
    DeltaTensors tensors;
    KVASIR_TRY(tensors.qkv, finder_.matrix(block + "attn_qkv", hp_.n_embd, channels));
    KVASIR_TRY(tensors.z, finder_.matrix(block + "attn_gate", hp_.n_embd, inner));
    KVASIR_TRY(tensors.alpha, finder_.matrix(block + "ssm_alpha", hp_.n_embd, hp_.n_value_heads));
    KVASIR_TRY(tensors.beta, finder_.matrix(block + "ssm_beta", hp_.n_embd, hp_.n_value_heads));
    KVASIR_TRY(tensors.out, finder_.matrix(block + "ssm_out", inner, hp_.n_embd));
    KVASIR_TRY(tensors.conv,
               finder_.vector(block + "ssm_conv1d.weight", {hp_.conv_kernel, channels}));
    std::string dt_name = block + "ssm_dt.bias";
    if (!finder_.contains(dt_name) && finder_.contains(block + "ssm_dt")) {
      dt_name = block + "ssm_dt";
      note("the time step bias is called ssm_dt (not ssm_dt.bias)");
    }
    KVASIR_TRY(tensors.dt_bias, finder_.vector(dt_name, {hp_.n_value_heads}));
    KVASIR_TRY(tensors.a, finder_.vector(block + "ssm_a", {hp_.n_value_heads}));
    KVASIR_TRY(tensors.norm, finder_.vector(block + "ssm_norm.weight", {hp_.delta_head_dim}));
    // A positive value is A_log as it was trained: the converter should have stored -exp(A_log),
    // and with it the state would grow instead of fading.
    if (vector_check_ == VectorCheck::kNone) return tensors;
    for (uint32_t i = 0; i < tensors.a.size; ++i)
      if (tensors.a.data[i] > 0.0F)
        return Error::corrupt("tensor '{}': value {} is {}, must not be positive", tensors.a.name,
                              i, tensors.a.data[i]);
    return tensors;
  }

  Result<void> experts(const std::string& block, Layer& layer) {
    const uint32_t width = hp_.expert_width;
    const bool has_separate = finder_.contains(block + "ffn_gate_exps.weight") ||
                              finder_.contains(block + "ffn_up_exps.weight");
    const std::string fused = block + "ffn_gate_up_exps";
    if (finder_.contains(fused + ".weight")) {
      if (has_separate)
        return Error::corrupt("tensor '{}.weight': the file holds gate and up separately as well",
                              fused);
      KVASIR_TRY(auto gate_up, finder_.experts(fused, hp_.n_embd, 2 * width, hp_.n_experts));
      layer.gate = rows_of(gate_up, 0, width);
      layer.up = rows_of(gate_up, width, width);
      note("experts hold gate and up as one tensor (ffn_gate_up_exps)");
    } else {
      KVASIR_TRY(layer.gate,
                 finder_.experts(block + "ffn_gate_exps", hp_.n_embd, width, hp_.n_experts));
      KVASIR_TRY(layer.up,
                 finder_.experts(block + "ffn_up_exps", hp_.n_embd, width, hp_.n_experts));
    }
    KVASIR_TRY(layer.down,
               finder_.experts(block + "ffn_down_exps", width, hp_.n_embd, hp_.n_experts));
    return {};
  }

  Result<SharedExpertTensors> shared_expert(const std::string& block) {
    const uint32_t width = hp_.shared_expert_width;
    SharedExpertTensors tensors;
    KVASIR_TRY(tensors.gate_input,
               finder_.vector(block + "ffn_gate_inp_shexp.weight", {hp_.n_embd}));
    KVASIR_TRY(tensors.gate, finder_.matrix(block + "ffn_gate_shexp", hp_.n_embd, width));
    KVASIR_TRY(tensors.up, finder_.matrix(block + "ffn_up_shexp", hp_.n_embd, width));
    KVASIR_TRY(tensors.down, finder_.matrix(block + "ffn_down_shexp", width, hp_.n_embd));
    return tensors;
  }

  // Once, however many layers say so.
  void note(std::string text) {
    auto& notes = hp_.dialect_notes;
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
      notes.push_back(std::move(text));
  }

  TensorFinder finder_;
  VectorCheck vector_check_;
  HyperParameters& hp_;
};

Result<void> refuse_vocabulary_only(const gguf::ModelFile& file) {
  if (!file.tensors().empty()) return {};
  return Error::unsupported("the file holds a vocabulary and no weights")
      .with_hint("it serves for `kvasir tokenize` only");
}

Result<void> refuse_draft_only(const gguf::ModelFile& file, const HyperParameters& hp) {
  const bool has_first = file.find(block_prefix(0) + "attn_norm.weight") != nullptr;
  const bool has_draft =
      hp.n_mtp_blocks > 0 && file.find(block_prefix(hp.n_layers) + "attn_norm.weight") != nullptr;
  if (has_first || !has_draft) return {};
  return Error::unsupported("the file holds the MTP (draft) block only, none of the {} layers",
                            hp.n_layers)
      .with_hint("it is a companion for drafting: name the file of the model itself");
}

// Leaving layers out would run, and give fluent nonsense.
Result<void> refuse_more_blocks(const gguf::ModelFile& file, const HyperParameters& hp) {
  const uint32_t n_blocks = hp.n_layers + hp.n_mtp_blocks;
  const std::string next = block_prefix(n_blocks) + "attn_norm.weight";
  if (file.find(next) == nullptr) return {};
  return Error::corrupt("the metadata say {} blocks, but the file holds tensor '{}'", n_blocks,
                        next);
}

Result<Model> bind(std::shared_ptr<const gguf::ModelFile> file, bool (*is_supported)(TensorType),
                   VectorCheck vector_check) {
  KVASIR_TRY_VOID(refuse_vocabulary_only(*file));
  Model model;
  KVASIR_TRY(model.hp, read_hyper_parameters(file->metadata()));
  KVASIR_TRY_VOID(refuse_draft_only(*file, model.hp));
  KVASIR_TRY_VOID(refuse_more_blocks(*file, model.hp));
  Binder binder(*file, model.hp, is_supported, vector_check);
  KVASIR_TRY_VOID(binder.globals(model));
  model.layers.reserve(model.hp.n_layers);
  for (uint32_t i = 0; i < model.hp.n_layers; ++i) {
    KVASIR_TRY(Layer layer, binder.layer(i));
    model.layers.push_back(std::move(layer));
  }
  model.ignored_tensors = binder.unused();
  model.file = std::move(file);
  return model;
}

}  // namespace

Result<Model> bind_model(std::shared_ptr<const gguf::ModelFile> file,
                         bool (*is_supported)(TensorType), VectorCheck vector_check) {
  const std::string path = file->part_file(0).path();
  auto model = bind(std::move(file), is_supported, vector_check);
  if (!model) return std::move(model.error()).in(path);
  return model;
}

std::vector<ByteSpan> dense_tensors(const Model& model) {
  std::set<std::string_view> others(model.ignored_tensors.begin(), model.ignored_tensors.end());
  if (model.output.data != model.token_embedding.data) others.insert(model.token_embedding.name);
  for (const Layer& layer : model.layers)
    for (const ExpertMatrices* matrices : {&layer.gate, &layer.up, &layer.down})
      others.insert(matrices->name);
  std::vector<ByteSpan> dense;
  for (const gguf::TensorView& tensor : model.file->tensors())
    if (!others.contains(tensor.info->name)) dense.push_back(tensor.data);
  return dense;
}

}  // namespace kvasir::model
