// The dispatcher: who computes which expert of a call, what happens when answers are late, lost or
// wrong, and what is known of every worker. A state machine without I/O: events of connections and
// calls come in, frames and steps come out; clock and chance are given. The same object runs under
// real and under virtual time. One thread at a time: guarded by whoever owns it.
//
// A call: start(); then step() until it says kDone, doing what it says, with computed() after each
// computation; then finish(). Outputs are written to CallInput::out by step(), on the caller's
// thread. Every call ends, whatever workers do: all of it can be computed here.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "swarm/call.h"
#include "swarm/coverage.h"
#include "swarm/governor.h"
#include "swarm/hedge_budget.h"
#include "swarm/latency_model.h"
#include "wire/coverage_messages.h"
#include "wire/jitter.h"

namespace kvasir::swarm {

enum class DispatchMode : uint8_t {
  kAuto,    // ship what is faster shipped
  kAlways,  // ship whatever a worker holds
};

struct DispatchOptions {
  DispatchMode mode = DispatchMode::kAuto;
  expert::OutputEncoding encoding = expert::OutputEncoding::kF32;
  VerifyPolicy verify;
  // The first answers of an identity that are verified before use whatever `verify` says.
  // Beyond these, the first answer of every expert: a damaged slice is found out at its first use.
  // 0: neither.
  uint32_t probation_tickets = 16;
  HashKey secret;     // of audits; random in production
  uint64_t seed = 0;  // of the choice among replicas
};

// What is remembered of a worker's key over its logins.
struct Identity {
  wire::Key key{};
  bool convicted = false;
  uint64_t trusted_tickets = 0;  // verified and right
  // Experts (layer, index) of which an answer was verified and right.
  std::set<std::pair<uint16_t, uint16_t>> proven;
  WorkerCounts counts;
  std::map<UnitKey, UnitCounts> units;
  std::set<uint64_t> owners;  // that used unverified answers of it
  bool owners_lost = false;   // too many to remember: all are in doubt
  uint32_t logins = 0;        // connected now
};

class Dispatcher {
 public:
  // `kernels` outlives this.
  Dispatcher(ModelRoutes routes, const kernels::KernelTable& kernels, DispatchOptions options);
  ~Dispatcher();

  // --- Connections ------------------------------------------------------------------------------
  // A text to refuse a worker with; nothing: welcome.
  std::optional<std::string> objection(const wire::Key& key) const;
  WorkerId join(WorkerInfo info, TimeUs now);
  // Units of the model only; others are counted and ignored.
  void on_ready(WorkerId worker, std::span<const wire::LeasedUnit> units, TimeUs now);
  void on_drain(WorkerId worker, std::span<const wire::LeasedUnit> units, TimeUs now);
  // kCorrupt if the answer breaks the protocol: the worker is to be disconnected.
  Result<void> on_result(WorkerId worker, uint64_t ticket, ByteSpan body, TimeUs now);
  void on_busy(WorkerId worker, uint64_t ticket, const wire::Busy& busy, TimeUs now);
  void on_failed(WorkerId worker, uint64_t ticket, const wire::Failed& failed, TimeUs now);
  // The session did not take the frame.
  void on_unsent(WorkerId worker, uint64_t ticket, TimeUs now);
  void leave(WorkerId worker, TimeUs now);

  // Frames to send, oldest first. Those to workers that have left are to be dropped.
  std::vector<Outgoing> take_outgoing();
  // Frames to send, or workers to disconnect.
  bool has_news() const { return !outgoing_.empty() || !convicted_.empty(); }
  // Workers that were convicted since the last call: to be disconnected. Evidence is kept until
  // taken, at most kEvidenceMax pieces.
  std::vector<WorkerId> take_convicted();
  std::vector<Evidence> take_evidence();
  static constexpr size_t kEvidenceMax = 16;

  // --- Calls ------------------------------------------------------------------------------------
  // What input points to stays as it is until step() says kDone; ids are valid.
  std::unique_ptr<Call> start(const CallInput& input, TimeUs now);
  Step step(Call& call, TimeUs now);
  // After a kCompute step. `failures` as from ExpertService::compute().
  void computed(Call& call, std::vector<expert::RowFailure> failures, TimeUs now);
  // After kDone. Failed rows are zero. Failures at most one per row, ascending. Needs no lock: with
  // kDone the dispatcher has forgotten the call.
  static std::vector<expert::RowFailure> finish(std::unique_ptr<Call> call,
                                                CallRecord* record = nullptr);
  // Whether something happened to the call since its last step: for waking who waits.
  static bool is_wakeup_due(const Call& call) { return call.is_wakeup_due_; }
  // Whether that is so for any call, since this was asked last.
  bool take_wakeup() { return std::exchange(wakeup_due_, false); }

  // Sequences (the row owners of requests) that used an answer of a worker which was convicted
  // later; kEveryOwner stands for all of them.
  static constexpr uint64_t kEveryOwner = expert::ExpertService::kEveryOwner;
  std::vector<uint64_t> take_doubted();
  // The sequence has ended.
  void forget(uint64_t owner);

  // Whether the whole layer would be shipped now.
  bool ships_whole_layer(uint32_t layer) const;
  const Coverage& coverage() const { return coverage_; }
  SwarmStatus status(TimeUs now) const;

