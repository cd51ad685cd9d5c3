// The manifest of a model, by whatever is quickest: from a file, from what earlier runs remembered,
// or by hashing the model now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/manifest.h"
#include "model/model.h"

namespace kvasir::cli {

enum class CacheUse : uint8_t { kReadAndWrite, kNone };

struct KnownManifest {
  gguf::Manifest manifest;
  std::string how;  // "hashed now (17.7 MiB in 0.1 s)", "known from an earlier run"
};

// Nothing if Ctrl-C stopped it; the caller has an InterruptScope.
Result<std::optional<KnownManifest>> known_manifest(const model::Model& model,
                                                    std::optional<uint64_t> threads,
                                                    CacheUse cache_use);

// "-": standard input. Checked to be what its model hash says.
Result<gguf::Manifest> read_manifest(const std::string& path);

// Bound by its header alone: no weight is read, any type will do.
Result<model::Model> open_for_hashing(const std::string& path);
std::vector<std::string> part_paths(const gguf::ModelFile& file);

}  // namespace kvasir::cli
