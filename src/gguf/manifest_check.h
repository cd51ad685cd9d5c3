// Bytes against a manifest: nothing of a unit is used before its hashes match.
// Not part of the portable set (SHA-256); a browser has a SHA-256 of its own.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "gguf/manifest.h"
#include "gguf/slice.h"

namespace kvasir::gguf {

// Whether the manifest is what its model hash says, hashes of units included. Do this with every
// manifest that comes from elsewhere.
Result<void> check_model_hash(const Manifest& manifest);

// `bytes` against one range: their number and their hash. kCorrupt naming tensor and experts.
Result<void> check_range(const ManifestEntry& entry, ByteSpan bytes);
// The error check_range() gives for a wrong hash, for callers that hash piece by piece.
Error wrong_hash(const ManifestEntry& entry, const std::string& found);

// The ranges of a unit, in the manifest's order.
Result<void> check_unit(const Manifest& manifest, UnitId unit, std::span<const ByteSpan> ranges);

// Every unit of a slice: that it is of this model, and its types, shapes and hashes.
Result<void> check_slice(const Manifest& manifest, const Slice& slice);

}  // namespace kvasir::gguf
