// What a run under faults has shown, whether that is what was to be shown, and the two as text.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chaos/schedule.h"
#include "swarm/status.h"

namespace kvasir::chaos {

// What was asked for.
struct FaultPlan {
  FaultRates rates;
  double corrupt = 0;  // share of the messages
  double lie = 0;      // share of one worker's tickets
  bool reorder = false;
  bool has(Fault fault) const;
};

struct Requirements {
  FaultPlan plan;
  std::string verify = "sampled";  // as the backbone was told
  double share_min = 0.4;          // of the expert rows, from workers
  uint64_t kills_min = 20, stalls_min = 20, corrupted_min = 100;
};

// What happened.
struct Findings {
  std::string mode;  // for people: workers, replicas, encoding, ...
  uint64_t seed = 0, tokens = 0;
  uint64_t workers = 0;
  bool same_text = false;
  std::string hash_alone, hash_swarm;  // of the logits; empty: there was none
  std::string backbone_end;            // empty: exit code 0
  std::array<uint64_t, kFaults> faults{};
  uint64_t messages = 0, corrupted = 0;
  std::vector<std::string> crashes;    // of workers that nobody killed
  uint64_t exits = 0;                  // of workers that had to be started again after a refusal
  std::vector<std::string> liar_keys;  // hex digits, the first of each key
  std::optional<swarm::SwarmStatus> status;
  std::vector<double> recoveries_s;  // from a kill, stall or cut to the next token
  double seconds = 0, pace = 0;      // of the tokens, and tokens per second they were paced to
};

double share_of_workers(const swarm::SwarmStatus& status);
// The value that a share `q` of the values does not exceed; 0 without values.
double quantile(std::vector<double> values, double q);

// What does not hold, each a sentence; empty: everything does.
std::vector<std::string> objections(const Findings& findings, const Requirements& requirements);

std::string certificate_text(const Findings& findings, const Requirements& requirements);
std::string certificate_json(const Findings& findings, const Requirements& requirements);

}  // namespace kvasir::chaos
