#include "kernels/machine_peak.h"

#include <cstring>

namespace kvasir::kernels {
namespace {

constexpr size_t kChains = 8;

uint64_t read_words(const std::byte* bytes, size_t n) {
  uint64_t sums[kChains] = {};
  for (size_t i = 0; i < n; i += sizeof sums) {
    uint64_t words[kChains];
    std::memcpy(words, bytes + i, sizeof words);
    for (size_t k = 0; k < kChains; ++k) sums[k] ^= words[k];
  }
  uint64_t all = 0;
  for (uint64_t sum : sums) all ^= sum;
  return all;
}

// The scalar kernels multiply one value at a time.
uint64_t multiply_rounds(size_t rounds) {
  uint32_t chains[kChains];
  for (size_t k = 0; k < kChains; ++k) chains[k] = static_cast<uint32_t>(k + 1);
  for (size_t round = 0; round < rounds; ++round)
    for (uint32_t& chain : chains) chain = chain * 5U + 7U;
  uint64_t all = 0;
  for (uint32_t chain : chains) all += chain;
  return all;
}

constexpr MachinePeak kScalar = {"integer multiplication", read_words, multiply_rounds,
                                 2 * kChains};

}  // namespace

#if !defined(__x86_64__)
const MachinePeak* avx2_machine_peak() {
  return nullptr;
}
const MachinePeak* avx512_machine_peak() {
  return nullptr;
}
const MachinePeak* avx512_vnni_machine_peak() {
  return nullptr;
}
#endif
#if !defined(__aarch64__)
const MachinePeak* neon_machine_peak() {
  return nullptr;
}
const MachinePeak* neon_dotprod_machine_peak() {
  return nullptr;
}
#endif

const MachinePeak& machine_peak(const KernelTable& table) {
  const MachinePeak* peak = nullptr;
  if (table.name == "avx2") peak = avx2_machine_peak();
  if (table.name == "avx512") peak = avx512_machine_peak();
  if (table.name == "avx512-vnni") peak = avx512_vnni_machine_peak();
  if (table.name == "neon") peak = neon_machine_peak();
  if (table.name == "neon-dotprod") peak = neon_dotprod_machine_peak();
  return peak == nullptr ? kScalar : *peak;
}

}  // namespace kvasir::kernels
