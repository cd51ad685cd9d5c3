// What the steps of the forward pass share: the batch, the buffers that carry values from one step
// to the next, and the ways to run work over them. Internal to the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "expert/activation_rows.h"
#include "expert/mat_mul.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace kvasir::engine {

using expert::FormatSet;

// Rows that mat-muls read: floats, and their quantised forms.
struct InputRows {
  size_t n = 0;               // values of a row
  std::vector<float> values;  // [rows_max][n]
  expert::ActivationRows quantised;

  float* row(size_t row) { return values.data() + row * n; }
};

// Which side of a tensor a value is on, for error messages.
enum class Operand : uint8_t { kInput, kOutput };

// One layer and its place.
struct LayerPlace {
  const model::Layer& layer;
  int index = 0;          // among all layers
  size_t kind_index = 0;  // among the layers of its kind: where its caches are
};

// What attention computes per (row, head, page); grows with the longest sequence.
struct AttentionScratch {
  std::vector<float> scores;      // [256] each
  std::vector<float> max_scores;  // one each; NaN if a score is not finite
  std::vector<float> values;      // [head_dim] each: sums of e_t * v_t
  std::vector<float> sums;        // one each: sums of e_t
  std::vector<float> per_thread;
};

// What the next layer's router is likely to choose, for the first rows of a batch.
struct RouterGuess {
  InputRows normed;
  std::vector<float> logits;      // [rows][n_experts]
  std::vector<uint16_t> ids;      // [rows][n_experts_used]
  std::vector<float> weights;     // [n_experts_used]
  std::vector<uint8_t> is_valid;  // [rows]
};
// With more rows, nearly all experts of a layer are needed anyway.
inline constexpr size_t kGuessRowsMax = 8;

// Buffers are [rows_max][values of a row] unless noted, in the row order of the batch.
struct Workspace {
  // All arguments outlive this.
  Workspace(const model::Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
            const EngineOptions& options);

  const model::Model& model;
  const model::HyperParameters& hp;
  const kernels::KernelTable& kernels;
  ThreadPool& pool;
  const EngineOptions options;
  Tap tap;

  Batch batch;
  expert::MatMulBatch mat_muls;

  std::vector<float> x;                   // residual stream
  InputRows normed;                       // x after a norm: what mixers, experts and the head read
  std::vector<float> rope_cos, rope_sin;  // [rows_max][rope_dims / 2]
  std::vector<float> mixer_out;           // of either kind of mixer

  // Attention.
  std::vector<float> q_full;  // rows of the q projection, gates included
  std::vector<float> q;       // normed and rotated
  std::vector<float> k, v;
  std::vector<float> attended;  // heads' results, before the output gate
  InputRows attention_result;   // what the output projection reads
  AttentionScratch attention;

  // Delta-net.
  std::vector<float> qkv;        // before the convolution
  std::vector<float> conv;       // after it
  std::vector<float> qk_normed;  // the q and k heads of conv, L2-normed
  std::vector<float> z, alpha, beta, log_decay, decay;
  std::vector<float> delta_out;  // heads' results, before norm and gate
  InputRows delta_result;        // what the output projection reads

  // Experts.
  std::vector<float> router;          // logits, then probabilities
  std::vector<uint16_t> expert_ids;   // [rows_max][n_experts_used]
  std::vector<float> expert_weights;  // the same
  std::vector<float> expert_out;      // [rows_max][n_experts_used][n_embd]
  std::vector<uint32_t> asked_rows;   // rows that the expert service is asked for
  std::vector<uint64_t> row_owners;   // of them: ids of their sequences
  std::vector<float> shared_gate, shared_up, shared_out;
  std::vector<float> shared_sigma;  // one per row
  InputRows shared_hidden;
  RouterGuess router_guess;

  size_t allocated_bytes() const;

  // Runs step(row) for the rows in [0, n) that have not failed, in parallel; then lets failures
  // spread. A step may touch only its own row and call batch.fail() for it.
  template <typename Step>
  void for_rows(size_t n, const Step& step) {
    auto task = [&](size_t row, size_t) {
      if (!batch.failed(row)) step(row);
    };
    pool.run(n, std::ref(task));
    batch.spread_failures();
  }

  // out: [n_rows][matrix.n_out] = the matrix applied to the first n_rows rows, once run_mat_muls()
  // is called.
  void add_mat_mul(const model::Matrix& matrix, InputRows& in, size_t n_rows, float* out);
  void run_mat_muls() { mat_muls.run(kernels, pool); }

  // These fail the row, naming the tensor, and return false if a value is not finite.
  bool check_finite(size_t row, std::string_view tensor, Operand operand, const float* values,
                    size_t n);
  // values: all rows of a result of `matrix`.
  bool check_output(size_t row, const model::Matrix& matrix, const std::vector<float>& values) {
    return check_finite(row, matrix.name, Operand::kOutput, values.data() + row * matrix.n_out,
                        matrix.n_out);
  }
  // Quantises the row for weights that read it. `tensor` made its values, or is what they are for.
  bool quantise(size_t row, InputRows& rows, FormatSet formats, std::string_view tensor,
                Operand operand);

  // Hands the first n_rows rows of a buffer to the tap, if there is one.
  void tap_rows(std::string_view name, int layer, const float* values, size_t n_values,
                size_t n_rows) const;
};

}  // namespace kvasir::engine
