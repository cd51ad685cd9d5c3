#include "engine/sequence.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace kvasir::engine {
namespace {

size_t bytes_of(kernels::KvType type) {
  return type == kernels::KvType::kF16 ? 2 : 4;
}

size_t pages_for(size_t positions) {
  return (positions + kPagePositions - 1) / kPagePositions;
}

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Sequence::Sequence(const model::HyperParameters& hp, kernels::KvType kv_type, size_t context)
    : hp_(hp),
      id_(next_id()),
      kv_type_(kv_type),
      context_(context),
      kv_row_bytes_(hp.head_dim * bytes_of(kv_type)),
      recurrent_(hp.state_bytes_per_sequence() / sizeof(float)) {
  if (hp.n_delta_layers() != 0) delta_layer_floats_ = recurrent_.size() / hp.n_delta_layers();
  if (hp.n_attention_layers() != 0) pages_.reserve(pages_for(context));
}

uint64_t Sequence::bytes(const model::HyperParameters& hp, kernels::KvType kv_type,
                         size_t context) {
  return uint64_t{pages_for(context)} * kPagePositions *
             hp.kv_bytes_per_token(static_cast<uint32_t>(bytes_of(kv_type))) +
         hp.state_bytes_per_sequence();
}

size_t Sequence::page_bytes() const {
  return size_t{hp_.n_attention_layers()} * hp_.n_kv_heads * 2 * kPagePositions * kv_row_bytes_;
}

Result<void> Sequence::reserve(size_t count) {
  if (count > context_ - position_)
    return Error::limit("the context of {} tokens is full: {} are taken, {} more were given",
                        context_, position_, count)
        .with_hint("use a larger --ctx, or a shorter prompt");
  if (hp_.n_attention_layers() == 0) return {};
  const size_t pages = pages_for(position_ + count);
  while (pages_.size() < pages) {
    // Not cleared: a position is always written before it is read.
    std::byte* page = new (std::nothrow) std::byte[page_bytes()];
    if (page == nullptr)
      return Error::limit("no memory for {} more bytes of keys and values", page_bytes())
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

template <typename Visit>
void Sequence::for_packed(size_t positions, const Visit& visit) const {
  // A page is a row of halves, 256 keys or 256 values each.
  const size_t n = positions * kv_row_bytes_;
  const size_t halves = size_t{hp_.n_attention_layers()} * hp_.n_kv_heads * 2;
  for (size_t half = 0; half < halves; ++half)
    visit(half * kPagePositions * kv_row_bytes_, half * n, n);
}

size_t Sequence::snapshot_bytes() const {
  return page_bytes() / kPagePositions * (position_ % kPagePositions) +
         recurrent_.size() * sizeof(float);
}

std::shared_ptr<const SequenceSnapshot> Sequence::snapshot() const {
  KVASIR_CHECK(!failure_);
  try {
    auto snapshot = std::make_shared<SequenceSnapshot>();
    snapshot->kv_type = kv_type_;
    snapshot->position = position_;
    snapshot->recurrent = recurrent_;
    snapshot->lineage = lineage_;
    if (hp_.n_attention_layers() == 0) return snapshot;
    const auto full = static_cast<ptrdiff_t>(position_ / kPagePositions);
    snapshot->page_bytes = page_bytes();
    snapshot->pages.assign(pages_.begin(), pages_.begin() + full);
    const size_t rest = position_ % kPagePositions;
    snapshot->tail.resize(page_bytes() / kPagePositions * rest);
    if (rest != 0) {
      const std::byte* page = pages_[static_cast<size_t>(full)].get();
      for_packed(rest, [&](size_t in_page, size_t packed, size_t n) {
        std::memcpy(snapshot->tail.data() + packed, page + in_page, n);
      });
    }
    return snapshot;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Result<void> Sequence::restore(const SequenceSnapshot& snapshot, size_t length) {
  KVASIR_CHECK(position_ == 0 && pages_.empty() && !failure_);
  KVASIR_CHECK(snapshot.kv_type == kv_type_ && snapshot.recurrent.size() == recurrent_.size());
  KVASIR_CHECK(length == snapshot.position || (length < snapshot.position && recurrent_.empty()));
  if (length > context_)
    return Error::limit("a context of {} tokens is too short to go on after {}", context_, length);
  std::copy(snapshot.recurrent.begin(), snapshot.recurrent.end(), recurrent_.begin());
  if (hp_.n_attention_layers() != 0) {
    const size_t full = length / kPagePositions, rest = length % kPagePositions;
    // Whole pages are only read from here on: reserve() makes new ones behind them.
    for (size_t page = 0; page < full; ++page)
      pages_.push_back(std::const_pointer_cast<std::byte[]>(snapshot.pages[page]));
    position_ = full * kPagePositions;
    KVASIR_TRY_VOID(reserve(rest));
    if (rest != 0) {
      // Out of the packed end, or out of a page that goes further.
      const bool is_packed = full == snapshot.pages.size();
      const std::byte* from = is_packed ? snapshot.tail.data() : snapshot.pages[full].get();
      const size_t packed_positions = is_packed ? snapshot.position % kPagePositions : 0;
      const size_t stride = (is_packed ? packed_positions : kPagePositions) * kv_row_bytes_;
      std::byte* to = pages_[full].get();
      for_packed(rest, [&](size_t in_page, size_t packed, size_t n) {
        std::memcpy(to + in_page, from + packed / n * stride, n);
      });
    }
  }
  position_ = length;
  return {};
}

}  // namespace kvasir::engine
