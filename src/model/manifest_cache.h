// Remembers manifests of models that were hashed before, by path, size and time of the last change
// of all parts. What is damaged or belongs to another state of the files counts as absent.
//
//   file  := "kvasir-manifest-cache 1", state+, manifest, "sha256" hash of all lines before
//   state := "file" bytes changed_ns path         path percent-encoded
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "gguf/manifest.h"
#include "gguf/model_file.h"

namespace kvasir::model {

// Thread-safe: a file appears whole or not at all. One file per model path.
class ManifestCache {
 public:
  // $XDG_CACHE_HOME/kvasir, or ~/.cache/kvasir; without either nothing is remembered.
  static ManifestCache of_user();
  // Empty: nothing is remembered.
  explicit ManifestCache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<gguf::Manifest> find(const gguf::ModelFile& file) const;
  // The folder is made if it is not there. An error costs nothing but the next hashing.
  Result<void> keep(const gguf::ModelFile& file, const gguf::Manifest& manifest) const;
  // Where it is or would be kept; for tests and messages.
  Result<std::string> path_for(const gguf::ModelFile& file) const;

 private:
  std::string folder_;
};

}  // namespace kvasir::model
