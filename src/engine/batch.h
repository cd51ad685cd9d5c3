// The rows of one forward() call: who they belong to, where they stand, and which have failed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace kvasir::engine {

// Rows have an order of their own inside the forward pass: those that want logits first (in the
// caller's order), then the others. What only logits need is then computed for a prefix.
//
// A row fails when a value of it is not finite. It is then skipped by every later step, together
// with all later rows of its sequence, and whatever is in its buffers never leaves them. Rows of
// other sequences, and earlier ones of its own, go on. One thread, except where noted.
class Batch {
 public:
  struct Row {
    Sequence* sequence = nullptr;
    size_t position = 0;  // in its sequence
    int32_t token = 0;
    size_t original = 0;        // index in the caller's order
    size_t sequence_index = 0;  // among the sequences of the batch
    size_t index = 0;           // among the rows of the sequence
  };

  // Checks everything that can be checked before computing, and makes room in the sequences'
  // caches. The limits are the engine's; an Error leaves the sequences as they were.
  Result<void> start(std::span<const engine::Row> rows, size_t rows_max, uint32_t n_vocab,
                     kernels::KvType kv_type);

  size_t size() const { return rows_.size(); }
  size_t n_logits() const { return n_logits_; }
  const Row& row(size_t row) const { return rows_[row]; }

  size_t n_sequences() const { return sequences_.size(); }
  Sequence& sequence(size_t index) { return *sequences_[index].sequence; }
  // The rows of a sequence in ascending position.
  std::span<const uint32_t> rows_of(size_t index) const { return sequences_[index].rows; }

  bool failed(size_t row) const { return failed_[row] != 0; }
  // Thread-safe for different rows. Only the first error of a row counts.
  void fail(size_t row, Error error);
  void fail_all(const Error& error);
  // Fails what comes after a failed row in its sequence. To be called between two steps.
  void spread_failures();
  // Fails the rows of sequences that were cancelled. To be called between two layers. Returns
  // whether there is anything left to compute.
  bool drop_cancelled();

  // Moves the sequences to their new positions, or marks them failed and lists them.
  std::vector<SequenceFailure> finish();

 private:
  struct SequenceRows {
    Sequence* sequence = nullptr;
    std::vector<uint32_t> rows;
  };

  std::vector<Row> rows_;
  std::vector<SequenceRows> sequences_;
  size_t n_logits_ = 0;
  std::vector<uint8_t> failed_;
  std::vector<std::optional<Error>> errors_;
  std::atomic<bool> any_new_failure_{false};
};

}  // namespace kvasir::engine
