// Expert service of one machine: computes every expert here, from weights in memory.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "expert/expert_function.h"
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
  Result<void> check(const ExpertRequest& request) const;
  // Sorts the request's (row, expert) pairs by expert into pairs_ and jobs_.
  void group_by_expert(const ExpertRequest& request, float* out);

  std::vector<LayerExperts> layers_;
  ExpertFunction function_;
  std::vector<size_t> first_pair_;  // of each expert of the layer
  std::vector<size_t> pair_of_;     // [n_rows][top_k]: where a row's pair went
  std::vector<ExpertPair> pairs_;
  std::vector<ExpertJob> jobs_;
};

}  // namespace kvasir::expert
