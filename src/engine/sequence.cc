#include "engine/sequence.h"

#include <algorithm>
#include <new>
#include <utility>

namespace kvasir::engine {
namespace {

size_t bytes_of(kernels::KvType type) {
  return type == kernels::KvType::kF16 ? 2 : 4;
}

}  // namespace

Sequence::Sequence(const model::HyperParameters& hp, kernels::KvType kv_type, size_t context)
    : hp_(hp),
      kv_type_(kv_type),
      context_(context),
      kv_row_bytes_(hp.head_dim * bytes_of(kv_type)),
      recurrent_(hp.state_bytes_per_sequence() / sizeof(float)) {
  if (hp.n_delta_layers() != 0) delta_layer_floats_ = recurrent_.size() / hp.n_delta_layers();
  if (hp.n_attention_layers() != 0) pages_.reserve((context + kPagePositions - 1) / kPagePositions);
}

Result<void> Sequence::reserve(size_t count) {
  if (count > context_ - position_)
    return Error::limit("the context of {} tokens is full: {} are taken, {} more were given",
                        context_, position_, count)
        .with_hint("use a larger --ctx, or a shorter prompt");
  if (hp_.n_attention_layers() == 0) return {};
  const size_t page_bytes =
      size_t{hp_.n_attention_layers()} * hp_.n_kv_heads * 2 * kPagePositions * kv_row_bytes_;
  const size_t pages = (position_ + count + kPagePositions - 1) / kPagePositions;
  while (pages_.size() < pages) {
    // Not cleared: a position is always written before it is read.
    std::byte* page = new (std::nothrow) std::byte[page_bytes];
    if (page == nullptr)
      return Error::limit("no memory for {} more bytes of keys and values", page_bytes)
          .with_hint("use a smaller --ctx, or --kv-type f16");
    pages_.emplace_back(page);
  }
  return {};
}

void Sequence::fail(Error error) {
  failure_ = std::move(error);
}

// A page holds, per attention layer and kv head, 256 keys and then 256 values.
std::byte* Sequence::key_page(size_t attention_layer, size_t kv_head, size_t page) {
  const size_t half = kPagePositions * kv_row_bytes_;
  return pages_[page].get() + (attention_layer * hp_.n_kv_heads + kv_head) * 2 * half;
}

std::byte* Sequence::value_page(size_t attention_layer, size_t kv_head, size_t page) {
  return key_page(attention_layer, kv_head, page) + kPagePositions * kv_row_bytes_;
}

// Per delta-net layer: the window, a ring of rows, then the matrices.
float* Sequence::conv_row(size_t delta_layer, int64_t position) {
  const int64_t rows = hp_.conv_kernel - 1;
  const int64_t slot = (position + rows) % rows;
  return recurrent_.data() + delta_layer * delta_layer_floats_ +
         static_cast<size_t>(slot) * hp_.conv_channels();
}

float* Sequence::delta_state(size_t delta_layer, size_t value_head) {
  const size_t window = size_t{hp_.conv_kernel - 1} * hp_.conv_channels();
  return recurrent_.data() + delta_layer * delta_layer_floats_ + window +
         value_head * hp_.delta_head_dim * hp_.delta_head_dim;
}

}  // namespace kvasir::engine
