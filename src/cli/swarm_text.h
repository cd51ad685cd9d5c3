// The status of a swarm and the trace of a step, for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "swarm/status.h"

namespace kvasir::cli {

std::string status_text(const swarm::SwarmStatus& status);
// Layers x groups of experts: how many workers hold each.
std::string coverage_map(const swarm::SwarmStatus& status);

// A line of a trace (backbone.h writes it).
struct TraceStep {
  uint64_t step = 0;
  uint64_t rows = 0;
  uint64_t total_us = 0;
  std::vector<swarm::CallRecord> calls;
};
Result<TraceStep> parse_trace_step(std::string_view line);
// Where its time went, layer by layer, and a sentence about that.
std::string step_text(const TraceStep& step);
std::string verdict(const TraceStep& step);

}  // namespace kvasir::cli
