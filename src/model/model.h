// A model's tensors by role, as views into the mapped file. No copies, no arithmetic.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "gguf/model_file.h"
#include "model/hyper_parameters.h"

namespace kvasir::model {

using gguf::TensorType;

// n_out rows of n_in values each, row_bytes apart: y[o] = row o . x.
struct Matrix {
  std::string name;  // of the tensor, for error messages
  TensorType type = TensorType::kF32;
  uint32_t n_in = 0;
  uint32_t n_out = 0;
  uint64_t row_bytes = 0;
  const std::byte* data = nullptr;
};

// An f32 vector, checked to be finite when the model was bound.
struct Vector {
  std::string name;
  const float* data = nullptr;
  uint32_t size = 0;
};

// The same matrix of every expert of one layer: expert e starts at data + e * expert_stride.
// A fused gate_up tensor appears as two of these over one stride.
struct ExpertMatrices {
  std::string name;
  TensorType type = TensorType::kF32;
  uint32_t n_in = 0;
  uint32_t n_out = 0;
  uint64_t row_bytes = 0;
  uint64_t expert_stride = 0;
  uint32_t n_experts = 0;
  const std::byte* data = nullptr;
  // Where `data` is on disk, for readers that do not want page faults.
  size_t part = 0;
  uint64_t file_offset = 0;
};

struct AttentionTensors {
  Matrix q;  // with an output gate: per head, head_dim query rows then head_dim gate rows
  Matrix k, v, output;
  Vector q_norm, k_norm;  // [head_dim]
};

struct DeltaTensors {
  Matrix qkv;  // rows: q heads, k heads, v heads
  Matrix z, alpha, beta, out;
  Vector conv;        // [channels][conv_kernel], taps oldest first
  Vector dt_bias, a;  // [n_value_heads]; a is negative: -exp(A_log)
  Vector norm;        // [delta_head_dim]
};

struct SharedExpertTensors {
  Vector gate_input;  // [n_embd]: sigma = sigmoid(gate_input . x)
  Matrix gate, up, down;
};

struct Layer {
  LayerKind kind = LayerKind::kAttention;
  Vector attention_norm;  // before the mixer
  Vector ffn_norm;        // before the experts
  std::variant<AttentionTensors, DeltaTensors> mixer;
  Matrix router;
  ExpertMatrices gate, up, down;
  std::optional<SharedExpertTensors> shared;
};

// Immutable and thread-safe once bound. Keeps the file mapped.
struct Model {
  std::shared_ptr<const gguf::ModelFile> file;
  HyperParameters hp;
  Matrix token_embedding;  // n_out = n_vocab
  Vector output_norm;
  Matrix output;                             // token_embedding again if the file ties them
  std::vector<Layer> layers;                 // [n_layers]
  std::vector<std::string> ignored_tensors;  // in the file, without a role
};

// Whether vectors are read through when a model is bound. Inspection leaves them alone: a header
// says enough, and a few hundred places all over a large file take seconds to fetch from a slow
// disk.
enum class VectorCheck : uint8_t { kFinite, kNone };

// Finds every tensor, checks shapes against the hyper-parameters and types against the supported
// ones. `is_supported` says which weight types can be computed (kernels::is_supported; passed in,
// so that this module needs no kernels; null: any type will do). Errors name the file, and the key
// or tensor: kUnsupported for another architecture or type, kNotFound and kCorrupt for what is
// missing or contradictory.
Result<Model> bind_model(std::shared_ptr<const gguf::ModelFile> file,
                         bool (*is_supported)(TensorType),
                         VectorCheck vector_check = VectorCheck::kFinite);

// The tensors that every token reads completely: all but the routed experts, a token embedding that
// is not the head as well, and what has no role.
std::vector<ByteSpan> dense_tensors(const Model& model);

}  // namespace kvasir::model
