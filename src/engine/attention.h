// The mixer of full-attention layers (rules 5 and 6 of docs/arithmetic.md). Internal to the engine.
#pragma once

#include <cstddef>

#include "engine/workspace.h"

namespace kvasir::engine {

// Which formats of ws.normed mix_by_attention() reads.
FormatSet attention_formats(const model::AttentionTensors& tensors);

// Reads ws.normed; appends keys and values of every row of the batch to the sequences' caches;
// writes ws.mixer_out for the first n_out rows.
void mix_by_attention(Workspace& ws, const LayerPlace& place, size_t n_out);

// Fills ws.rope_cos and ws.rope_sin for the positions of the batch.
void fill_rope_tables(Workspace& ws);

// What AttentionScratch grows to for sequences of this context.
size_t attention_scratch_bytes(const model::HyperParameters& hp, size_t threads, size_t rows_max,
                               size_t context);

}  // namespace kvasir::engine
