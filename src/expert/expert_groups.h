// A request sorted by expert: what each one has to do, and what became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "expert/expert_function.h"
#include "expert/expert_service.h"

namespace kvasir::expert {

// The pairs of one expert: begin..end of ExpertGroups::pairs().
struct ExpertGroup {
  uint16_t expert = 0;
  size_t begin = 0, end = 0;
  std::optional<Error> error;  // the expert could not be had: none of its pairs was computed
};

// One thread; reuse one object, it keeps its memory.
class ExpertGroups {
 public:
  // kInvalid for a layer or an expert that is not there. `out` as in ExpertService::compute().
  Result<void> sort(const ExpertRequest& request, std::span<const LayerExperts> layers, float* out);

  // In ascending order of experts, which is that of the pairs.
  std::span<ExpertGroup> groups() { return groups_; }
  std::span<ExpertPair> pairs() { return pairs_; }
  std::span<ExpertPair> pairs_of(const ExpertGroup& group) {
    return pairs().subspan(group.begin, group.end - group.begin);
  }

  // Once everything has been computed: fills failed rows with zeros and lists them.
  std::vector<RowFailure> finish(const ExpertRequest& request, size_t n_embd, float* out);

 private:
  std::vector<size_t> first_pair_;  // of each expert of the layer
  std::vector<size_t> pair_of_;     // [n_rows][top_k]: where a row's pair went
  std::vector<uint32_t> group_of_;  // by pair
  std::vector<ExpertPair> pairs_;
  std::vector<ExpertGroup> groups_;
};

}  // namespace kvasir::expert
