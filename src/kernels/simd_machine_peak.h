// The loops of MachinePeak for the instruction set that the including file is compiled for.
#pragma once

#include "kernels/machine_peak.h"
#include "kernels/simd_int.h"

namespace kvasir::kernels {
namespace {

// Reads of this many bytes are in flight per turn of the loop.
constexpr size_t kReadStep = 512;

uint64_t read_vectors(const std::byte* bytes, size_t n) {
  constexpr size_t kVectors = kReadStep / sizeof(Ints);
  Ints sums[kVectors];
  KVASIR_UNROLL
  for (size_t k = 0; k < kVectors; ++k) sums[k] = zero();
  for (size_t i = 0; i < n; i += kReadStep) {
    KVASIR_UNROLL
    for (size_t k = 0; k < kVectors; ++k)
      sums[k] = add8(sums[k], load(bytes + i + k * sizeof(Ints)));
  }
  uint64_t all = 0;
  for (const Ints& sum : sums) {
    uint64_t words[sizeof(Ints) / 8];
    store(words, sum);
    for (uint64_t word : words) all ^= word;
  }
  return all;
}

// Multiplications and additions of one int8 dot product instruction.
constexpr uint64_t kOperationsPerVector = 2 * sizeof(Ints);

#if defined(__ARM_FEATURE_DOTPROD)

constexpr std::string_view kInstruction = "sdot v.4s";
constexpr size_t kPeakChains = 8;  // of two registers; 4 cycles of latency, at most 4 a cycle

KVASIR_INLINE Ints next_in_chain(Ints chain, Ints factor) {
  return add_dots(chain, factor, factor);
}

#elif defined(__aarch64__)

constexpr std::string_view kInstruction = "smull v.8h, smlal2 v.8h, sadalp v.4s";
constexpr size_t kPeakChains = 8;  // of two registers, and two more for the products of each

KVASIR_INLINE Ints next_in_chain(Ints chain, Ints factor) {
  return add_dots(chain, chain, factor);
}

#elif defined(__AVX512VNNI__)

constexpr std::string_view kInstruction = "vpdpbusd zmm";
constexpr size_t kPeakChains = 12;  // 5 cycles of latency, at most 2 a cycle

KVASIR_INLINE Ints next_in_chain(Ints chain, Ints factor) {
  return _mm512_dpbusd_epi32(chain, factor, factor);
}

#elif defined(__AVX512F__)

constexpr std::string_view kInstruction = "vpmaddubsw zmm, vpaddw zmm";
constexpr size_t kPeakChains = 16;  // 6 cycles of latency

KVASIR_INLINE Ints next_in_chain(Ints chain, Ints factor) {
  return _mm512_add_epi16(_mm512_maddubs_epi16(chain, factor), factor);
}

#else

constexpr std::string_view kInstruction = "vpmaddubsw ymm, vpaddw ymm";
constexpr size_t kPeakChains = 14;  // 6 cycles of latency; of 16 registers one holds the factor

KVASIR_INLINE Ints next_in_chain(Ints chain, Ints factor) {
  return _mm256_add_epi16(_mm256_maddubs_epi16(chain, factor), factor);
}

#endif

uint64_t int8_rounds(size_t rounds) {
  Ints factor = all8(3);
  Ints chains[kPeakChains];
  // Different ones, or the compiler keeps a single chain.
  KVASIR_UNROLL
  for (size_t k = 0; k < kPeakChains; ++k) chains[k] = all32(static_cast<int>(k + 1));
  for (size_t round = 0; round < rounds; ++round) {
    KVASIR_UNROLL
    for (size_t k = 0; k < kPeakChains; ++k) chains[k] = next_in_chain(chains[k], factor);
  }
  uint64_t all = 0;
  for (const Ints& chain : chains) {
    uint64_t words[sizeof(Ints) / 8];
    store(words, chain);
    for (uint64_t word : words) all += word;
  }
  return all;
}

constexpr MachinePeak kPeak = {kInstruction, read_vectors, int8_rounds,
                               kPeakChains* kOperationsPerVector};

}  // namespace
}  // namespace kvasir::kernels
