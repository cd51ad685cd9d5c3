// What can be seen of a swarm from outside: a snapshot, and the record of one call.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "swarm/governor.h"
#include "swarm/types.h"

namespace kvasir::swarm {

// Why a pair was computed where it was. The first two are remote, the others local.
enum class Why : uint8_t {
  kRemote,    // by the worker that was asked first
  kHedge,     // by the one that was asked because the first was late
  kPlanned,   // local: faster here, or a probe's
  kHole,      // nobody (fit) holds the expert
  kDeadline,  // the answer was late
  kRefused,   // BUSY or FAILED, or the worker took nothing more
  kLost,      // the connection ended
  kAudit,     // a wrong answer had to be replaced
};
inline constexpr size_t kWhys = 8;
std::string_view why_name(Why why);  // "remote", "hedge", "planned", ...
inline bool is_remote(Why why) {
  return why == Why::kRemote || why == Why::kHedge;
}

// How tickets ended. Issued = results + local fills + cancelled + open.
struct TicketCounts {
  uint64_t issued = 0;
  uint64_t results = 0;      // answered, and used or compared
  uint64_t local_fills = 0;  // busy, failed, lost or late: computed here
  uint64_t cancelled = 0;    // no longer needed
  uint64_t open = 0;
};

// Counted per worker identity.
struct WorkerCounts {
  uint64_t tickets = 0, answers = 0, late = 0, busy = 0, failed = 0, lost = 0, deadlines = 0;
  uint64_t rows_used = 0, bytes_in = 0, bytes_out = 0;
  uint64_t compute_us = 0;
  uint64_t audited = 0, audited_free = 0, wrong = 0;
};
// What an identity computed of one unit, as far as it was used.
struct UnitCounts {
  uint64_t rows = 0, bytes = 0;
};
using UnitKey = std::pair<uint16_t, uint16_t>;  // layer, group of experts

struct WorkerStatus {
  WorkerId id = 0;
  std::string key;  // 64 hex digits
  std::string address, build;
  uint64_t connected_s = 0;
  uint64_t experts = 0;
  uint32_t memory_mib = 0;
  bool draining = false, suspect = false;
  uint64_t open_tickets = 0, open_pairs = 0, queue_depth = 0;
  uint64_t settled_tickets = 0;  // that nobody waits for; an answer would be compared
  uint64_t latency_p50_us = 0, latency_p99_us = 0;
  double way_us = 0, pair_us = 0;
  double rows_per_s = 0;  // over its last seconds of work
  WorkerCounts counts;
  std::map<UnitKey, UnitCounts> units;
};

struct SwarmStatus {
  std::string mode;  // "auto", "always"
  double verify_share = 0;
  Governor::View governor;
  std::vector<WorkerStatus> workers;  // connected
  uint64_t known_identities = 0, quarantined = 0;
  std::vector<std::string> quarantined_keys;
  std::array<uint64_t, kWhys> pairs{};  // (row, expert) pairs used, by why
  TicketCounts tickets;
  uint64_t calls = 0, hedges = 0, probes = 0;
  uint64_t audits = 0, free_audits = 0, wrong_answers = 0, disputes = 0;
  uint64_t unknown_answers = 0;
  // Replicas of each unit: [layer][group].
  std::vector<std::vector<uint16_t>> replicas;
  // [layer][group]: the connected workers (ids) that hold the unit whole.
  std::vector<std::vector<std::vector<WorkerId>>> holders;
};

// One call of the expert service: one layer of one micro-batch.
struct CallRecord {
  uint32_t layer = 0;
  uint32_t rows = 0, pairs = 0;
  uint32_t pairs_remote = 0;
  uint32_t tickets = 0, hedges = 0;
  std::array<uint32_t, kWhys> why{};
  uint64_t started_us = 0;  // of the steady clock
  uint64_t total_us = 0, local_us = 0, wait_us = 0;
  // The last answer that was waited for.
  WorkerId slowest = 0;
  uint64_t slowest_us = 0, slowest_compute_us = 0;
};

}  // namespace kvasir::swarm
