// The experts' block of a layer: router, routed experts through the expert service, shared expert,
// combination (rules 8, 9 and 11 of docs/arithmetic.md). Internal to the engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/workspace.h"
#include "expert/expert_service.h"

namespace kvasir::engine {

// Which formats of ws.normed add_experts() reads. The expert service does its own quantising.
FormatSet moe_formats(const model::Layer& layer);

// Reads ws.normed and adds the experts' outputs to ws.x, for the first n_rows rows.
void add_experts(Workspace& ws, const LayerPlace& place, expert::ExpertService& experts,
                 size_t n_rows);

// The k largest of p[0..n), descending, equal ones by lower id: ids[k], and their weights
// p_r / max(their sum in this order, 2^-14).
void choose_experts(const float* p, size_t n, size_t k, uint16_t* ids, float* weights);

}  // namespace kvasir::engine
