// What a call of the forward pass has to read and write, and what it multiplies: counted from the
// model's shapes and the router's choices, not estimated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"
#include "model/model.h"

namespace kvasir::measure {

// What the router of one layer chose in one call.
struct ExpertUse {
  uint64_t distinct = 0;  // experts that at least one row wanted: their weights are read
  uint64_t pairs = 0;     // (row, expert) pairs: what is computed
};

// Bytes that have to come from, or go to, beyond the caches, at least once. Activations are left
// out: they are small and used at once.
struct Traffic {
  uint64_t dense = 0;    // weights of everything but the routed experts, once per call
  uint64_t experts = 0;  // weights of the distinct experts
  uint64_t caches = 0;   // keys, values and recurrent state, read and written
  // Multiplications and additions of the mat-muls, counted separately.
  uint64_t operations = 0;

  uint64_t bytes() const { return dense + experts + caches; }
  Traffic& operator+=(const Traffic& other);
};

// One forward() call over `n_rows` rows of `n_sequences` sequences; n_logits of the rows want
// logits. Every sequence stands at `position` after the call.
struct CallShape {
  size_t n_rows = 0;
  size_t n_logits = 0;
  size_t n_sequences = 0;
  size_t position = 0;
};

// experts: [n_layers].
Traffic call_traffic(const model::Model& model, kernels::KvType kv_type, const CallShape& shape,
                     std::span<const ExpertUse> experts);

}  // namespace kvasir::measure
