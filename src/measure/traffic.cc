#include "measure/traffic.h"

#include <algorithm>
#include <array>
#include <variant>

#include "base/error.h"

namespace kvasir::measure {
namespace {

// Adds up one call.
class Count {
 public:
  Count(const model::HyperParameters& hp, kernels::KvType kv_type, const CallShape& shape)
      : hp_(hp), kv_bytes_(kv_type == kernels::KvType::kF16 ? 2 : 4), shape_(shape) {}

  void matrix(const model::Matrix& matrix, uint64_t n_rows) {
    if (n_rows == 0) return;
    traffic_.dense += matrix.n_out * matrix.row_bytes;
    traffic_.operations += 2 * n_rows * matrix.n_out * matrix.n_in;
  }
  void vector(const model::Vector& vector) { traffic_.dense += vector.size * sizeof(float); }
  void embedding(const model::Matrix& table) { traffic_.dense += shape_.n_rows * table.row_bytes; }

  // n_out: rows whose result is wanted.
  void mixer(const model::AttentionTensors& tensors, uint64_t n_out) {
    matrix(tensors.q, n_out);
    matrix(tensors.k, shape_.n_rows);
    matrix(tensors.v, shape_.n_rows);
    matrix(tensors.output, n_out);
    vector(tensors.q_norm);
    vector(tensors.k_norm);
    const uint64_t position_bytes = uint64_t{2} * hp_.n_kv_heads * hp_.head_dim * kv_bytes_;
    traffic_.caches += shape_.n_rows * position_bytes;
    if (n_out != 0) traffic_.caches += shape_.n_sequences * shape_.position * position_bytes;
  }
  void mixer(const model::DeltaTensors& tensors, uint64_t n_out) {
    matrix(tensors.qkv, shape_.n_rows);
    matrix(tensors.alpha, shape_.n_rows);
    matrix(tensors.beta, shape_.n_rows);
    matrix(tensors.z, n_out);
    matrix(tensors.out, n_out);
    for (const model::Vector* one : {&tensors.conv, &tensors.dt_bias, &tensors.a, &tensors.norm})
      vector(*one);
    const uint64_t head_bytes = uint64_t{hp_.delta_head_dim} * hp_.delta_head_dim * sizeof(float);
    const uint64_t window_row = uint64_t{hp_.conv_channels()} * sizeof(float);
    const uint64_t window_rows = hp_.conv_kernel - 1;
    const uint64_t new_rows = std::min(shape_.n_rows / shape_.n_sequences, window_rows);
    traffic_.caches += shape_.n_sequences *
                       (2 * hp_.n_value_heads * head_bytes + (window_rows + new_rows) * window_row);
  }

  void experts(const model::Layer& layer, const ExpertUse& use) {
    for (const model::ExpertMatrices* one : {&layer.gate, &layer.up, &layer.down}) {
      traffic_.experts += use.distinct * one->n_out * one->row_bytes;
      traffic_.operations += 2 * use.pairs * one->n_out * one->n_in;
    }
  }
  void shared_expert(const model::SharedExpertTensors& tensors, uint64_t n_out) {
    vector(tensors.gate_input);
    for (const model::Matrix* one : {&tensors.gate, &tensors.up, &tensors.down})
      matrix(*one, n_out);
  }

  const Traffic& traffic() const { return traffic_; }

 private:
  const model::HyperParameters& hp_;
  const uint64_t kv_bytes_;
  const CallShape& shape_;
  Traffic traffic_;
};

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  dense += other.dense;
  experts += other.experts;
  caches += other.caches;
  operations += other.operations;
  return *this;
}

// The forward pass leaves out, in the last layer, what no logits need (engine/engine.cc).
Traffic call_traffic(const model::Model& model, kernels::KvType kv_type, const CallShape& shape,
                     std::span<const ExpertUse> experts) {
  KVASIR_CHECK(experts.size() == model.layers.size() && shape.n_sequences != 0);
  Count count(model.hp, kv_type, shape);
  count.embedding(model.token_embedding);
  for (size_t index = 0; index < model.layers.size(); ++index) {
    const model::Layer& layer = model.layers[index];
    const bool is_last = index + 1 == model.layers.size();
    const uint64_t n_out = is_last ? shape.n_logits : shape.n_rows;
    count.vector(layer.attention_norm);
    std::visit([&](const auto& tensors) { count.mixer(tensors, n_out); }, layer.mixer);
    if (n_out == 0) continue;
    count.vector(layer.ffn_norm);
    count.matrix(layer.router, n_out);
    count.experts(layer, experts[index]);
    if (layer.shared) count.shared_expert(*layer.shared, n_out);
  }
  if (shape.n_logits != 0) count.vector(model.output_norm);
  count.matrix(model.output, shape.n_logits);
  return count.traffic();
}

}  // namespace kvasir::measure
