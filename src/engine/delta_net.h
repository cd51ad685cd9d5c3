// The mixer of gated delta-net layers (rule 7 of docs/arithmetic.md). Internal to the engine.
#pragma once

#include <cstddef>

#include "engine/workspace.h"

namespace kvasir::engine {

// Which formats of ws.normed mix_by_delta_net() reads.
FormatSet delta_net_formats(const model::DeltaTensors& tensors);

// Reads ws.normed; moves the sequences' windows and matrices past every row of the batch; writes
// ws.mixer_out for the first n_out rows.
void mix_by_delta_net(Workspace& ws, const LayerPlace& place, size_t n_out);

}  // namespace kvasir::engine
