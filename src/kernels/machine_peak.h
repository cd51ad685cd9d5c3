// What a processor could do at best: the two loops that `kvasir bench` compares the engine with.
// No part of the arithmetic; nothing else calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/kernels.h"

namespace kvasir::kernels {

// The loops of one instruction set. One thread each; callers run one per thread at the same time.
struct MachinePeak {
  // The densest int8 dot product that the matching kernels have: "vpdpbusd zmm".
  std::string_view int8_instruction;

  // Reads n bytes once, front to back, with the widest plain loads. n is a multiple of 512; the
  // result depends on every byte.
  uint64_t (*read)(const std::byte* bytes, size_t n);

  // Independent chains of int8 dot products, all operands in registers. One round is
  // int8_operations_per_round multiplications and additions, counted separately.
  uint64_t (*int8_rounds)(size_t rounds);
  uint64_t int8_operations_per_round;
};

// The loops for the instruction set of a table that this machine can run.
const MachinePeak& machine_peak(const KernelTable& table);

// Parts of it, one file per instruction set. Null where the processor lacks the instructions.
const MachinePeak* avx2_machine_peak();
const MachinePeak* avx512_machine_peak();
const MachinePeak* avx512_vnni_machine_peak();
const MachinePeak* neon_machine_peak();
const MachinePeak* neon_dotprod_machine_peak();

}  // namespace kvasir::kernels
