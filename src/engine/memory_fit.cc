#include "engine/memory_fit.h"

#include <algorithm>
#include <string>

#include "engine/attention.h"
#include "engine/workspace.h"

namespace kvasir::engine {
namespace {

// What nobody counts: rows of the token embedding, page tables, the program itself. Too small:
// the dense weights are pushed out of memory and read again, or the process is killed.
constexpr uint64_t kMarginBytes = uint64_t{24} << 20;
constexpr uint64_t kMarginPart = 32;

size_t value_bytes(kernels::KvType type) {
  return type == kernels::KvType::kF16 ? 2 : 4;
}

// "5,583,457,484 bytes (5.20 GiB)"
std::string bytes_text(uint64_t bytes) {
  const std::string digits = std::to_string(bytes);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return fmt::format("{} bytes ({:.2f} GiB)", grouped, static_cast<double>(bytes) / 0x1p30);
}

uint64_t scratch_bytes(const model::Model& model, const EngineOptions& options, size_t sequences,
                       size_t context) {
  // All buffers of a workspace have one row per row of a batch, so a workspace for one row tells.
  ThreadPool one_thread(1);
  EngineOptions one_row = options;
  one_row.rows_max = 1;
  const Workspace workspace(model, kernels::scalar(), one_thread, one_row);
  uint64_t bytes = workspace.allocated_bytes() * options.rows_max;
  bytes += attention_scratch_bytes(model.hp, default_thread_count(), options.rows_max, context);

  uint64_t experts = 0;
  for (const expert::LayerExperts& layer : local_experts(model))
    experts = std::max<uint64_t>(
        experts, expert::ExpertFunction::scratch_bytes(layer.first, options.rows_max,
                                                       options.rows_max * model.hp.n_experts_used));
  return bytes + experts + uint64_t{sequences} * model.hp.n_vocab * sizeof(float);
}

}  // namespace

MemoryNeed memory_need(const model::Model& model, const EngineOptions& options, size_t sequences,
                       size_t context) {
  MemoryNeed need;
  need.weights = model.file->tensor_bytes();
  const uint64_t pages = (context + kPagePositions - 1) / kPagePositions;
  need.kv_cache = sequences * pages * kPagePositions *
                  model.hp.kv_bytes_per_token(static_cast<uint32_t>(value_bytes(options.kv_type)));
  need.recurrent = sequences * model.hp.state_bytes_per_sequence();
  need.scratch = scratch_bytes(model, options, sequences, context);
  return need;
}

std::optional<uint64_t> automatic_store_bytes(const MemoryNeed& need, uint64_t dense_bytes,
                                              uint64_t store_min, uint64_t available) {
  const uint64_t margin = kMarginBytes + available / kMarginPart;
  const uint64_t rest = need.private_bytes() + margin;
  if (available < rest || need.weights <= available - rest) return std::nullopt;
  const uint64_t for_weights = available - rest;
  if (for_weights < dense_bytes || for_weights - dense_bytes < store_min) return std::nullopt;
  return for_weights - dense_bytes;
}

Result<void> check_fit(const MemoryNeed& need, uint64_t available, size_t context) {
  if (need.private_bytes() <= available) return {};
  Error error = Error::limit(
      "needs {} of memory for a context of {} tokens (keys and values {}, recurrent state {}, work "
      "space {}{}), have {}",
      bytes_text(need.private_bytes()), context, bytes_text(need.kv_cache),
      bytes_text(need.recurrent), bytes_text(need.scratch),
      need.experts == 0 ? "" : ", experts " + bytes_text(need.experts), bytes_text(available));
  if (need.experts != 0 && need.private_bytes() - need.experts <= available)
    return std::move(error).with_hint("use a smaller --expert-ram, or --expert-ram auto");
  const uint64_t fixed = need.recurrent + need.scratch;
  const uint64_t pages = (context + kPagePositions - 1) / kPagePositions;
  const uint64_t page_bytes = need.kv_cache / std::max<uint64_t>(pages, 1);
  const uint64_t pages_that_fit =
      available > fixed && page_bytes != 0 ? (available - fixed) / page_bytes : 0;
  if (pages_that_fit == 0)
    return std::move(error).with_hint(
        "free some memory, or use a smaller --chunk: not even a short context fits");
  return std::move(error).with_hint(fmt::format(
      "use --ctx {} or less, or --kv-type f16 where it was f32", pages_that_fit * kPagePositions));
}

}  // namespace kvasir::engine
