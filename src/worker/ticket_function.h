// The arithmetic of one ticket: rows as they came, experts held here, outputs as they leave. Knows
// nothing of queues, time and connections.
#pragma once

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "expert/expert_function.h"
#include "expert/held_experts.h"
#include "wire/work_messages.h"

namespace kvasir::worker {

// What of a ticket cannot be computed here; `pair` as in FAILED.
struct TicketProblem {
  wire::FailReason reason = wire::FailReason::kInternal;
  uint16_t pair = wire::Failed::kNoPair;
};

// One caller at a time (it uses the whole thread pool). Keeps its memory.
class TicketFunction {
 public:
  // All outlive this.
  TicketFunction(const kernels::KernelTable& kernels, ThreadPool& pool,
                 const expert::HeldExperts& held);

  // Whether the experts are held here and take rows of this format.
  std::optional<TicketProblem> check(const wire::Compute& compute) const;

  // Fills `outputs` with [n_pairs][wire::row_bytes(encoding, n_embd)], in the order of the request,
  // unless there is a problem. check() found none.
  std::optional<TicketProblem> run(const wire::Compute& compute, std::vector<std::byte>& outputs);

 private:
  void take_rows(const wire::Compute& compute);
  void sort_pairs(const wire::Compute& compute);
  std::optional<TicketProblem> encode_pairs(const wire::Compute& compute,
                                            std::vector<std::byte>& outputs);

  const kernels::KernelTable& kernels_;
  const expert::HeldExperts& held_;
  expert::ExpertFunction function_;

  std::vector<std::byte> rows_;   // as the kernels take them
  std::vector<uint32_t> row_of_;  // [n_pairs], of the request
  std::vector<uint16_t> order_;   // pairs of the request by expert
  std::vector<expert::ExpertPair> pairs_;
  std::vector<expert::ExpertJob> jobs_;
  std::vector<float> values_;  // [n_pairs][n_embd], in the order of the request
  std::vector<float> decoded_;
};

}  // namespace kvasir::worker
