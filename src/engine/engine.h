// The forward pass: token ids in, logits out. docs/forward-pass.md walks through it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/sequence.h"
#include "expert/expert_function.h"
#include "expert/expert_service.h"
#include "expert/stored_expert_service.h"
#include "kernels/kernels.h"
#include "model/model.h"

namespace kvasir::engine {

struct EngineOptions {
  kernels::KvType kv_type = kernels::KvType::kF16;
  expert::OutputEncoding encoding = expert::OutputEncoding::kF32;
  // Most rows of one forward() call. More rows share the reading of weights; scratch memory grows
  // with it.
  size_t rows_max = 128;
};

// One row of a batch: the next token of a sequence. Rows of the same sequence are consecutive
// positions in the order given.
struct Row {
  Sequence* sequence = nullptr;
  int32_t token = 0;
  bool wants_logits = false;
};

struct SequenceFailure {
  Sequence* sequence = nullptr;
  Error error;
};

// Intermediate values, for tests and diagnosis: name, layer (-1: none), row of the batch, values.
using Tap = std::function<void(std::string_view name, int layer, size_t row,
                               std::span<const float> values)>;

// One caller at a time. The bits of a row do not depend on the other rows, their number, the thread
// count or the instruction set.
class Engine {
 public:
  // All arguments outlive the engine.
  Engine(const model::Model& model, const kernels::KernelTable& kernels, ThreadPool& pool,
         expert::ExpertService& experts, EngineOptions options);
  ~Engine();

  const model::Model& model() const;
  const EngineOptions& options() const;
  expert::ExpertService& experts() const;

  Result<std::unique_ptr<Sequence>> new_sequence(size_t context) const;

  // Computes up to rows_max rows. logits: [rows that want logits][n_vocab], in row order. A row
  // that ends in a non-finite value fails its sequence (listed in the result; its logits are zeros)
  // and no other; the same goes for sequences that are cancelled meanwhile. An Error (a token out
  // of range, a full context, a failed sequence, too many rows) means that nothing was computed and
  // no sequence changed.
  Result<std::vector<SequenceFailure>> forward(std::span<const Row> rows, std::span<float> logits);

  void set_tap(Tap tap);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The experts of a bound model, as a local expert service wants them.
std::vector<expert::LayerExperts> local_experts(const model::Model& model);
// And as a store wants them, which reads them from the parts of the model's file.
std::vector<expert::StoredLayer> stored_experts(const model::Model& model);

}  // namespace kvasir::engine
