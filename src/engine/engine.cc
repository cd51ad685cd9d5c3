#include "engine/engine.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/attention.h"
#include "engine/delta_net.h"
#include "engine/moe.h"
#include "engine/workspace.h"

namespace kvasir::engine {
namespace {

FormatSet mixer_formats(const model::Layer& layer) {
  if (const auto* attention = std::get_if<model::AttentionTensors>(&layer.mixer))
    return attention_formats(*attention);
  return delta_net_formats(std::get<model::DeltaTensors>(layer.mixer));
}

const model::Matrix& mixer_output(const model::Layer& layer) {
  if (const auto* attention = std::get_if<model::AttentionTensors>(&layer.mixer))
    return attention->output;
  return std::get<model::DeltaTensors>(layer.mixer).out;
}

}  // namespace

struct Engine::State {
  State(const model::Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
        expert::ExpertService& the_experts, const EngineOptions& options)
      : ws(model, kernels, pool, options), experts(the_experts) {}

  void embed();
  void compute_layer(const LayerPlace& place, size_t n_out);
  void norm(size_t n_rows, const model::Vector& weight, FormatSet formats);
  void compute_logits(std::span<float> logits);

  Workspace ws;
  expert::ExpertService& experts;
};

// x = embedding row, as the format defines it.
void Engine::State::embed() {
  const model::Matrix& embedding = ws.model.token_embedding;
  ws.for_rows(ws.batch.size(), [&](size_t row) {
    const auto token = static_cast<size_t>(ws.batch.row(row).token);
    if (!kernels::dequantize_row(embedding.type, embedding.data + token * embedding.row_bytes,
                                 embedding.n_in, ws.x.data() + row * ws.hp.n_embd))
      ws.batch.fail(row, Error::non_finite("{}: row {} is not finite", embedding.name, token));
  });
}

// normed = RMSNorm(x) * weight, quantised for what reads it.
void Engine::State::norm(size_t n_rows, const model::Vector& weight, FormatSet formats) {
  ws.for_rows(n_rows, [&](size_t row) {
    ws.kernels.rms_norm(ws.x.data() + row * ws.hp.n_embd, weight.data, ws.hp.n_embd, ws.hp.rms_eps,
                        ws.normed.row(row));
    ws.quantise(row, ws.normed, formats, weight.name, Operand::kOutput);
  });
}

// Every row takes part in the mixer's caches; x is brought up to date for the first n_out rows.
void Engine::State::compute_layer(const LayerPlace& place, size_t n_out) {
  const model::Layer& layer = place.layer;
  const size_t n_embd = ws.hp.n_embd;
  norm(ws.batch.size(), layer.attention_norm, mixer_formats(layer));
  ws.tap_rows("attn_norm", place.index, ws.normed.values.data(), n_embd, ws.batch.size());
  if (layer.kind == model::LayerKind::kAttention)
    mix_by_attention(ws, place, n_out);
  else
    mix_by_delta_net(ws, place, n_out);
  ws.for_rows(n_out, [&](size_t row) {
    float* x = ws.x.data() + row * n_embd;
    if (ws.check_output(row, mixer_output(layer), ws.mixer_out))
      ws.kernels.add(ws.mixer_out.data() + row * n_embd, x, n_embd, x);
  });
  ws.tap_rows("attn_residual", place.index, ws.x.data(), n_embd, n_out);
  norm(n_out, layer.ffn_norm, moe_formats(layer));
  ws.tap_rows("attn_post_norm", place.index, ws.normed.values.data(), n_embd, n_out);
  add_experts(ws, place, experts, n_out);
  ws.tap_rows("l_out", place.index, ws.x.data(), n_embd, n_out);
}

void Engine::State::compute_logits(std::span<float> logits) {
  const model::Matrix& head = ws.model.output;
  const size_t n_rows = ws.batch.n_logits();
  norm(n_rows, ws.model.output_norm, FormatSet{head.type});
  ws.tap_rows("result_norm", -1, ws.normed.values.data(), ws.hp.n_embd, n_rows);
  ws.add_mat_mul(head, ws.normed, n_rows, logits.data());
  ws.run_mat_muls();
  ws.for_rows(n_rows, [&](size_t row) {
    ws.check_finite(row, head.name, Operand::kOutput, logits.data() + row * head.n_out, head.n_out);
  });
  for (size_t row = 0; row < n_rows; ++row)
    if (ws.batch.failed(row)) std::fill_n(logits.data() + row * head.n_out, head.n_out, 0.0F);
  ws.tap_rows("result_output", -1, logits.data(), head.n_out, n_rows);
}

Engine::Engine(const model::Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
               expert::ExpertService& experts, EngineOptions options)
    : state_(std::make_unique<State>(model, kernels, pool, experts, options)) {}
Engine::~Engine() = default;

const model::Model& Engine::model() const {
  return state_->ws.model;
}
expert::ExpertService& Engine::experts() const {
  return state_->experts;
}

const EngineOptions& Engine::options() const {
  return state_->ws.options;
}
void Engine::set_tap(Tap tap) {
  state_->ws.tap = std::move(tap);
}

Result<std::unique_ptr<Sequence>> Engine::new_sequence(size_t context) const {
  if (context == 0 || context > model::kContextMax)
    return Error::invalid("a context of {} tokens; 1 to {} are possible", context,
                          model::kContextMax);
  try {
    return std::make_unique<Sequence>(model().hp, options().kv_type, context);
  } catch (const std::bad_alloc&) {
    return Error::limit("no memory for the {} bytes of recurrent state of one more sequence",
                        model().hp.state_bytes_per_sequence());
  }
}

Result<std::vector<SequenceFailure>> Engine::forward(std::span<const Row> rows,
                                                     std::span<float> logits) {
  Workspace& ws = state_->ws;
  KVASIR_TRY_VOID(ws.batch.start(rows, ws.options.rows_max, ws.hp.n_vocab, ws.options.kv_type));
  KVASIR_CHECK(logits.size() == ws.batch.n_logits() * ws.hp.n_vocab);
  if (rows.empty()) return std::vector<SequenceFailure>{};

  state_->embed();
  fill_rope_tables(ws);
  size_t n_attention = 0, n_delta = 0;
  bool anything_left = ws.batch.drop_cancelled();
  for (size_t index = 0; anything_left && index < ws.model.layers.size(); ++index) {
    const model::Layer& layer = ws.model.layers[index];
    const bool is_last = index + 1 == ws.model.layers.size();
    size_t& kind_index = layer.kind == model::LayerKind::kAttention ? n_attention : n_delta;
    // Nothing reads what the last layer makes of rows without logits, except through the caches.
    state_->compute_layer({layer, static_cast<int>(index), kind_index++},
                          is_last ? ws.batch.n_logits() : ws.batch.size());
    anything_left = ws.batch.drop_cancelled();
  }
  if (anything_left)
    state_->compute_logits(logits);
  else
    std::fill(logits.begin(), logits.end(), 0.0F);
  return ws.batch.finish();
}

std::vector<expert::LayerExperts> local_experts(const model::Model& model) {
  std::vector<expert::LayerExperts> layers;
  layers.reserve(model.layers.size());
  auto view = [](const model::ExpertMatrices& matrices) {
    return expert::MatrixView{matrices.type, matrices.n_in, matrices.n_out, matrices.row_bytes,
                              matrices.data};
  };
  for (const model::Layer& layer : model.layers)
    layers.push_back({{view(layer.gate), view(layer.up), view(layer.down)},
                      layer.gate.expert_stride,
                      layer.up.expert_stride,
                      layer.down.expert_stride,
                      layer.gate.n_experts});
  return layers;
}

std::vector<expert::StoredLayer> stored_experts(const model::Model& model) {
  const std::vector<expert::LayerExperts> shapes = local_experts(model);
  std::vector<expert::StoredLayer> layers;
  layers.reserve(shapes.size());
  const auto place = [](const model::ExpertMatrices& matrices) {
    return expert::StoredLayer::Place{matrices.part, matrices.file_offset};
  };
  for (size_t index = 0; index < shapes.size(); ++index) {
    const model::Layer& layer = model.layers[index];
    layers.push_back({shapes[index], place(layer.gate), place(layer.up), place(layer.down)});
  }
  return layers;
}

}  // namespace kvasir::engine
