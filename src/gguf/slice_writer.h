// Cuts a slice from a model by copying byte ranges: nothing is decoded or repacked.
// Not part of the portable set (SHA-256).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gguf/manifest.h"
#include "gguf/model_file.h"

namespace kvasir::gguf {

struct SliceRequest {
  std::vector<uint32_t> layers;  // ascending, each once
  ExpertRange experts;           // whole groups
};

// False stops.
using SliceWatch = std::function<bool(uint64_t done_bytes, uint64_t all_bytes)>;

// Writes the slice of `model` to `path`; every range is hashed while it is copied and must match
// `manifest`, which may have been made from another copy of the model, differently split. What was
// at `path` stays unless the slice is complete and right. The result is false if `watch` stopped
// it. kInvalid for experts or layers that the model does not have or that are no whole groups;
// kCorrupt for bytes that are not those of the manifest.
Result<bool> write_slice(const ModelFile& model, const Manifest& manifest,
                         const SliceRequest& request, const std::string& path,
                         const SliceWatch& watch);

// Bytes of all experts of the request, to tell beforehand; the same errors for what is not there.
Result<uint64_t> slice_bytes(const Manifest& manifest, const SliceRequest& request);

}  // namespace kvasir::gguf
