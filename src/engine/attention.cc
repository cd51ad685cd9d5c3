#include "engine/attention.h"

#include <algorithm>
#include <cstring>

#include "engine/attention_heads.h"
#include "kernels/canonical_math.h"

namespace kvasir::engine {
namespace {

// Norms and rotates the heads of one row, in place.
void norm_and_rotate(const Workspace& ws, size_t row, const model::Vector& norm, float* head) {
  const size_t half = ws.hp.rope_dims / 2;
  ws.kernels.rms_norm(head, norm.data, ws.hp.head_dim, ws.hp.rms_eps, head);
  ws.kernels.rope(ws.rope_cos.data() + row * half, ws.rope_sin.data() + row * half, half, head);
}

// q_full -> q: queries out of the projection, normed and rotated.
void prepare_queries(Workspace& ws, const model::AttentionTensors& tensors, size_t row) {
  const size_t dim = ws.hp.head_dim;
  const size_t full_stride = ws.hp.attention_output_gate ? 2 * dim : dim;
  const float* full = ws.q_full.data() + row * tensors.q.n_out;
  float* q = ws.q.data() + row * ws.hp.n_heads * dim;
  for (size_t head = 0; head < ws.hp.n_heads; ++head) {
    std::copy_n(full + head * full_stride, dim, q + head * dim);
    norm_and_rotate(ws, row, tensors.q_norm, q + head * dim);
  }
}

// Norms and rotates the keys and appends keys and values to the row's sequence.
void append_keys_and_values(Workspace& ws, const LayerPlace& place,
                            const model::AttentionTensors& tensors, size_t row) {
  const size_t dim = ws.hp.head_dim;
  const Batch::Row& at = ws.batch.row(row);
  const size_t page = at.position / kPagePositions;
  const size_t offset = at.position % kPagePositions * at.sequence->kv_row_bytes();
  auto store = [&](const float* values, std::byte* out) {
    if (at.sequence->kv_type() == kernels::KvType::kF16)
      return ws.kernels.f16_from_f32(values, dim, reinterpret_cast<uint16_t*>(out));
    std::memcpy(out, values, dim * sizeof(float));
    return true;
  };
  for (size_t head = 0; head < ws.hp.n_kv_heads; ++head) {
    float* k = ws.k.data() + row * tensors.k.n_out + head * dim;
    const float* v = ws.v.data() + row * tensors.v.n_out + head * dim;
    norm_and_rotate(ws, row, tensors.k_norm, k);
    std::byte* keys = at.sequence->key_page(place.kind_index, head, page) + offset;
    std::byte* values = at.sequence->value_page(place.kind_index, head, page) + offset;
    const bool key_fits = store(k, keys);
    if (key_fits && store(v, values)) continue;
    ws.batch.fail(row, Error::non_finite("{}: a value at position {} does not fit f16",
                                         key_fits ? tensors.v.name : tensors.k.name, at.position)
                           .with_hint("use --kv-type f32"));
    return;
  }
}

// attended -> attention_result: the output gate (qwen35moe), then the quantisation.
void gate_heads(Workspace& ws, const model::AttentionTensors& tensors, size_t row) {
  const size_t dim = ws.hp.head_dim;
  const float* attended = ws.attended.data() + row * ws.hp.n_heads * dim;
  float* result = ws.attention_result.row(row);
  if (ws.hp.attention_output_gate) {
    const float* full = ws.q_full.data() + row * tensors.q.n_out;
    for (size_t head = 0; head < ws.hp.n_heads; ++head)
      ws.kernels.sigmoid_mul(attended + head * dim, full + (2 * head + 1) * dim, dim,
                             result + head * dim);
  } else {
    std::copy_n(attended, ws.hp.n_heads * dim, result);
  }
  ws.quantise(row, ws.attention_result, FormatSet{tensors.output.type}, tensors.output.name,
              Operand::kInput);
}

}  // namespace

FormatSet attention_formats(const model::AttentionTensors& tensors) {
  return FormatSet{tensors.q.type, tensors.k.type, tensors.v.type};
}

void fill_rope_tables(Workspace& ws) {
  if (ws.hp.n_attention_layers() == 0) return;
  const size_t half = ws.hp.rope_dims / 2;
  ws.for_rows(ws.batch.size(), [&](size_t row) {
    kernels::rope_angles(ws.batch.row(row).position, ws.hp.rope_base, ws.hp.rope_dims,
                         ws.rope_cos.data() + row * half, ws.rope_sin.data() + row * half);
  });
}

void mix_by_attention(Workspace& ws, const LayerPlace& place, size_t n_out) {
  const auto& tensors = std::get<model::AttentionTensors>(place.layer.mixer);
  const size_t n_rows = ws.batch.size();
  const size_t heads_width = size_t{ws.hp.n_heads} * ws.hp.head_dim;

  ws.add_mat_mul(tensors.q, ws.normed, n_out, ws.q_full.data());
  ws.add_mat_mul(tensors.k, ws.normed, n_rows, ws.k.data());
  ws.add_mat_mul(tensors.v, ws.normed, n_rows, ws.v.data());
  ws.run_mat_muls();
  ws.tap_rows("Qcur_full", place.index, ws.q_full.data(), tensors.q.n_out, n_out);
  ws.tap_rows("Vcur", place.index, ws.v.data(), tensors.v.n_out, n_rows);
  ws.tap_rows("Kcur", place.index, ws.k.data(), tensors.k.n_out, n_rows);

  ws.for_rows(n_rows, [&](size_t row) {
    if (!ws.check_output(row, tensors.k, ws.k) || !ws.check_output(row, tensors.v, ws.v)) return;
    append_keys_and_values(ws, place, tensors, row);
    if (row < n_out && ws.check_output(row, tensors.q, ws.q_full))
      prepare_queries(ws, tensors, row);
  });
  ws.tap_rows("Qcur", place.index, ws.q.data(), heads_width, n_out);

  attend(ws, place.kind_index, n_out);
  ws.tap_rows("attn_pregate", place.index, ws.attended.data(), heads_width, n_out);

  ws.for_rows(n_out, [&](size_t row) { gate_heads(ws, tensors, row); });
  ws.tap_rows("attn_gated", place.index, ws.attention_result.values.data(), heads_width, n_out);

  ws.add_mat_mul(tensors.output, ws.attention_result, n_out, ws.mixer_out.data());
  ws.run_mat_muls();
  ws.tap_rows("attn_output", place.index, ws.mixer_out.data(), ws.hp.n_embd, n_out);
}

}  // namespace kvasir::engine
