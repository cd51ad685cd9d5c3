// The pure function of an expert: y = down . (silu(gate . x) * (up . x)), rule 9 of
// docs/arithmetic.md. Backbone and workers run this very code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "expert/encoding.h"
#include "expert/mat_mul.h"
#include "kernels/kernels.h"

namespace kvasir::expert {

struct ExpertView {
  MatrixView gate, up, down;
};

// Where a layer's experts lie: expert e's matrix starts at matrix.data + e * stride.
struct LayerExperts {
  ExpertView first;  // of expert 0
  size_t gate_stride = 0, up_stride = 0, down_stride = 0;
  uint32_t n_experts = 0;

  ExpertView expert(uint32_t index) const;
};

// Which stage of an expert produced a value that is not finite. An input row that cannot be
// quantised counts as kGate, kHidden is the input of the down projection.
enum class ExpertStage : uint8_t { kGate, kUp, kHidden, kDown };
std::string_view stage_name(ExpertStage stage);  // "gate", "up", "hidden", "down"

// One row for one expert. out: [n_embd], written completely, with zeros if the pair failed.
struct ExpertPair {
  uint32_t row = 0;
  float* out = nullptr;
  std::optional<ExpertStage> failure;  // a result
};

// Everything that one expert has to do: pairs begin..end.
struct ExpertJob {
  ExpertView expert;
  size_t begin = 0, end = 0;
};

// Rows that experts are applied to: [n_rows][kernels::activation_row_bytes(format, n_embd)].
struct InputRows {
  kernels::ActivationFormat format = kernels::ActivationFormat::kF32;
  const std::byte* data = nullptr;  // aligned to 4 bytes
  size_t count = 0;
};

// The format that a row may be brought into before it travels to this expert, because gate and up
// both want it. Nothing if they want different ones: such rows travel as f32.
std::optional<kernels::ActivationFormat> travel_format(const ExpertView& expert);

// One caller at a time (it uses the whole thread pool). Scratch memory grows to what the largest
// call needed and is reused.
class ExpertFunction {
 public:
  // Both outlive this.
  ExpertFunction(const kernels::KernelTable& kernels, ThreadPool& pool);
  ~ExpertFunction();

  // rows: [n_rows][n_embd], finite. All experts have the same shapes and types, as those of one
  // layer have. The jobs cover `pairs` in order, without gaps. A pair's output has been through
  // `encoding`; a pair that fails leaves the others alone.
  void compute(const float* rows, size_t n_rows, std::span<const ExpertJob> jobs,
               std::span<ExpertPair> pairs, OutputEncoding encoding);
  // The same for rows in either f32 or the travel_format() of these experts, in which they are used
  // as they are. The results do not depend on who quantised a row.
  void compute(const InputRows& rows, std::span<const ExpertJob> jobs, std::span<ExpertPair> pairs,
               OutputEncoding encoding);

  // Memory that compute() holds on to after a call with this many rows and pairs, for experts like
  // `expert`; some bookkeeping of a few bytes per pair is left out.
  static size_t scratch_bytes(const ExpertView& expert, size_t n_rows, size_t n_pairs);

 private:
  struct Scratch;

  void quantise(const InputRows& rows);
  void gather(const InputRows& rows, std::span<const ExpertPair> pairs);
  void compute_gate_and_up(const InputRows& rows, std::span<const ExpertJob> jobs,
                           std::span<ExpertPair> pairs);
  void compute_hidden(std::span<ExpertPair> pairs);
  void compute_down(std::span<const ExpertJob> jobs, std::span<ExpertPair> pairs);
  void finish(std::span<ExpertPair> pairs, OutputEncoding encoding);

  const kernels::KernelTable& kernels_;
  ThreadPool& pool_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace kvasir::expert
