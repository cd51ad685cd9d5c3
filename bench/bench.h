// What the micro-benchmarks have in common: inputs, and one benchmark per instruction set.
//
// One thread. bytes_per_second counts what a kernel reads and writes of its own operands,
// items_per_second values, or multiplications of a mat-mul. Sizes are those of Qwen3.5-122B-A10B.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace kvasir::kernels {

inline constexpr size_t kEmbedding = 3072;    // n_embd
inline constexpr size_t kExpertWidth = 1024;  // also of the shared expert
inline constexpr size_t kExperts = 256;
inline constexpr size_t kHeadDim = 256;       // of attention
inline constexpr size_t kRopeHalf = 32;       // 64 of the 256 are rotated
inline constexpr size_t kDeltaHeadDim = 128;  // of the delta-net
inline constexpr size_t kDeltaHeads = 64;     // of its values
inline constexpr size_t kChannels = 12'288;   // of its convolution
inline constexpr size_t kConvTaps = 4;

// Registers "<name>/<table>" for every table that this machine can run. Call it before main().
using Kernel = std::function<void(benchmark::State&, const KernelTable&)>;
void add_benchmark(const std::string& name, const Kernel& kernel);

// Standard normal; equal calls give equal values.
std::vector<float> random_floats(size_t n);

// What one iteration touches and does.
struct Work {
  size_t bytes = 0;
  size_t items = 0;
};
void count(benchmark::State& state, Work work);

}  // namespace kvasir::kernels
