// Random weights: valid blocks of every computable type whose values have a given spread.
// Deterministic, and any piece of a tensor can be made without the pieces before it.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "gguf/types.h"

namespace kvasir::model {

// Whether fill_random_weights knows the type.
bool can_fill(gguf::TensorType type);

// Writes bytes [offset, offset + out.size()) of a tensor of random weights: mean about 0, standard
// deviation about `spread` (within a factor 1.5; F32, F16, BF16 and MXFP4 only know powers of two).
// The bytes of a tensor depend on type, spread and seed only. spread in [2^-10, 2^4].
void fill_random_weights(gguf::TensorType type, float spread, uint64_t seed, uint64_t offset,
                         std::span<std::byte> out);

// The same for f32 values evenly spread over [low, high). offset and out.size() are multiples of 4.
void fill_uniform(float low, float high, uint64_t seed, uint64_t offset, std::span<std::byte> out);

}  // namespace kvasir::model
