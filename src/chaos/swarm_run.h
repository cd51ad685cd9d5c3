// A swarm of real processes on this machine, and what is done to it while it generates a text.
#pragma once

#include <string>
#include <vector>

#include "chaos/certificate.h"
#include "chaos/signal_watch.h"

namespace kvasir::chaos {

// A run of this program that nothing happens to: what it writes. kIo if it fails (with what it
// said), or if this one was told to stop.
Result<std::string> run_alone(SignalWatch& signals, const std::vector<std::string>& arguments);

struct SwarmSetup {
  // Of `kvasir`: a command that generates; without flags of the swarm.
  std::vector<std::string> backbone;
  std::string verify;  // as the backbone takes it
  // Of `kvasir worker`: what each of them holds.
  std::vector<std::vector<std::string>> workers;
  std::string folder;  // for keys and the report; exists
  FaultPlan plan;
  uint64_t seed = 0;
  uint64_t tokens = 0;
  uint64_t pace = 0;  // tokens per second
};

struct SwarmOutput {
  std::string out;    // the backbone's
  Findings findings;  // without what has to be compared
};

// Starts the swarm, disturbs it by the tokens that the backbone has computed, and ends it. Faults
// begin with the first token. What happened to the backbone is a finding; an error is what has
// nothing to do with faults, or that the program was told to stop.
Result<SwarmOutput> run_swarm(SignalWatch& signals, const SwarmSetup& setup);

}  // namespace kvasir::chaos
