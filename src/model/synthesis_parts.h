// The two halves of a synthetic model's file: which tensors, which keys. Writing is synthesis.cc's.
#pragma once

#include <string>
#include <vector>

#include "gguf/writer.h"
#include "model/synthesis.h"

namespace kvasir::model {

// A tensor and what to fill it with: random weights of this spread, or values within [low, high).
struct SynthesisTensor {
  std::string name;
  gguf::TensorType type = gguf::TensorType::kF32;
  std::vector<uint64_t> dims;
  float spread = 0.0F;  // 0: uniform within [low, high)
  float low = 0.0F;
  float high = 0.0F;
};

// All tensors of a valid plan, in the file's order.
std::vector<SynthesisTensor> synthesis_tensors(const SynthesisPlan& plan);

// general.*, <arch>.* and tokenizer.* of a valid plan.
void add_synthesis_metadata(gguf::Writer& writer, const SynthesisPlan& plan);

// Entries a vocabulary holds before padding: bytes, merged tokens, special tokens.
inline constexpr uint32_t kSynthesisVocabularyMin = 300;

}  // namespace kvasir::model
