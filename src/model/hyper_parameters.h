// What the metadata says a model is: dimensions and constants, checked against each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/metadata.h"

namespace kvasir::model {

enum class Architecture : uint8_t { kQwen35Moe, kQwen3Moe };
std::string_view architecture_name(Architecture architecture);  // as in general.architecture
// "qwen35moe, qwen3moe"
std::string supported_architectures();

enum class LayerKind : uint8_t { kAttention, kDeltaNet };

// Which key head a value head of the delta-net uses.
enum class ValueHeadOrder : uint8_t {
  kTiled,    // value head n uses key head n mod n_key_heads
  kGrouped,  // value head n uses key head n / (n_value_heads / n_key_heads)
};

// Bounds on hostile files, far above real models.
inline constexpr uint64_t kLayersMax = 1024;
inline constexpr uint64_t kExpertsMax = 4096;
inline constexpr uint64_t kEmbeddingMax = 65'536;
inline constexpr uint64_t kVocabularyMax = uint64_t{1} << 22;
inline constexpr uint64_t kContextMax = uint64_t{1} << 24;
inline constexpr uint64_t kHeadsMax = 4096;
inline constexpr uint64_t kHeadDimMax = 4096;
// Taps of the delta-net's convolution: one would need no window, more than 8 no kernel computes.
inline constexpr uint64_t kConvKernelMin = 2;
inline constexpr uint64_t kConvKernelMax = 8;

struct HyperParameters {
  Architecture architecture = Architecture::kQwen35Moe;
  uint32_t n_layers = 0;        // main layers, computed for every token
  uint32_t n_mtp_blocks = 0;    // draft blocks after them, present in the file and skipped
  uint32_t context_length = 0;  // trained context
  uint32_t n_embd = 0;
  uint32_t n_vocab = 0;  // rows of the head

  std::vector<LayerKind> layer_kinds;  // [n_layers]

  // Attention.
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  bool attention_output_gate =
      false;               // qwen35moe: q rows hold query and gate, interleaved per head
  uint32_t rope_dims = 0;  // the first rope_dims of head_dim are rotated
  double rope_base = 10000.0;
  float rms_eps = 1e-6F;

  // Gated delta-net (zero for qwen3moe).
  uint32_t n_key_heads = 0;
  uint32_t n_value_heads = 0;
  uint32_t delta_head_dim = 0;  // of keys and values
  uint32_t conv_kernel = 0;
  ValueHeadOrder value_head_order = ValueHeadOrder::kTiled;

  // Experts.
  uint32_t n_experts = 0;
  uint32_t n_experts_used = 0;
  uint32_t expert_width = 0;         // F
  uint32_t shared_expert_width = 0;  // 0: no shared expert

  std::vector<std::string> dialect_notes;  // what this file does differently, for `inspect`

  uint32_t conv_channels() const { return (2 * n_key_heads + n_value_heads) * delta_head_dim; }
  uint32_t n_attention_layers() const;
  uint32_t n_delta_layers() const;
  // Caches of one sequence. kv_value_bytes: 2 for f16, 4 for f32.
  uint64_t kv_bytes_per_token(uint32_t kv_value_bytes) const;
  uint64_t state_bytes_per_sequence() const;  // conv windows and matrices, f32
};

// The bounds above and the relations between the numbers. kCorrupt, naming the key and the value.
Result<void> check_hyper_parameters(const HyperParameters& hp);

// From `<arch>.*`; kUnsupported for another architecture (naming the supported ones), kCorrupt or
// kNotFound naming the key for everything missing, out of bounds or contradictory.
Result<HyperParameters> read_hyper_parameters(const gguf::Metadata& metadata);

}  // namespace kvasir::model
