#include "engine/moe.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/canonical_math.h"

namespace kvasir::engine {
namespace {

constexpr float kWeightSumMin = 0x1p-14F;

// The block of one layer.
class Moe {
 public:
  Moe(Workspace& ws, const LayerPlace& place, size_t n_rows)
      : ws_(ws),
        place_(place),
        n_rows_(n_rows),
        n_embd_(ws.hp.n_embd),
        n_experts_(ws.hp.n_experts),
        top_k_(ws.hp.n_experts_used) {}

  // Router, and the shared expert's gate and up, which read the same rows.
  void route();
  // Tells the expert service what the next layer's router would choose if this layer's experts
  // added nothing: often the truth, and early enough to fetch it meanwhile. Changes no result.
  void guess_next(expert::ExpertService& experts);
  void compute_routed(expert::ExpertService& experts);
  // The sum of all outputs is built in ws.mixer_out, which nothing needs any more.
  void sum_routed();
  void add_shared();
  void add_to_residual();

 private:
  const model::SharedExpertTensors* shared() const {
    return place_.layer.shared ? &*place_.layer.shared : nullptr;
  }
  void choose(size_t row);
  void prepare_shared(size_t row);
  float* sum_row(size_t row) { return ws_.mixer_out.data() + row * n_embd_; }
  void tap_ids() const;

  Workspace& ws_;
  const LayerPlace& place_;
  const size_t n_rows_;
  const size_t n_embd_, n_experts_, top_k_;
};

void Moe::route() {
  ws_.add_mat_mul(place_.layer.router, ws_.normed, n_rows_, ws_.router.data());
  if (shared() != nullptr) {
    ws_.add_mat_mul(shared()->gate, ws_.normed, n_rows_, ws_.shared_gate.data());
    ws_.add_mat_mul(shared()->up, ws_.normed, n_rows_, ws_.shared_up.data());
  }
  ws_.run_mat_muls();
  ws_.tap_rows("ffn_moe_logits", place_.index, ws_.router.data(), n_experts_, n_rows_);
  ws_.for_rows(n_rows_, [&](size_t row) {
    if (!ws_.check_output(row, place_.layer.router, ws_.router)) return;
    choose(row);
    if (shared() != nullptr) prepare_shared(row);
  });
  ws_.tap_rows("ffn_moe_probs", place_.index, ws_.router.data(), n_experts_, n_rows_);
  tap_ids();
  ws_.tap_rows("ffn_moe_weights_norm", place_.index, ws_.expert_weights.data(), top_k_, n_rows_);
  ws_.tap_rows("shared_expert_gate_sigmoid", place_.index, ws_.shared_sigma.data(), 1,
               shared() != nullptr ? n_rows_ : 0);
}

void Moe::choose(size_t row) {
  float* p = ws_.router.data() + row * n_experts_;
  ws_.kernels.softmax(p, n_experts_, p);
  choose_experts(p, n_experts_, top_k_, ws_.expert_ids.data() + row * top_k_,
                 ws_.expert_weights.data() + row * top_k_);
}

void Moe::tap_ids() const {
  if (!ws_.tap) return;
  const std::vector<float> ids(ws_.expert_ids.begin(), ws_.expert_ids.end());
  ws_.tap_rows("ffn_moe_topk", place_.index, ids.data(), top_k_, n_rows_);
}

void Moe::prepare_shared(size_t row) {
  const model::SharedExpertTensors& tensors = *shared();
  if (!ws_.check_output(row, tensors.gate, ws_.shared_gate) ||
      !ws_.check_output(row, tensors.up, ws_.shared_up))
    return;
  const float gate = ws_.kernels.dot(tensors.gate_input.data, ws_.normed.row(row), n_embd_);
  if (!ws_.check_finite(row, tensors.gate_input.name, Operand::kOutput, &gate, 1)) return;
  ws_.shared_sigma[row] = kernels::canonical_sigmoid(gate);
  const size_t width = ws_.hp.shared_expert_width;
  ws_.kernels.silu_mul(ws_.shared_gate.data() + row * width, ws_.shared_up.data() + row * width,
                       width, ws_.shared_hidden.row(row));
  ws_.quantise(row, ws_.shared_hidden, FormatSet{tensors.down.type}, tensors.down.name,
               Operand::kInput);
}

void Moe::guess_next(expert::ExpertService& experts) {
  const size_t next_index = static_cast<size_t>(place_.index) + 1;
  if (next_index == ws_.model.layers.size()) return;
  const auto layer_index = static_cast<uint32_t>(next_index);
  if (!experts.wants_guess(layer_index)) return;
  const model::Layer& next = ws_.model.layers[next_index];
  const bool is_last = next_index + 1 == ws_.model.layers.size();
  const size_t n_rows = std::min(is_last ? ws_.batch.n_logits() : n_rows_, kGuessRowsMax);
  if (n_rows == 0) return;
  RouterGuess& guess = ws_.router_guess;
  guess.is_valid.assign(n_rows, 0);
  ws_.for_rows(n_rows, [&](size_t row) {
    float* normed = guess.normed.row(row);
    ws_.kernels.rms_norm(ws_.x.data() + row * n_embd_, next.ffn_norm.data, n_embd_, ws_.hp.rms_eps,
                         normed);
    guess.is_valid[row] =
        ws_.kernels.all_finite(normed, n_embd_) &&
        guess.normed.quantised.quantise(ws_.kernels, row, normed, FormatSet{next.router.type});
  });
  ws_.add_mat_mul(next.router, guess.normed, n_rows, guess.logits.data());
  ws_.run_mat_muls();
  size_t n_valid = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const float* logits = guess.logits.data() + row * n_experts_;
    if (guess.is_valid[row] == 0 || !ws_.kernels.all_finite(logits, n_experts_)) continue;
    choose_experts(logits, n_experts_, top_k_, guess.ids.data() + n_valid * top_k_,
                   guess.weights.data());
    ++n_valid;
  }
  experts.guess(layer_index, std::span(guess.ids).first(n_valid * top_k_), top_k_);
}

// Rows that failed are left out, so that a cancelled sequence costs no more work here or elsewhere:
// the others move together, are asked for, and what came back moves apart again. Nothing reads the
// normed rows after this.
void Moe::compute_routed(expert::ExpertService& experts) {
  const size_t out_stride = top_k_ * n_embd_;
  size_t n_asked = 0;
  for (size_t row = 0; row < n_rows_; ++row) {
    if (ws_.batch.failed(row)) continue;
    if (row != n_asked) {
      std::copy_n(ws_.normed.row(row), n_embd_, ws_.normed.row(n_asked));
      std::copy_n(ws_.expert_ids.data() + row * top_k_, top_k_,
                  ws_.expert_ids.data() + n_asked * top_k_);
    }
    ws_.row_owners[n_asked] = ws_.batch.row(row).sequence->id();
    ws_.asked_rows[n_asked++] = static_cast<uint32_t>(row);
  }
  auto failures =
      experts.compute({static_cast<uint32_t>(place_.index), ws_.normed.values.data(), n_asked,
                       ws_.expert_ids.data(), top_k_, ws_.options.encoding, ws_.row_owners.data()},
                      ws_.expert_out.data());
  if (!failures) {
    ws_.batch.fail_all(failures.error());
  } else {
    for (const auto& [asked, error] : *failures) {
      const size_t row = ws_.asked_rows[asked];
      Error at = error;
      at.message += fmt::format(" at position {}", ws_.batch.row(row).position);
      ws_.batch.fail(row, std::move(at));
    }
  }
  // From the last one on, so that no row is written over before it has moved.
  for (size_t asked = n_asked; asked-- > 0 && ws_.asked_rows[asked] != asked;)
    std::copy_n(ws_.expert_out.data() + asked * out_stride, out_stride,
                ws_.expert_out.data() + ws_.asked_rows[asked] * out_stride);
  ws_.batch.spread_failures();
  ws_.tap_rows("ffn_moe_down", place_.index, ws_.expert_out.data(), top_k_ * n_embd_, n_rows_);
}

void Moe::sum_routed() {
  ws_.for_rows(n_rows_, [&](size_t row) {
    float* sum = sum_row(row);
    std::fill_n(sum, n_embd_, 0.0F);
    for (size_t rank = 0; rank < top_k_; ++rank)
      ws_.kernels.axpy(ws_.expert_weights[row * top_k_ + rank],
                       ws_.expert_out.data() + (row * top_k_ + rank) * n_embd_, n_embd_, sum);
  });
  ws_.tap_rows("ffn_moe_out", place_.index, ws_.mixer_out.data(), n_embd_, n_rows_);
}

void Moe::add_shared() {
  if (shared() == nullptr) return;
  ws_.add_mat_mul(shared()->down, ws_.shared_hidden, n_rows_, ws_.shared_out.data());
  ws_.run_mat_muls();
  ws_.tap_rows("ffn_shexp", place_.index, ws_.shared_out.data(), n_embd_, n_rows_);
  ws_.for_rows(n_rows_, [&](size_t row) {
    if (!ws_.check_output(row, shared()->down, ws_.shared_out)) return;
    float* gated = ws_.shared_out.data() + row * n_embd_;
    for (size_t i = 0; i < n_embd_; ++i) gated[i] = ws_.shared_sigma[row] * gated[i];
    ws_.kernels.add(sum_row(row), gated, n_embd_, sum_row(row));
  });
  ws_.tap_rows("ffn_shexp_gated", place_.index, ws_.shared_out.data(), n_embd_, n_rows_);
}

void Moe::add_to_residual() {
  ws_.tap_rows("ffn_out", place_.index, ws_.mixer_out.data(), n_embd_, n_rows_);
  ws_.for_rows(n_rows_, [&](size_t row) {
    float* x = ws_.x.data() + row * n_embd_;
    ws_.kernels.add(x, sum_row(row), n_embd_, x);
  });
}

}  // namespace

