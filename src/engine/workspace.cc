#include "engine/workspace.h"

namespace kvasir::engine {
namespace {

// The formats in which the weights of a model want their inputs, by what the inputs are.
struct InputFormats {
  FormatSet normed, router, attention_result, delta_result, shared_hidden;
};

InputFormats input_formats(const model::Model& model) {
  InputFormats formats;
  formats.normed.add(FormatSet{model.output.type});
  for (const model::Layer& layer : model.layers) {
    formats.normed.add(FormatSet{layer.router.type});
    formats.router.add(FormatSet{layer.router.type});
    if (const auto* attention = std::get_if<model::AttentionTensors>(&layer.mixer)) {
      formats.normed.add(FormatSet{attention->q.type, attention->k.type, attention->v.type});
      formats.attention_result.add(FormatSet{attention->output.type});
    } else {
      const auto& delta = std::get<model::DeltaTensors>(layer.mixer);
      formats.normed.add(
          FormatSet{delta.qkv.type, delta.z.type, delta.alpha.type, delta.beta.type});
      formats.delta_result.add(FormatSet{delta.out.type});
    }
    if (layer.shared) {
      formats.normed.add(FormatSet{layer.shared->gate.type, layer.shared->up.type});
      formats.shared_hidden.add(FormatSet{layer.shared->down.type});
    }
  }
  return formats;
}

Error non_finite(std::string_view tensor, Operand operand, size_t position) {
  return Error::non_finite("{}: {} at position {} is not finite", tensor,
                           operand == Operand::kInput ? "input" : "output", position);
}

}  // namespace

Workspace::Workspace(const model::Model& the_model, const kernels::KernelTable& the_kernels,
                     ThreadPool& the_pool, const EngineOptions& the_options)
    : model(the_model),
      hp(the_model.hp),
      kernels(the_kernels),
      pool(the_pool),
      options(the_options) {
  const size_t rows = options.rows_max;
  const bool has_attention = hp.n_attention_layers() != 0;
  const bool has_delta = hp.n_delta_layers() != 0;
  const size_t heads_width = has_attention ? size_t{hp.n_heads} * hp.head_dim : 0;
  const size_t kv_width = has_attention ? size_t{hp.n_kv_heads} * hp.head_dim : 0;
  const size_t value_width = has_delta ? size_t{hp.n_value_heads} * hp.delta_head_dim : 0;
  const size_t key_width = has_delta ? size_t{hp.n_key_heads} * hp.delta_head_dim : 0;

  const InputFormats formats = input_formats(model);
  auto resize_rows = [](InputRows& input, size_t n_rows, size_t n, FormatSet of_weights) {
    input.n = n;
    input.values.resize(n_rows * n);
    if (n != 0) input.quantised.resize(n_rows, n, of_weights);
  };
  auto resize_input = [&](InputRows& input, size_t n, FormatSet of_weights) {
    resize_rows(input, rows, n, of_weights);
  };
  resize_input(normed, hp.n_embd, formats.normed);
  resize_input(attention_result, heads_width, formats.attention_result);
  resize_input(delta_result, value_width, formats.delta_result);
  resize_input(shared_hidden, hp.shared_expert_width, formats.shared_hidden);

  x.resize(rows * hp.n_embd);
  mixer_out.resize(rows * hp.n_embd);

  rope_cos.resize(has_attention ? rows * (hp.rope_dims / 2) : 0);
  rope_sin.resize(rope_cos.size());
  q_full.resize(rows * heads_width * (hp.attention_output_gate ? 2 : 1));
  q.resize(rows * heads_width);
  k.resize(rows * kv_width);
  v.resize(rows * kv_width);
  attended.resize(rows * heads_width);

  if (has_delta) {
    qkv.resize(rows * hp.conv_channels());
    conv.resize(rows * hp.conv_channels());
    qk_normed.resize(rows * 2 * key_width);
    z.resize(rows * value_width);
    alpha.resize(rows * hp.n_value_heads);
    beta.resize(rows * hp.n_value_heads);
    log_decay.resize(rows * hp.n_value_heads);
    decay.resize(rows * hp.n_value_heads);
    delta_out.resize(rows * value_width);
  }

  router.resize(rows * hp.n_experts);
  expert_ids.resize(rows * hp.n_experts_used);
  expert_weights.resize(rows * hp.n_experts_used);
  expert_out.resize(rows * hp.n_experts_used * hp.n_embd);
  asked_rows.resize(rows);
  row_owners.resize(rows);
  shared_gate.resize(rows * hp.shared_expert_width);
  shared_up.resize(rows * hp.shared_expert_width);
  shared_out.resize(hp.shared_expert_width != 0 ? rows * hp.n_embd : 0);
  shared_sigma.resize(rows);

  const size_t guess_rows = std::min(rows, kGuessRowsMax);
  resize_rows(router_guess.normed, guess_rows, hp.n_embd, formats.router);
  router_guess.logits.resize(guess_rows * hp.n_experts);
  router_guess.ids.resize(guess_rows * hp.n_experts_used);
  router_guess.weights.resize(hp.n_experts_used);
  router_guess.is_valid.resize(guess_rows);
}

size_t Workspace::allocated_bytes() const {
  size_t floats = 0;
  for (const auto* buffer : {&x,
                             &normed.values,
                             &rope_cos,
                             &rope_sin,
                             &attention_result.values,
                             &delta_result.values,
                             &mixer_out,
                             &q_full,
                             &q,
                             &k,
                             &v,
                             &attended,
                             &attention.scores,
                             &attention.max_scores,
                             &attention.values,
                             &attention.sums,
                             &attention.per_thread,
                             &qkv,
                             &conv,
                             &qk_normed,
                             &z,
                             &alpha,
                             &beta,
                             &log_decay,
                             &decay,
                             &delta_out,
                             &router,
                             &expert_weights,
                             &expert_out,
                             &shared_gate,
                             &shared_up,
                             &shared_out,
                             &shared_sigma,
                             &shared_hidden.values,
                             &router_guess.normed.values,
                             &router_guess.logits,
                             &router_guess.weights})
    floats += buffer->capacity();
  size_t bytes = floats * sizeof(float) +
                 (expert_ids.capacity() + router_guess.ids.capacity()) * sizeof(uint16_t) +
                 asked_rows.capacity() * sizeof(uint32_t) +
                 row_owners.capacity() * sizeof(uint64_t) + router_guess.is_valid.capacity();
  for (const InputRows* input :
       {&normed, &attention_result, &delta_result, &shared_hidden, &router_guess.normed})
    bytes += input->quantised.allocated_bytes();
  return bytes;
}

void Workspace::add_mat_mul(const model::Matrix& matrix, InputRows& in, size_t n_rows, float* out) {
  const auto format = kernels::activation_format(matrix.type);
  const std::byte* rows = format == kernels::ActivationFormat::kF32
                              ? reinterpret_cast<const std::byte*>(in.values.data())
                              : in.quantised.row(format, 0);
  mat_muls.add({{matrix.type, matrix.n_in, matrix.n_out, matrix.row_bytes, matrix.data},
                rows,
                in.quantised.stride(format),
                n_rows,
                out,
                matrix.n_out});
}

bool Workspace::check_finite(size_t row, std::string_view tensor, Operand operand,
                             const float* values, size_t n) {
  if (kernels.all_finite(values, n)) return true;
  batch.fail(row, non_finite(tensor, operand, batch.row(row).position));
  return false;
}

bool Workspace::quantise(size_t row, InputRows& rows, FormatSet formats, std::string_view tensor,
                         Operand operand) {
  if (rows.quantised.quantise(kernels, row, rows.row(row), formats)) return true;
  batch.fail(row, non_finite(tensor, operand, batch.row(row).position));
  return false;
}

void Workspace::tap_rows(std::string_view name, int layer, const float* values, size_t n_values,
                         size_t n_rows) const {
  if (!tap) return;
  for (size_t row = 0; row < n_rows; ++row)
    if (!batch.failed(row))
      tap(name, layer, batch.row(row).original, {values + row * n_values, n_values});
}

}  // namespace kvasir::engine
