// The status of a swarm as JSON (docs/swarm.md), and back for those who show it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "swarm/status.h"

namespace kvasir::swarm {

std::string status_json(const SwarmStatus& status);
// What status_json() wrote, as far as kvasir status shows it; `text` is a stranger's.
Result<SwarmStatus> parse_status_json(std::string_view text);

// One line of a trace.
std::string record_json(const CallRecord& record);
Result<CallRecord> parse_record_json(std::string_view text);

}  // namespace kvasir::swarm
