#include "expert/local_expert_service.h"

#include <algorithm>
#include <utility>

namespace kvasir::expert {
namespace {

// "blk.3.ffn_down_exps.weight: expert 17: output is not finite", for the place where it happened.
Error failure_error(uint32_t layer, uint16_t expert, ExpertStage stage) {
  const bool is_input = stage == ExpertStage::kHidden;
  const std::string_view matrix = is_input ? stage_name(ExpertStage::kDown) : stage_name(stage);
  return Error::non_finite("blk.{}.ffn_{}_exps.weight: expert {}: {} is not finite", layer, matrix,
                           expert, is_input ? "input" : "output");
}

}  // namespace

LocalExpertService::LocalExpertService(std::vector<LayerExperts> layers,
                                       const kernels::KernelTable& kernels, ThreadPool& pool)
    : layers_(std::move(layers)), function_(kernels, pool) {}
LocalExpertService::~LocalExpertService() = default;

Result<std::vector<RowFailure>> LocalExpertService::compute(const ExpertRequest& request,
                                                            float* out) {
  KVASIR_TRY_VOID(check(request));
  group_by_expert(request, out);
  function_.compute(request.rows, request.n_rows, jobs_, pairs_, request.encoding);

  std::vector<RowFailure> failures;
  const size_t n_embd = layers_[request.layer].first.gate.n_in;
  for (size_t row = 0; row < request.n_rows; ++row) {
    for (size_t rank = 0; rank < request.top_k; ++rank) {
      const size_t index = row * request.top_k + rank;
      const auto& failure = pairs_[pair_of_[index]].failure;
      if (!failure) continue;
      failures.push_back({row, failure_error(request.layer, request.ids[index], *failure)});
      std::fill_n(out + row * request.top_k * n_embd, request.top_k * n_embd, 0.0F);
      break;
    }
  }
  return failures;
}

Result<void> LocalExpertService::check(const ExpertRequest& request) const {
  if (request.layer >= layers_.size())
    return Error::invalid("layer {} of a model with {} layers", request.layer, layers_.size());
  const uint32_t n_experts = layers_[request.layer].n_experts;
  for (size_t i = 0; i < request.n_rows * request.top_k; ++i)
    if (request.ids[i] >= n_experts)
      return Error::invalid("expert {} of layer {}, which has {} experts", request.ids[i],
                            request.layer, n_experts);
  return {};
}

void LocalExpertService::group_by_expert(const ExpertRequest& request, float* out) {
  const LayerExperts& layer = layers_[request.layer];
  const size_t n_embd = layer.first.gate.n_in;
  const size_t n_pairs = request.n_rows * request.top_k;

  first_pair_.assign(layer.n_experts + 1, 0);
  for (size_t i = 0; i < n_pairs; ++i) ++first_pair_[request.ids[i] + 1U];
  jobs_.clear();
  for (uint32_t expert = 0; expert < layer.n_experts; ++expert) {
    const size_t begin = first_pair_[expert];
    const size_t end = begin + first_pair_[expert + 1];
    first_pair_[expert + 1] = end;
    if (end > begin) jobs_.push_back({layer.expert(expert), begin, end});
  }
  pairs_.resize(n_pairs);
  pair_of_.resize(n_pairs);
  for (size_t i = 0; i < n_pairs; ++i) {
    const size_t pair = first_pair_[request.ids[i]]++;
    pairs_[pair] = {static_cast<uint32_t>(i / request.top_k), out + i * n_embd, std::nullopt};
    pair_of_[i] = pair;
  }
}

}  // namespace kvasir::expert
