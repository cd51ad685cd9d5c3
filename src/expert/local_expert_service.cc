#include "expert/local_expert_service.h"

#include <utility>

namespace kvasir::expert {

LocalExpertService::LocalExpertService(std::vector<LayerExperts> layers,
                                       const kernels::KernelTable& kernels, ThreadPool& pool)
    : layers_(std::move(layers)), function_(kernels, pool) {}
LocalExpertService::~LocalExpertService() = default;

Result<std::vector<RowFailure>> LocalExpertService::compute(const ExpertRequest& request,
                                                            float* out) {
  KVASIR_TRY_VOID(groups_.sort(request, layers_, out));
  const LayerExperts& layer = layers_[request.layer];
  jobs_.clear();
  for (const ExpertGroup& group : groups_.groups())
    jobs_.push_back({layer.expert(group.expert), group.begin, group.end});
  function_.compute(request.rows, request.n_rows, jobs_, groups_.pairs(), request.encoding);
  return groups_.finish(request, layer.first.gate.n_in, out);
}

}  // namespace kvasir::expert
