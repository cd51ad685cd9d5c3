// A whole swarm in one thread and under a clock of its own: the dispatcher, sessions at both ends
// and workers' cores are those of production; what is made up is the path between them, how long
// computing takes, and who computes for whom. One seed is one run, always the same.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>

#include "expert/activation_rows.h"
#include "expert/local_expert_service.h"
#include "swarm/dispatcher.h"
#include "virtual_time.h"
#include "wire/rows.h"
#include "wire/test_session.h"
#include "worker/test_experts.h"
#include "worker/worker_core.h"

namespace kvasir::testing {

struct WorkerPlan {
  std::vector<gguf::UnitId> units;
  PathFaults faults;
  TimeUs pair_us = 200;
  worker::Mischief mischief;
  TimeUs cut_every_us = 0;    // the connection ends, on average so often; 0: never
  TimeUs stall_every_us = 0;  // the worker stands still for a while
  TimeUs stall_us = 0;
  bool drains_once = false;
};

class VirtualSwarm;

// Both ends of one connection, and the worker behind it.
class VirtualWorker {
 public:
  VirtualWorker(VirtualSwarm& swarm, uint8_t node, WorkerPlan plan);
  void dial();
  void send(swarm::Outgoing frame);
  void expel(wire::CloseCode code);
  void flush_backbone();

  const uint8_t node;
  const WorkerPlan plan;
  swarm::WorkerId id = 0;  // while the backbone knows it
  uint64_t lies = 0;

 private:
  void deliver_to_backbone(std::vector<std::byte> message);
  void deliver_to_worker(std::vector<std::byte> message);
  void on_backbone_events(wire::SessionEvents events);
  Result<void> on_backbone_frame(const wire::FrameArrived& frame);
  void on_worker_events(wire::SessionEvents events);
  void flush_worker();
  void work(TimeUs took);
  void plan_timer();
  void pump();
  // The connection is gone for both.
  void cut();
  void leave();
  // Dropped with the connection.
  std::function<void()> guarded(std::function<void()> what) const;

  VirtualSwarm& swarm_;
  expert::HeldExperts held_;
  worker::TicketFunction function_;
  std::shared_ptr<int> connection_;  // one per connection
  std::unique_ptr<VirtualPath> up_, down_;
  std::unique_ptr<wire::ServerSession> server_;
  std::unique_ptr<wire::ClientSession> client_;
  std::optional<worker::WorkerCore> core_;
  std::optional<worker::OutgoingFrame> unsent_;
  std::deque<swarm::Outgoing> waiting_;
  TimeUs planned_ = UINT64_MAX;
  TimeUs stands_still_until_ = 0;
  // What the core sees: the beginning of a ticket, then its end.
  TimeUs core_clock_us_ = 0, core_clock_end_us_ = 0;
  bool works_ = false, has_drained_ = false;
};

struct VirtualOptions {
  uint64_t seed = 0;
  swarm::DispatchOptions dispatch;
  std::vector<WorkerPlan> workers;
  TimeUs local_pair_us = 100;
};

// One request on its way.
struct VirtualCall {
  uint32_t layer = 0;
  size_t top_k = 1;
  std::vector<float> rows;
  std::vector<uint16_t> ids;
  std::vector<uint64_t> owners;
  std::function<void(VirtualCall&)> on_done;

  std::vector<float> out;
  std::vector<expert::RowFailure> failures;
  swarm::CallRecord record;
  bool is_done = false;

  // Internal.
  std::vector<std::byte> wire_rows;
  std::vector<uint8_t> sendable, at_hand;
  expert::ActivationRows packed;
  std::unique_ptr<swarm::Call> call;
  swarm::Step step;
  size_t steps = 0;
};

class VirtualSwarm {
 public:
  VirtualSwarm(const worker::TestExperts& experts, VirtualOptions options);

  VirtualClock clock;
  Chance chance;
  const worker::TestExperts& experts;
  const VirtualOptions options;
  const kernels::KernelTable& kernels;
  ThreadPool pool{1};
  expert::LocalExpertService local;
  swarm::Dispatcher dispatcher;
  std::vector<std::unique_ptr<VirtualWorker>> workers;
  std::set<uint8_t> convicted;  // nodes
  uint64_t evidence = 0;

  void start(VirtualCall& call);
  // What a machine alone gives.
  std::vector<float> truth(const VirtualCall& call, std::vector<expert::RowFailure>* failures);
  // Until `condition` holds; false if it did not within so much virtual time.
  template <typename Condition>
  bool run_until(TimeUs within_us, Condition condition) {
    const TimeUs end = clock.now() + within_us;
    while (!condition()) {
      if (clock.now() > end || !clock.step()) return false;
      pass_on();
    }
    return true;
  }
  expert::ExpertRequest request_of(const VirtualCall& call) const;

 private:
  // Frames that wait, convictions, and calls to which something happened.
  void pass_on();
  void take_step(VirtualCall& call);
  void pack_rows(VirtualCall& call);

  std::vector<VirtualCall*> waiting_;  // in the order in which they came
};

}  // namespace kvasir::testing
