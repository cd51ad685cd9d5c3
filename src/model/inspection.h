// What `kvasir inspect` prints: the facts of a model file, without loading it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/model_file.h"
#include "model/hyper_parameters.h"

namespace kvasir::model {

struct TypeUse {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

struct Inspection {
  // As in the file (any characters), empty if not there.
  std::string architecture;
  std::string name;
  uint64_t file_bytes = 0;
  uint64_t weight_bytes = 0;  // of all tensors
  size_t parts = 0;
  size_t tensors = 0;
  std::map<std::string, TypeUse> types;  // by type name

  bool supported = false;       // bind_model would succeed, unless a vector holds a NaN
  std::string why_unsupported;  // otherwise: its message

  // From here on only if the hyper-parameters could be read (hp.n_layers > 0).
  HyperParameters hp;
  uint64_t experts_total = 0;     // MTP blocks included
  uint64_t experts_main = 0;      // without them
  uint64_t expert_bytes_min = 0;  // of one expert (gate + up + down), over all layers
  uint64_t expert_bytes_max = 0;
  double expert_bytes_mean = 0;
  uint64_t all_expert_bytes = 0;
  double expert_share = 0;        // of weight_bytes
  uint32_t expert_dimension = 2;  // which dimension of an expert tensor counts experts (ne order)
  uint64_t kv_bytes_per_token_f16 = 0;
  uint64_t kv_bytes_per_token_f32 = 0;
  uint64_t state_bytes_per_sequence = 0;
  std::vector<std::string> notes;  // dialect and whatever else is worth knowing
};

// Works on any readable GGUF; for an architecture or tensor set that cannot run here, says why, and
// fills in whatever of the facts above can be told. is_supported as for bind_model; without it
// every weight type passes.
Result<Inspection> inspect(const gguf::ModelFile& file,
                           bool (*is_supported)(gguf::TensorType) = nullptr);

}  // namespace kvasir::model
