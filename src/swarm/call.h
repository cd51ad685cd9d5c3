// One call of the expert service on its way through the swarm: which pair is where. Owned by who
// computes; only the dispatcher looks inside, under the lock that guards both.
#pragma once

#include <span>
#include <vector>

#include "expert/expert_service.h"
#include "swarm/audit.h"
#include "swarm/local_cost.h"
#include "swarm/status.h"

namespace kvasir::swarm {

struct Identity;

// What the dispatcher needs to know about a call beyond the request.
struct CallInput {
  expert::ExpertRequest request;
  float* out = nullptr;  // [n_rows][top_k][n_embd]
  // [n_rows][row_bytes]: the rows as they travel; rows that cannot be quantised are not sendable.
  ByteSpan wire_rows;
  size_t row_bytes = 0;
  std::span<const uint8_t> sendable;  // [n_rows]
  // [n_experts of the layer]: whether computing it here needs no disk.
  std::span<const uint8_t> at_hand;
};

// What to do next for a call.
struct Step {
  enum class Kind : uint8_t {
    kCompute,  // `ids` here, into `out`; then Dispatcher::computed()
    kWait,     // until something arrives, or `until`
    kDone,     // Dispatcher::finish()
  };
  Kind kind = Kind::kDone;
  TimeUs until = kNeverUs;
  std::span<const uint16_t> ids;  // [n_rows][top_k], kNoExpert for what is not to be computed
};

class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  friend class Dispatcher;

  enum class PairState : uint8_t { kAway, kNeeded, kDone };
  struct Pair {
    PairState state = PairState::kNeeded;
    Why why = Why::kPlanned;
    uint16_t open = 0;  // tickets that are waited for; nobody waits for a probe
    bool verified = false;
    uint32_t source = 0;  // 1 + the ticket whose answer `out` holds; 0: computed here
  };
  enum class TicketKind : uint8_t { kFirst, kHedge, kProbe };
  // kArrived: with an answer that was not looked at yet. kGivenUp: nobody waits, an answer may
  // come.
  enum class TicketState : uint8_t { kOpen, kArrived, kGivenUp, kEnded };
  struct Ticket {
    WorkerId worker = 0;
    Identity* identity = nullptr;
    uint64_t number = 0;
    TicketKind kind = TicketKind::kFirst;
    TicketState state = TicketState::kOpen;
    bool verify = false;  // computed here, too, before its answer counts
    bool hedged = false;
    std::vector<PairIndex> pairs;  // ascending: the order of the answer
    size_t pairs_ahead = 0;
    TimeUs sent_at = 0, hedge_at = kNeverUs, fill_at = kNeverUs;
    std::vector<std::byte> compute;  // kept for evidence, if `verify`
    std::vector<std::byte> outputs;  // of RESULT, checked
    uint32_t compute_us = 0;
  };
  // Two workers gave different answers, of which at most one is right.
  struct Dispute {
    PairIndex pair = 0;
    size_t ticket = 0;
    std::vector<float> output;
  };

  CallInput input_;
  std::vector<Pair> pairs_;
  size_t n_away_ = 0, n_needed_ = 0;
  std::vector<Ticket> tickets_;
  std::vector<Dispute> disputes_;
  std::vector<uint8_t> row_failed_;
  std::vector<uint16_t> ids_;  // of the step under way
  std::vector<expert::RowFailure> failures_;
  bool shipped_ = false;  // the governor's choice was to ship
  double alone_us_ = 0;   // what computing all of it here would have taken
  LocalWork work_;        // of the step under way
  TimeUs computing_since_ = 0;
  bool is_wakeup_due_ = false;
  bool has_ended_ = false;
  CallRecord record_;
};

}  // namespace kvasir::swarm
