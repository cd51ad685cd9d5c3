// The weight formats, each as one function that unpacks a block into small integers and its scales.
// What a value or a dot product is then follows from one formula per block length.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"

namespace kvasir::kernels::reference {

// 32 values: value_i = d * q_i, plus m where the format has minimums.
struct Weights32 {
  float d;
  float m;
  int8_t q[32];
};

// 256 values in 16 groups of 16, i in group g: value_i = (d * scale_g) * q_i, minus dmin * min_g
// where the format has minimums. Formats with 8 groups of 32 have each scale twice.
struct Weights256 {
  float d;
  float dmin;
  int8_t scale[16];
  int8_t min[16];
  int8_t q[256];
};

// A format: how long a block is in the file, whether it has minimums (else m, dmin and min are left
// alone), and what its bytes mean.
template <TensorType kType>
struct Format;

#define KVASIR_FORMAT(type, block_bytes, has_minimums, Block) \
  template <>                                                 \
  struct Format<TensorType::type> {                           \
    static constexpr size_t kBytes = block_bytes;             \
    static constexpr bool kHasMinimums = has_minimums;        \
    using Weights = Block;                                    \
    static void unpack(const std::byte* block, Block& out);   \
  }

KVASIR_FORMAT(kQ8_0, 34, false, Weights32);
KVASIR_FORMAT(kQ4_0, 18, false, Weights32);
KVASIR_FORMAT(kQ4_1, 20, true, Weights32);
KVASIR_FORMAT(kQ5_0, 22, false, Weights32);
KVASIR_FORMAT(kQ5_1, 24, true, Weights32);
KVASIR_FORMAT(kIQ4_NL, 18, false, Weights32);
KVASIR_FORMAT(kMXFP4, 17, false, Weights32);
KVASIR_FORMAT(kQ2_K, 84, true, Weights256);
KVASIR_FORMAT(kQ3_K, 110, false, Weights256);
KVASIR_FORMAT(kQ4_K, 144, true, Weights256);
KVASIR_FORMAT(kQ5_K, 176, true, Weights256);
KVASIR_FORMAT(kQ6_K, 210, false, Weights256);
KVASIR_FORMAT(kIQ4_XS, 136, false, Weights256);
#undef KVASIR_FORMAT

}  // namespace kvasir::kernels::reference
