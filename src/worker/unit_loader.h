// Where a worker's experts come from: slices, which are mapped, and units of a model file, which
// are read into memory. With a manifest, nothing is used before its hash matches.
//
// Without one, a slice's keys and tensors are checked against each other (gguf/slice.h), and that
// the kernels can compute it; its model hash is believed and its weights are taken as they are.
// Wrong weights give wrong answers, which whoever asks has to find out. Units of a model file need
// a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "expert/held_experts.h"

namespace kvasir::worker {

// Whole groups of one layer's experts.
struct UnitRange {
  uint32_t layer = 0;
  gguf::ExpertRange experts;
};

struct UnitSources {
  std::vector<std::string> slices;       // files
  std::optional<std::string> manifest;   // a file
  std::optional<std::string> model;      // any part of it
  std::vector<UnitRange> units;          // of the model
  std::optional<uint64_t> memory_bytes;  // for the weights of all of them
};

struct LoadedUnits {
  expert::HeldExperts held;
  std::vector<std::string> notes;  // for a person: what could not be checked or locked
};

// kInvalid for sources that make no sense together, layers and experts that the model does not have
// or that are no whole groups; kLimit, saying what would fit, beyond the budget; kCorrupt for bytes
// that are not what the manifest says; kIo.
Result<LoadedUnits> load_units(const UnitSources& sources);

// "0:0-31,1:8-15" as people write it: layer, first and last expert. kInvalid.
Result<std::vector<UnitRange>> parse_units(std::string_view text);

}  // namespace kvasir::worker
