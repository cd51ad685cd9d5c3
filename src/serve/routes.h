// What each route does with an admitted request. Internal to this module; the loop's thread only.
#pragma once

#include <memory>

#include "serve/server_state.h"
#include "serve/visit.h"

namespace kvasir::serve {

void handle(ServerState& state, const std::shared_ptr<Visit>& visit);

// GET /v1/swarm: once, or as events whenever it changes.
void answer_swarm_state(ServerState& state, const std::shared_ptr<Visit>& visit);

}  // namespace kvasir::serve
