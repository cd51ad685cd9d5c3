// Synthetic models: real GGUF files with random weights, for tests and measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "gguf/types.h"
#include "model/hyper_parameters.h"

namespace kvasir::model {

// The tensors' types: one type everywhere it fits (norms and routers stay F32; a row length that is
// no multiple of the block falls back as stock quantisers do), or the stock Q4_K_M mix.
enum class TypeMix : uint8_t { kUniform, kQ4KM };

struct SynthesisPlan {
  HyperParameters hp;  // n_vocab >= 300: 256 byte tokens, special tokens, then padding
  TypeMix mix = TypeMix::kUniform;
  gguf::TensorType type = gguf::TensorType::kF32;
  bool fused_gate_up = false;
  bool fused_qkv = false;  // in attention layers
  bool tied_output = false;
  uint64_t seed = 1;
  std::string name = "synthetic";
};

// A small random model: 4 layers (the last one attention), 8 experts, top-2.
SynthesisPlan small_plan(Architecture architecture);
// True dimensions of a published model; kNotFound (listing the known names) for another.
// "qwen3.5-35b-a3b", "qwen3.5-122b-a10b", "qwen3.5-397b-a17b", "qwen3-30b-a3b", "qwen3-235b-a22b".
// n_layers 0: all of them, with the MTP block where the model has one.
Result<SynthesisPlan> plan_like(const std::string& published_name, uint32_t n_layers);

// An error ends the writing.
using Progress = std::function<Result<void>(uint64_t done_bytes, uint64_t all_bytes)>;
// Random valid blocks whose values have the spread of trained weights (about 1/sqrt(n_in)), so that
// activations stay in range. The same plan gives the same bytes.
Result<void> write_synthetic(const SynthesisPlan& plan, const std::string& path,
                             const Progress& progress);
// The same header over a sparse file: every weight reads as zero, almost no disk is used.
Result<void> write_skeleton(const SynthesisPlan& plan, const std::string& path);

}  // namespace kvasir::model
