// What the engine remembers of one sequence: keys and values of attention layers, windows and
// matrices of delta-net layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/kernels.h"
#include "model/hyper_parameters.h"

namespace kvasir::engine {

// Positions per page: the block of attention rule 6, so that a page is summed as one block.
inline constexpr size_t kPagePositions = 256;

// One thread at a time. Memory for keys and values grows page by page up to the context.
class Sequence {
 public:
  Sequence(const model::HyperParameters& hp, kernels::KvType kv_type, size_t context);

  size_t context() const { return context_; }
  size_t position() const { return position_; }  // of the next token
  kernels::KvType kv_type() const { return kv_type_; }
  // Set when a computation failed; the sequence then takes no more tokens.
  const std::optional<Error>& failure() const { return failure_; }

  // For the forward pass. -----------------------------------------------------------------------
  // Makes room for `count` more positions; kLimit, with both numbers, beyond the context.
  Result<void> reserve(size_t count);
  void advance(size_t count) { position_ += count; }
  void fail(Error error);

  size_t kv_row_bytes() const { return kv_row_bytes_; }  // head_dim values
  // The page of `kPagePositions` rows of one kv head of one attention layer (counted among
  // attention layers only).
  std::byte* key_page(size_t attention_layer, size_t kv_head, size_t page);
  std::byte* value_page(size_t attention_layer, size_t kv_head, size_t page);
  // [channels]: the raw qkv row, before the convolution, of one of the newest conv_kernel - 1
  // positions; zeros for negative positions.
  float* conv_row(size_t delta_layer, int64_t position);
  // [n_value_heads][head_dim value columns][head_dim keys].
  float* delta_state(size_t delta_layer, size_t value_head);

 private:
  const model::HyperParameters& hp_;
  kernels::KvType kv_type_;
  size_t context_;
  size_t position_ = 0;
  std::optional<Error> failure_;
  size_t kv_row_bytes_;
  size_t delta_layer_floats_ = 0;                    // window and matrices of one layer
  std::vector<std::unique_ptr<std::byte[]>> pages_;  // one per kPagePositions, all layers
  std::vector<float> recurrent_;
};

}  // namespace kvasir::engine
