#include "measure/counting_experts.h"

#include <algorithm>

namespace kvasir::measure {

Result<std::vector<expert::RowFailure>> CountingExperts::compute(
    const expert::ExpertRequest& request, float* out) {
  // What is out of range is for the service behind this one to refuse.
  if (request.layer < use_.size()) {
    ExpertUse& use = use_[request.layer];
    const std::span ids(request.ids, request.n_rows * request.top_k);
    use.pairs += ids.size();
    for (uint16_t id : ids) {
      if (id >= wanted_.size() || wanted_[id] != 0) continue;
      wanted_[id] = 1;
      ++use.distinct;
    }
    std::fill(wanted_.begin(), wanted_.end(), uint8_t{0});
  }
  return inner_.compute(request, out);
}

}  // namespace kvasir::measure