 private:
  struct OpenTicket {
    Call* call = nullptr;
    size_t index = 0;
  };
  // A ticket that nobody waits for any more; its answer is compared all the same.
  struct SettledTicket {
    TimeUs expires_at = 0, sent_at = 0;
    Digest digest{};
    bool has_digest = false;
    uint16_t n_pairs = 0;
    size_t pairs_ahead = 0;
    uint16_t layer = 0;
  };
  struct Worker {
    WorkerInfo info;
    Identity* identity = nullptr;
    LatencyModel latency;
    TimeUs joined_at = 0, heard_at = 0;
    bool draining = false, suspect = false;
    TimeUs next_probe_at = 0, probe_wait = 0;
    size_t open_pairs = 0;
    uint16_t queue_depth = 0;
    uint64_t last_ticket = 0;
    uint64_t experts = 0;
    double rows_per_s = 0;
    TimeUs rate_since = 0;
    uint64_t rate_rows = 0;
    std::unordered_map<uint64_t, OpenTicket> open;
    std::map<uint64_t, SettledTicket> settled;
  };
  struct Group {
    uint16_t expert = 0;
    std::span<const PairIndex> pairs;  // ascending
    double cost_us = 0;
    WorkerId worker = 0;  // 0: here
    bool hole = true;     // no fit holder
  };

  Worker* find(WorkerId worker);
  bool is_fit(const Worker& worker, uint32_t layer) const;
  TimeUs probe_due_at(const Worker& worker) const;

  // Planning.
  std::vector<Group> group_pairs(Call& call);
  void choose_always(const Call& call, std::vector<Group>& groups);
  void choose_auto(Call& call, std::vector<Group>& groups);
  using Assigned = std::map<WorkerId, size_t>;  // pairs that a plan gives to a worker
  // The better of two fit holders chosen by chance; 0 if there is none.
  WorkerId choose_holder(uint32_t layer, uint16_t expert, size_t pairs, const Assigned& assigned,
                         WorkerId except = 0);
  void add_probes(Call& call, const std::vector<Group>& groups, TimeUs now);
  void issue(Call& call, WorkerId worker, std::vector<PairIndex> pairs, Call::TicketKind kind,
             TimeUs fill_at, TimeUs now);
  void issue_one(Call& call, Worker& worker, WorkerId id, std::vector<PairIndex> pairs,
                 Call::TicketKind kind, TimeUs fill_at, TimeUs now);
  // Whether the identity has yet to show that it can be trusted with these pairs.
  bool is_on_probation(const Call& call, const Identity& identity,
                       const std::vector<PairIndex>& pairs) const;
  // The most rows of one COMPUTE for this worker and layer.
  size_t rows_per_ticket(const Worker& worker, size_t row_bytes) const;

  // Tickets of calls that are under way.
  void settle(Call& call, size_t index, Why why, TimeUs now);
  void end_open(Call& call, const Call::Ticket& ticket);
  Call::Ticket* find_ticket(Worker& worker, uint64_t number, Call** call, size_t* index);
  Result<void> on_late_result(Worker& worker, uint64_t ticket, ByteSpan body, TimeUs now);
  void absorb(Call& call, TimeUs now);
  void end(Call& call, TimeUs now);
  // False if the answer has to wait until its pairs have been computed here.
  bool use_answer(Call& call, size_t index, TimeUs now);
  void judge_disputes(Call& call, TimeUs now);
  void check_deadlines(Call& call, TimeUs now);
  void hedge(Call& call, size_t index, TimeUs now);
  void need(Call& call, PairIndex pair, Why why);
  void wake(Call& call) { call.is_wakeup_due_ = wakeup_due_ = true; }
  void convict(Identity& identity, Evidence evidence, TimeUs now);
  void close_ticket(Call& call, Call::Ticket& ticket, TimeUs now);
  void count_used(Call& call);
  void doubt(Identity& identity);
  void heard(Worker& worker, TimeUs now);
  Identity& identity(const wire::Key& key);
  void forget_identities();
  float* output(Call& call, PairIndex pair) const {
    return call.input_.out + size_t{pair} * routes_.n_embd;
  }
  uint16_t expert_of(const Call& call, PairIndex pair) const {
    return call.input_.request.ids[pair];
  }
  size_t row_of(const Call& call, PairIndex pair) const { return pair / call.input_.request.top_k; }

  const ModelRoutes routes_;
  const kernels::KernelTable& kernels_;
  const DispatchOptions options_;
  const wire::ResultEncoding encoding_;
  const size_t pairs_per_ticket_;
  AuditSampler sampler_;
  Coverage coverage_;
  Governor governor_;
  LocalCost local_cost_;
  HedgeBudget hedge_budget_;
  wire::Jitter chance_;

  bool wakeup_due_ = false;
  WorkerId last_worker_ = 0;
  std::map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::map<wire::Key, Identity> identities_;
  std::set<Call*> calls_;
  std::vector<Outgoing> outgoing_;
  std::vector<WorkerId> convicted_;
  std::deque<Evidence> evidence_;
  std::vector<uint64_t> doubted_;

  std::array<uint64_t, kWhys> pairs_used_{};
  TicketCounts tickets_;
  uint64_t calls_counted_ = 0, hedges_ = 0, probes_ = 0;
  uint64_t audits_ = 0, free_audits_ = 0, wrong_answers_ = 0, dispute_count_ = 0;
  uint64_t unknown_answers_ = 0;

  TimeUs next_probe_at_ = 0;  // not before this does any worker need one
  std::vector<float> scratch_row_;

  // Reused by start().
  std::vector<PairIndex> sorted_pairs_;
  std::vector<size_t> first_of_expert_;
};

}  // namespace kvasir::swarm