FormatSet moe_formats(const model::Layer& layer) {
  FormatSet formats{layer.router.type};
  if (layer.shared) formats.add(FormatSet{layer.shared->gate.type, layer.shared->up.type});
  return formats;
}

void add_experts(Workspace& ws, const LayerPlace& place, expert::ExpertService& experts,
                 size_t n_rows) {
  Moe moe(ws, place, n_rows);
  moe.route();
  moe.guess_next(experts);
  moe.compute_routed(experts);
  moe.sum_routed();
  moe.add_shared();
  moe.add_to_residual();
}

void choose_experts(const float* p, size_t n, size_t k, uint16_t* ids, float* weights) {
  // ids[0..found) are the best so far, in order. A later id enters only above smaller ones, so
  // equal ones stay in the order of their ids.
  size_t found = 0;
  for (size_t id = 0; id < n; ++id) {
    if (found == k && !(p[id] > p[ids[k - 1]])) continue;
    size_t at = found == k ? k - 1 : found++;
    for (; at > 0 && p[id] > p[ids[at - 1]]; --at) ids[at] = ids[at - 1];
    ids[at] = static_cast<uint16_t>(id);
  }
  float sum = 0.0F;
  for (size_t rank = 0; rank < k; ++rank) sum = sum + p[ids[rank]];
  const float divisor = std::max(sum, kWeightSumMin);
  for (size_t rank = 0; rank < k; ++rank) weights[rank] = p[ids[rank]] / divisor;
}

}  // namespace kvasir::engine
