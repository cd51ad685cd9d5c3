#include "engine/delta_net.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "kernels/canonical_math.h"

namespace kvasir::engine {
namespace {

// As many as the convolution kernel takes.
constexpr size_t kTapsMax = 8;

// Channels that one task convolves: some microseconds of work. One row of a large model has 12,288.
constexpr size_t kChannelsPerTask = 2048;

// Columns of a head's state that go through all rows before the next ones: 16 KB of the 64 KB that
// a head of 128 x 128 values has, so that they stay in the first-level cache.
constexpr size_t kColumnsPerPass = 32;

// The delta-net of one layer.
class DeltaNet {
 public:
  DeltaNet(Workspace& ws, const LayerPlace& place)
      : ws_(ws),
        hp_(ws.hp),
        tensors_(std::get<model::DeltaTensors>(place.layer.mixer)),
        place_(place),
        dim_(hp_.delta_head_dim),
        key_width_(size_t{hp_.n_key_heads} * dim_),
        value_width_(size_t{hp_.n_value_heads} * dim_),
        channels_(hp_.conv_channels()),
        scale_(1.0F / std::sqrt(static_cast<float>(hp_.delta_head_dim))) {}

  void run(size_t n_out);

 private:
  void project(size_t n_out);
  // beta -> its sigmoid; alpha -> softplus(alpha + dt) -> log_decay -> decay.
  void prepare_gates(size_t row);
  // The rows that the convolution of a row reads, oldest first: its own and those before it, from
  // the batch or from the sequence's window.
  void find_taps(size_t row, const float** taps) const;
  // qkv -> conv, then the q and k heads of conv -> qk_normed.
  void convolve();
  // One value head through all rows of one sequence, then norm and gate of its results.
  void recur(size_t sequence, size_t value_head, size_t n_out);
  // Copies the newest qkv rows into the sequence's window, channels begin..end.
  void keep_window(size_t sequence, size_t begin, size_t end);

  size_t key_head_of(size_t value_head) const {
    return hp_.value_head_order == model::ValueHeadOrder::kTiled
               ? value_head % hp_.n_key_heads
               : value_head / (hp_.n_value_heads / hp_.n_key_heads);
  }
  float* qkv_row(size_t row) const { return ws_.qkv.data() + row * channels_; }
  float* conv_row(size_t row) const { return ws_.conv.data() + row * channels_; }
  float* qk_row(size_t row) const { return ws_.qk_normed.data() + row * 2 * key_width_; }
  // A tap on values begin..begin+n of each row.
  void tap_part(std::string_view name, const std::vector<float>& rows, size_t stride, size_t begin,
                size_t n) const;

