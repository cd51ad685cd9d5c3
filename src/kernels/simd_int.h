// Byte and integer vectors of the instruction set that the including file is compiled for, under
// one set of names, so that a weight format is written once.
//
// A vector is kLanes lanes of 16 bytes: 4 with AVX-512, 2 with AVX2 and with NEON, where it takes
// two registers. Those two differ in what they multiply with: AVX2 has pairs of products in 16
// bits, NEON four products in 32 bits.
#pragma once

#if defined(__aarch64__)
#include "kernels/simd_int_neon.h"
#else
#include "kernels/simd_int_x86.h"
#endif

namespace kvasir::kernels {
namespace {

// Weight rows that one tile computes together, one per 32-bit element of a vector.
inline constexpr int kTileRows = 4 * kLanes;
inline constexpr int kVectorBytes = 16 * kLanes;

// Element i of each lane is element 0 (3) of that lane of parts[i].
KVASIR_INLINE Ints first_of_lanes(const Ints* parts) {
  return low64(low32(parts[0], parts[1]), low32(parts[2], parts[3]));
}
KVASIR_INLINE Ints last_of_lanes(const Ints* parts) {
  return high64(high32(parts[0], parts[1]), high32(parts[2], parts[3]));
}

}  // namespace
}  // namespace kvasir::kernels
