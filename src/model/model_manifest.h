// Makes the manifest of a model: what its tensors hash to, and the numbers that reach a logit.
// Hashing reads the whole file; manifest_cache.h remembers the result.
#pragma once

#include <functional>
#include <optional>

#include "base/error.h"
#include "base/thread_pool.h"
#include "gguf/manifest.h"
#include "model/model.h"

namespace kvasir::model {

// False stops. Called from the caller's thread only.
using HashWatch = std::function<bool(uint64_t done_bytes, uint64_t all_bytes)>;

// Nothing if `watch` stopped it. kIo if a file cannot be read or changes meanwhile; kUnsupported
// for tensor names that a manifest cannot hold; kCorrupt for experts (of draft blocks too) whose
// shapes do not fit the metadata.
Result<std::optional<gguf::Manifest>> make_manifest(const Model& model, ThreadPool& pool,
                                                    const HashWatch& watch);

// Whether `manifest` can be of this model, without reading any weight: the same keys, tensors,
// types, shapes and units. kCorrupt naming the first difference.
Result<void> check_same_model(const gguf::Manifest& manifest, const Model& model);

// The keys of a manifest: hyper-parameters as they were understood, not as they were spelled, so
// that a default and the same value written out are one model.
Result<std::vector<gguf::ManifestKey>> manifest_keys(const Model& model);

}  // namespace kvasir::model
