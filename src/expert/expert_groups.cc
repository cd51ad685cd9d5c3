#include "expert/expert_groups.h"

#include <algorithm>

namespace kvasir::expert {
namespace {

// "blk.3.ffn_down_exps.weight: expert 17: output is not finite", for the place where it happened.
Error failure_error(uint32_t layer, uint16_t expert, ExpertStage stage) {
  const bool is_input = stage == ExpertStage::kHidden;
  const std::string_view matrix = is_input ? stage_name(ExpertStage::kDown) : stage_name(stage);
  return Error::non_finite("blk.{}.ffn_{}_exps.weight: expert {}: {} is not finite", layer, matrix,
                           expert, is_input ? "input" : "output");
}

Result<void> check(const ExpertRequest& request, std::span<const LayerExperts> layers) {
  if (request.layer >= layers.size())
    return Error::invalid("layer {} of a model with {} layers", request.layer, layers.size());
  const uint32_t n_experts = layers[request.layer].n_experts;
  for (size_t i = 0; i < request.n_rows * request.top_k; ++i)
    if (request.ids[i] >= n_experts && request.ids[i] != kNoExpert)
      return Error::invalid("expert {} of layer {}, which has {} experts", request.ids[i],
                            request.layer, n_experts);
  return {};
}

}  // namespace

Result<void> ExpertGroups::sort(const ExpertRequest& request, std::span<const LayerExperts> layers,
                                float* out) {
  KVASIR_TRY_VOID(check(request, layers));
  const LayerExperts& layer = layers[request.layer];
  const size_t n_embd = layer.first.gate.n_in;
  const size_t n_pairs = request.n_rows * request.top_k;

  first_pair_.assign(layer.n_experts + 1, 0);
  size_t n_wanted = 0;
  for (size_t i = 0; i < n_pairs; ++i) {
    if (request.ids[i] == kNoExpert) continue;
    ++first_pair_[request.ids[i] + 1U];
    ++n_wanted;
  }
  groups_.clear();
  group_of_.resize(n_wanted);
  for (uint32_t expert = 0; expert < layer.n_experts; ++expert) {
    const size_t begin = first_pair_[expert];
    const size_t end = begin + first_pair_[expert + 1];
    first_pair_[expert + 1] = end;
    if (end == begin) continue;
    for (size_t pair = begin; pair < end; ++pair)
      group_of_[pair] = static_cast<uint32_t>(groups_.size());
    groups_.push_back({static_cast<uint16_t>(expert), begin, end, std::nullopt});
  }
  pairs_.resize(n_wanted);
  pair_of_.resize(n_pairs);
  for (size_t i = 0; i < n_pairs; ++i) {
    if (request.ids[i] == kNoExpert) continue;
    const size_t pair = first_pair_[request.ids[i]]++;
    pairs_[pair] = {static_cast<uint32_t>(i / request.top_k), out + i * n_embd, std::nullopt};
    pair_of_[i] = pair;
  }
  return {};
}

std::vector<RowFailure> ExpertGroups::finish(const ExpertRequest& request, size_t n_embd,
                                             float* out) {
  std::vector<RowFailure> failures;
  for (size_t row = 0; row < request.n_rows; ++row) {
    for (size_t rank = 0; rank < request.top_k; ++rank) {
      const size_t index = row * request.top_k + rank;
      if (request.ids[index] == kNoExpert) continue;
      const size_t pair = pair_of_[index];
      const auto& error = groups_[group_of_[pair]].error;
      const auto& failure = pairs_[pair].failure;
      if (!error && !failure) continue;
      failures.push_back(
          {row, error ? *error : failure_error(request.layer, request.ids[index], *failure)});
      std::fill_n(out + row * request.top_k * n_embd, request.top_k * n_embd, 0.0F);
      break;
    }
  }
  return failures;
}

}  // namespace kvasir::expert
