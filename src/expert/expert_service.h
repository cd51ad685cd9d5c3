// The seam between a monolith and a swarm: "for these rows, these experts". The engine cannot tell
// who computes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "expert/encoding.h"

namespace kvasir::expert {

// In a request: this place is somebody else's. Nothing is computed, and `out` is left as it is.
inline constexpr uint16_t kNoExpert = 0xFFFF;

struct ExpertRequest {
  uint32_t layer = 0;
  // [n_rows][n_embd] f32, the normed rows that the router saw; finite.
  const float* rows = nullptr;
  size_t n_rows = 0;
  // [n_rows][top_k] expert indices within the layer, in rank order, without repetition in a row;
  // or kNoExpert.
  const uint16_t* ids = nullptr;
  size_t top_k = 0;
  OutputEncoding encoding = OutputEncoding::kF32;
  // [n_rows] which sequence (its id, unique in this process) a row belongs to; may be null. Changes
  // no result: it tells whose answers were made with what came back.
  const uint64_t* row_owner = nullptr;
  // The rest of the request before: the same rows of the same layer, other experts.
  bool goes_on = false;
};

// One row that could not be computed (kNonFinite names layer, expert and matrix). Other rows are
// not affected.
struct RowFailure {
  size_t row = 0;
  Error error;
};

class ExpertService {
 public:
  virtual ~ExpertService() = default;
  // out: [n_rows][top_k][n_embd] f32, already through the output encoding; written completely but
  // for kNoExpert, failed rows with zeros. An Error means that nothing was computed. At most one
  // failure per row, in ascending row order.
  virtual Result<std::vector<RowFailure>> compute(const ExpertRequest& request, float* out) = 0;

  // Whether computing this expert would read no disk. Between calls of compute().
  virtual bool is_at_hand(uint32_t layer, uint16_t expert) const {
    (void)layer;
    (void)expert;
    return true;
  }

  // Sequences (row_owner) whose rows may be wrong, because what answered for their experts turned
  // out to be false: since the last call. They have to be computed again from their beginning.
  // kEveryOwner stands for all.
  static constexpr uint64_t kEveryOwner = UINT64_MAX;
  virtual std::vector<uint64_t> take_doubted() { return {}; }
  // A sequence has ended.
  virtual void forget(uint64_t owner) { (void)owner; }

  // Whether a guess at what layer `layer` will be asked for is worth making.
  virtual bool wants_guess(uint32_t layer) const {
    (void)layer;
    return false;
  }
  // What the request for that layer, which comes next but one, is likely to hold: any number of
  // rows of top_k expert indices, likeliest first. A wrong guess costs time, and never changes a
  // result. Must be valid indices.
  virtual void guess(uint32_t layer, std::span<const uint16_t> ids, size_t top_k) {
    (void)layer;
    (void)ids;
    (void)top_k;
  }
};

}  // namespace kvasir::expert
