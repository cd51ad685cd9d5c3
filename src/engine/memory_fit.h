// Will it fit? Counts every byte a run needs before anything is loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "engine/engine.h"

namespace kvasir::engine {

struct MemoryNeed {
  uint64_t weights = 0;    // mapped file pages; the kernel may drop them under pressure
  uint64_t kv_cache = 0;   // all sequences at their full context
  uint64_t recurrent = 0;  // all sequences
  uint64_t scratch = 0;    // activations of rows_max rows, one row of logits per sequence
  uint64_t experts = 0;    // slots of an expert store; 0: experts are read through the map
  // What must stay in memory for the run to work at all; weights can be re-read from the file.
  uint64_t private_bytes() const { return kv_cache + recurrent + scratch + experts; }
};

MemoryNeed memory_need(const model::Model& model, const EngineOptions& options, size_t sequences,
                       size_t context);

// Bytes for an expert store so that everything fits: nothing if all weights fit as they are, or if
// the rest leaves less than `store_min`. `dense_bytes` are the weights that stay mapped.
std::optional<uint64_t> automatic_store_bytes(const MemoryNeed& need, uint64_t dense_bytes,
                                              uint64_t store_min, uint64_t available);

// Available memory: the smaller of MemAvailable and what the process's memory cgroup (v1 or v2) and
// those above it leave. `root` stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

// kLimit "needs X, have Y", with a hint what to change (a smaller --ctx, --kv-type f16), if the
// private bytes do not fit.
Result<void> check_fit(const MemoryNeed& need, uint64_t available, size_t context);

}  // namespace kvasir::engine
