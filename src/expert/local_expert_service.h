// Expert service of one machine: computes every expert here, from weights in memory.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "expert/expert_function.h"
#include "expert/expert_groups.h"
#include "expert/expert_service.h"

namespace kvasir::expert {

// One caller at a time (it uses the whole thread pool). Scratch memory grows to what the largest
// request needed and is reused.
class LocalExpertService final : public ExpertService {
 public:
  // layers[l]: the experts of layer l. `kernels` and `pool` outlive this.
  LocalExpertService(std::vector<LayerExperts> layers, const kernels::KernelTable& kernels,
                     ThreadPool& pool);
  ~LocalExpertService() override;

  Result<std::vector<RowFailure>> compute(const ExpertRequest& request, float* out) override;

 private:
  std::vector<LayerExperts> layers_;
  ExpertFunction function_;
  ExpertGroups groups_;
  std::vector<ExpertJob> jobs_;
};

}  // namespace kvasir::expert
