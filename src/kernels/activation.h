// Activation rows: the formats a row of floats takes before it meets quantised weights.
// Rule 1 of docs/arithmetic.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "gguf/types.h"

namespace kvasir::kernels {

using gguf::TensorType;

enum class ActivationFormat : uint8_t { kF32, kQ8_0, kQ8_K };

// 256 values; x = d * q. d may be negative. sums[k] = q[16k] + ... + q[16k+15].
struct BlockQ8K {
  float d;
  int16_t sums[16];
  int8_t q[256];
};
static_assert(sizeof(BlockQ8K) == 292);

// 32 values; x = d * q. d holds a value that f16 can represent (rounded when quantised), so that
// d can travel as f16. sum = sum of all q.
struct BlockQ8_0 {
  float d;
  int32_t sum;
  int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 40);

// The weight types there are kernels for; others can be inspected but not computed.
bool is_supported(TensorType type);
// The format a weight type wants its activations in.
ActivationFormat activation_format(TensorType weight_type);
// Values per block of a format: 1, 32, 256. A row is a whole number of blocks.
size_t activation_block_length(ActivationFormat format);
// Bytes of a row of n values in memory.
size_t activation_row_bytes(ActivationFormat format, size_t n);

}  // namespace kvasir::kernels
