// What the engine remembers of one sequence: keys and values of attention layers, windows and
// matrices of delta-net layers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/lineage.h"
#include "kernels/kernels.h"
#include "model/hyper_parameters.h"

namespace kvasir::engine {

// Positions per page: the block of attention rule 6, so that a page is summed as one block.
inline constexpr size_t kPagePositions = 256;

// What a sequence was at one position, to go on from there with another one. Never changes, so it
// may be shared between threads.
//
// Whole pages are shared with the sequence, not copied: positions only go up, so nobody writes to a
// page once all its positions are taken. The page that is still being filled is copied, packed to
// the positions it has; and so is the recurrent state, every value of which changes with each
// token.
struct SequenceSnapshot {
  kernels::KvType kv_type = kernels::KvType::kF16;
  size_t position = 0;
  size_t page_bytes = 0;                                  // of each of `pages`
  std::vector<std::shared_ptr<const std::byte[]>> pages;  // full ones
  std::vector<std::byte> tail;             // the rest, [layer][kv head][keys, values][positions]
  std::vector<float> recurrent;            // empty if the model has no delta-net
  std::shared_ptr<const Lineage> lineage;  // of the sequence; null: nobody asked

  // What is in no page.
  size_t own_bytes() const { return tail.size() + recurrent.size() * sizeof(float); }
};

// One thread at a time, but for cancel(). Memory for keys and values grows page by page up to the
// context.
class Sequence {
 public:
  Sequence(const model::HyperParameters& hp, kernels::KvType kv_type, size_t context);

  // What one sequence may come to need: keys and values of its whole context, recurrent state.
  static uint64_t bytes(const model::HyperParameters& hp, kernels::KvType kv_type, size_t context);

  // No other sequence of this process has or had it.
  uint64_t id() const { return id_; }
  size_t context() const { return context_; }
  size_t position() const { return position_; }  // of the next token
  kernels::KvType kv_type() const { return kv_type_; }
  // Set when a computation failed; the sequence then takes no more tokens.
  const std::optional<Error>& failure() const { return failure_; }

  // From any thread: whatever is being computed for this sequence ends at the next layer, as if it
  // had failed, and it takes no more tokens. There is no way back.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // What it rests on, handed on to snapshots. Null: nobody asks.
  void set_lineage(std::shared_ptr<const Lineage> lineage) { lineage_ = std::move(lineage); }
  const std::shared_ptr<const Lineage>& lineage() const { return lineage_; }

  // Nothing if the memory is not there. The sequence has not failed and is not being computed.
  std::shared_ptr<const SequenceSnapshot> snapshot() const;
  // What snapshot() would copy, pages that it shares not counted.
  size_t snapshot_bytes() const;
  // Makes a new sequence stand where the snapshot was taken; its next token then gets the bits that
  // it would have got there. Without delta-net layers, `length` may also be a shorter prefix.
  // kLimit if the context is shorter or the memory is not there; then the sequence is of no use.
  Result<void> restore(const SequenceSnapshot& snapshot, size_t length);

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
  size_t page_bytes() const;
  // Calls visit(bytes of page, bytes of the packed copy, n bytes) for all that a page holds of its
  // first `positions`.
  template <typename Visit>
  void for_packed(size_t positions, const Visit& visit) const;

  const model::HyperParameters& hp_;
  const uint64_t id_;
  std::atomic<bool> cancelled_{false};
  kernels::KvType kv_type_;
  size_t context_;
  size_t position_ = 0;
  std::optional<Error> failure_;
  size_t kv_row_bytes_;
  size_t delta_layer_floats_ = 0;                    // window and matrices of one layer
  std::vector<std::shared_ptr<std::byte[]>> pages_;  // one per kPagePositions, all layers
  std::vector<float> recurrent_;
  std::shared_ptr<const Lineage> lineage_;
};

}  // namespace kvasir::engine
