// An expert service that passes every request on to another one and counts what was asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expert/expert_service.h"
#include "measure/traffic.h"

namespace kvasir::measure {

// One caller at a time, as the service behind it.
class CountingExperts final : public expert::ExpertService {
 public:
  // `inner` outlives this.
  CountingExperts(expert::ExpertService& inner, size_t n_layers, size_t n_experts)
      : inner_(inner), use_(n_layers), wanted_(n_experts) {}

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override;

  // [n_layers], since the last clear().
  std::span<const ExpertUse> use() const { return use_; }
  void clear() { use_.assign(use_.size(), {}); }

 private:
  expert::ExpertService& inner_;
  std::vector<ExpertUse> use_;
  std::vector<uint8_t> wanted_;  // [n_experts], zero between requests
};

}  // namespace kvasir::measure
