// The expert service of a backbone with workers: what the dispatcher sends away is computed there,
// the rest, and whatever does not come back in time, here.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/thread_pool.h"
#include "expert/expert_function.h"
#include "expert/expert_service.h"
#include "swarm/shared_dispatcher.h"

namespace kvasir::swarm {

// Who may compute on this machine. Several threads may compute in turns: one that waits for workers
// gives its turn away meanwhile.
struct TurnHooks {
  std::function<void()> give, take;  // both or none
};

// What a model's experts look like to the dispatcher.
ModelRoutes make_routes(std::span<const expert::LayerExperts> layers, uint32_t group_size);

// Any number of threads, if each holds the turn (see TurnHooks) while it calls; without hooks one
// caller at a time.
class SwarmExpertService final : public expert::ExpertService {
 public:
  // All outlive this. `local` can compute every expert.
  SwarmExpertService(ModelRoutes routes, SharedDispatcher& dispatcher, expert::ExpertService& local,
                     const kernels::KernelTable& kernels, ThreadPool& pool, TurnHooks turn = {});
  ~SwarmExpertService() override;

  Result<std::vector<expert::RowFailure>> compute(const expert::ExpertRequest& request,
                                                  float* out) override;
  bool is_at_hand(uint32_t layer, uint16_t expert) const override;
  bool wants_guess(uint32_t layer) const override;
  void guess(uint32_t layer, std::span<const uint16_t> ids, size_t top_k) override;
  std::vector<uint64_t> take_doubted() override;
  void forget(uint64_t owner) override;

  // Records of calls, oldest first; kept only while tracing, and no more than kRecordsMax.
  static constexpr size_t kRecordsMax = 16'384;
  void set_tracing(bool on);
  std::vector<CallRecord> take_records();

 private:
  struct Scratch;

  std::unique_ptr<Scratch> take_scratch();
  // Rows of the request as they travel.
  void pack_rows(const expert::ExpertRequest& request, Scratch& scratch);

  const ModelRoutes routes_;
  SharedDispatcher& dispatcher_;
  expert::ExpertService& local_;
  const kernels::KernelTable& kernels_;
  ThreadPool& pool_;
  const TurnHooks turn_;

  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Scratch>> scratches_;
  bool is_tracing_ = false;
  std::vector<CallRecord> records_;
};

}  // namespace kvasir::swarm
