// Softmax attention of query heads over the caches (rule 6 of docs/arithmetic.md). Internal to the
// engine.
#pragma once

#include <cstddef>

#include "engine/workspace.h"

namespace kvasir::engine {

// For the first n_rows rows of the batch: ws.attended = attention of ws.q over all positions up to
// the row's own, of attention layer `attention_layer`. A head whose scores are not finite becomes
// NaN, which the next check finds.
void attend(Workspace& ws, size_t attention_layer, size_t n_rows);

}  // namespace kvasir::engine
