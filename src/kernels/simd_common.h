// What the kernels of every instruction set share: how they are inlined and unrolled, and loads
// that need no vectors.
//
// Everything in the simd_*.h files lives in an anonymous namespace: each file of one instruction
// set gets its own copy, and code for a newer processor can never be linked into an older path. For
// the same reason nothing there calls std:: functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu.h"

#define KVASIR_INLINE inline __attribute__((always_inline))
// Before a loop with a constant count whose arrays must become registers. Not with sanitizers: what
// they add to each access, unrolled, takes the compiler many minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KVASIR_UNROLL
#elif defined(__clang__)
#define KVASIR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KVASIR_UNROLL _Pragma("GCC unroll 16")
#endif

namespace kvasir::kernels {
namespace {

KVASIR_INLINE uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
KVASIR_INLINE short load_s16(const uint8_t* p) {
  short v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Asks for the cache lines at p, p + 64, ... below p + bytes: into the second-level cache, or into
// the first one, too.
enum class FetchInto : uint8_t { kFirstLevel, kSecondLevel };

// Of weights.
KVASIR_INLINE FetchInto where_to_fetch() {
  return fetches_into_first_level() ? FetchInto::kFirstLevel : FetchInto::kSecondLevel;
}

template <size_t bytes>
KVASIR_INLINE void fetch_near(const uint8_t* p) {
  KVASIR_UNROLL
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 3);
}
template <size_t bytes>
KVASIR_INLINE void fetch(const uint8_t* p, FetchInto into = FetchInto::kSecondLevel) {
  if (into == FetchInto::kFirstLevel) {
    fetch_near<bytes>(p);
    return;
  }
  KVASIR_UNROLL
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

}  // namespace
}  // namespace kvasir::kernels