  Workspace& ws_;
  const model::HyperParameters& hp_;
  const model::DeltaTensors& tensors_;
  const LayerPlace& place_;
  const size_t dim_;
  const size_t key_width_, value_width_, channels_;
  const float scale_;
};

void DeltaNet::project(size_t n_out) {
  const size_t n_rows = ws_.batch.size();
  ws_.add_mat_mul(tensors_.qkv, ws_.normed, n_rows, ws_.qkv.data());
  ws_.add_mat_mul(tensors_.alpha, ws_.normed, n_rows, ws_.alpha.data());
  ws_.add_mat_mul(tensors_.beta, ws_.normed, n_rows, ws_.beta.data());
  ws_.add_mat_mul(tensors_.z, ws_.normed, n_out, ws_.z.data());
  ws_.run_mat_muls();
  ws_.tap_rows("linear_attn_qkv_mixed", place_.index, ws_.qkv.data(), channels_, n_rows);
  ws_.tap_rows("z", place_.index, ws_.z.data(), value_width_, n_out);

  ws_.for_rows(n_rows, [&](size_t row) {
    if (!ws_.check_output(row, tensors_.qkv, ws_.qkv) ||
        !ws_.check_output(row, tensors_.alpha, ws_.alpha) ||
        !ws_.check_output(row, tensors_.beta, ws_.beta))
      return;
    if (row < n_out && !ws_.check_output(row, tensors_.z, ws_.z)) return;
    prepare_gates(row);
  });
  ws_.tap_rows("beta_sigmoid", place_.index, ws_.beta.data(), hp_.n_value_heads, n_rows);
  ws_.tap_rows("a_softplus", place_.index, ws_.alpha.data(), hp_.n_value_heads, n_rows);
  ws_.tap_rows("gate", place_.index, ws_.log_decay.data(), hp_.n_value_heads, n_rows);
}

void DeltaNet::prepare_gates(size_t row) {
  const size_t n = hp_.n_value_heads;
  float* alpha = ws_.alpha.data() + row * n;
  float* beta = ws_.beta.data() + row * n;
  float* log_decay = ws_.log_decay.data() + row * n;
  ws_.kernels.sigmoid(beta, n, beta);
  for (size_t head = 0; head < n; ++head) {
    alpha[head] = kernels::canonical_softplus(alpha[head] + tensors_.dt_bias.data[head]);
    log_decay[head] = tensors_.a.data[head] * alpha[head];
  }
  if (!ws_.check_finite(row, tensors_.a.name, Operand::kOutput, log_decay, n)) return;
  ws_.kernels.exp(log_decay, n, ws_.decay.data() + row * n);
}

void DeltaNet::tap_part(std::string_view name, const std::vector<float>& rows, size_t stride,
                        size_t begin, size_t n) const {
  if (!ws_.tap) return;
  for (size_t row = 0; row < ws_.batch.size(); ++row)
    if (!ws_.batch.failed(row))
      ws_.tap(name, place_.index, ws_.batch.row(row).original,
              {rows.data() + row * stride + begin, n});
}

void DeltaNet::find_taps(size_t row, const float** taps) const {
  const Batch::Row& at = ws_.batch.row(row);
  const std::span<const uint32_t> rows = ws_.batch.rows_of(at.sequence_index);
  const size_t back = hp_.conv_kernel - 1;
  for (size_t tap = 0; tap <= back; ++tap)
    taps[tap] =
        at.index + tap >= back
            ? qkv_row(rows[at.index + tap - back])
            : at.sequence->conv_row(place_.kind_index, static_cast<int64_t>(at.position + tap) -
                                                           static_cast<int64_t>(back));
}

void DeltaNet::convolve() {
  const size_t n_rows = ws_.batch.size();
  const size_t n_heads = 2 * hp_.n_key_heads + hp_.n_value_heads;
  const size_t heads_per_task = std::max<size_t>(kChannelsPerTask / dim_, 1);
  const size_t tasks_per_row = (n_heads + heads_per_task - 1) / heads_per_task;
  auto convolve_heads = [&](size_t index, size_t) {
    const size_t row = index / tasks_per_row;
    if (ws_.batch.failed(row)) return;
    const size_t begin = index % tasks_per_row * heads_per_task;
    const size_t end = std::min(begin + heads_per_task, n_heads);
    std::array<const float*, kTapsMax> taps;
    find_taps(row, taps.data());
    for (size_t tap = 0; tap < hp_.conv_kernel; ++tap) taps[tap] += begin * dim_;
    ws_.kernels.conv_silu(taps.data(), hp_.conv_kernel,
                          tensors_.conv.data + begin * dim_ * hp_.conv_kernel, (end - begin) * dim_,
                          conv_row(row) + begin * dim_);
    for (size_t head = begin; head < std::min<size_t>(end, 2 * hp_.n_key_heads); ++head)
      ws_.kernels.l2_norm(conv_row(row) + head * dim_, dim_, hp_.rms_eps,
                          qk_row(row) + head * dim_);
  };
  ws_.pool.run(n_rows * tasks_per_row, std::ref(convolve_heads));

  ws_.tap_rows("conv_output_silu", place_.index, ws_.conv.data(), channels_, n_rows);
  tap_part("q_conv_predelta", ws_.qk_normed, 2 * key_width_, 0, key_width_);
  tap_part("k_conv_predelta", ws_.qk_normed, 2 * key_width_, key_width_, key_width_);
  tap_part("v_conv_predelta", ws_.conv, channels_, 2 * key_width_, value_width_);
}

void DeltaNet::recur(size_t sequence, size_t value_head, size_t n_out) {
  std::span<const uint32_t> rows = ws_.batch.rows_of(sequence);
  // What comes after a failed row would continue from nothing.
  rows = rows.first(static_cast<size_t>(
      std::find_if(rows.begin(), rows.end(), [&](uint32_t row) { return ws_.batch.failed(row); }) -
      rows.begin()));
  float* state = ws_.batch.sequence(sequence).delta_state(place_.kind_index, value_head);
  const size_t key_head = key_head_of(value_head);
  for (size_t column = 0; column < dim_; column += kColumnsPerPass) {
    const size_t n_columns = std::min(kColumnsPerPass, dim_ - column);
    for (uint32_t row : rows) {
      const size_t gate = size_t{row} * hp_.n_value_heads + value_head;
      const size_t value = value_head * dim_ + column;
      ws_.kernels.delta_step(state + column * dim_, qk_row(row) + key_head * dim_,
                             qk_row(row) + key_width_ + key_head * dim_,
                             conv_row(row) + 2 * key_width_ + value, ws_.decay[gate],
                             ws_.beta[gate], scale_, dim_, n_columns,
                             ws_.delta_out.data() + row * value_width_ + value);
    }
  }
  for (uint32_t row : rows) {
    if (row >= n_out) continue;
    const size_t value = row * value_width_ + value_head * dim_;
    float* result = ws_.delta_result.row(row) + value_head * dim_;
    ws_.kernels.rms_norm(ws_.delta_out.data() + value, tensors_.norm.data, dim_, hp_.rms_eps,
                         result);
    ws_.kernels.silu_mul(ws_.z.data() + value, result, dim_, result);
  }
}

void DeltaNet::keep_window(size_t sequence, size_t begin, size_t end) {
  const std::span<const uint32_t> rows = ws_.batch.rows_of(sequence);
  for (uint32_t row : rows.last(std::min<size_t>(rows.size(), hp_.conv_kernel - 1)))
    std::copy(qkv_row(row) + begin, qkv_row(row) + end,
              ws_.batch.sequence(sequence).conv_row(
                  place_.kind_index, static_cast<int64_t>(ws_.batch.row(row).position)) +
                  begin);
}

void DeltaNet::run(size_t n_out) {
  project(n_out);
  convolve();

  // The convolution is done with the windows, so each task also renews its share of them.
  const size_t n_heads = hp_.n_value_heads;
  auto recur_head = [&](size_t index, size_t) {
    const size_t sequence = index / n_heads, head = index % n_heads;
    keep_window(sequence, channels_ * head / n_heads, channels_ * (head + 1) / n_heads);
    recur(sequence, head, n_out);
  };
  ws_.pool.run(ws_.batch.n_sequences() * n_heads, std::ref(recur_head));
  ws_.tap_rows("attn_output", place_.index, ws_.delta_out.data(), value_width_, n_out);

  ws_.for_rows(n_out, [&](size_t row) {
    ws_.quantise(row, ws_.delta_result, FormatSet{tensors_.out.type}, tensors_.out.name,
                 Operand::kInput);
  });
  ws_.tap_rows("final_output", place_.index, ws_.delta_result.values.data(), value_width_, n_out);
  ws_.add_mat_mul(tensors_.out, ws_.delta_result, n_out, ws_.mixer_out.data());
  ws_.run_mat_muls();
  ws_.tap_rows("linear_attn_out", place_.index, ws_.mixer_out.data(), hp_.n_embd, n_out);
}

}  // namespace

FormatSet delta_net_formats(const model::DeltaTensors& tensors) {
  return FormatSet{tensors.qkv.type, tensors.z.type, tensors.alpha.type, tensors.beta.type};
}

void mix_by_delta_net(Workspace& ws, const LayerPlace& place, size_t n_out) {
  DeltaNet(ws, place).run(n_out);
}

}  // namespace kvasir::engine
