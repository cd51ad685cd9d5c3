#include "gguf/manifest_check.h"

#include <string>

#include "base/sha256.h"

namespace kvasir::gguf {
namespace {

// "tensor 'blk.0.ffn_up_exps.weight', experts 8-15"
std::string place(const ManifestEntry& entry) {
  if (!entry.unit) return fmt::format("tensor '{}'", entry.name);
  return fmt::format("tensor '{}', experts {}-{}", entry.name, entry.unit->begin,
                     entry.unit->end - 1);
}

// The part of a layer's matrix that belongs to one unit.
ByteSpan unit_bytes(const SliceLayer& layer, const SliceMatrix& matrix, ExpertRange unit) {
  return matrix.data.subspan(
      static_cast<size_t>((unit.begin - layer.experts.begin) * matrix.expert_bytes),
      static_cast<size_t>(unit.count() * matrix.expert_bytes));
}

Result<void> check_layer(const Manifest& manifest, const SliceLayer& layer) {
  const uint32_t group_size = manifest.shape().group_size;
  for (uint32_t begin = layer.experts.begin; begin < layer.experts.end; begin += group_size) {
    const UnitId id{layer.layer, begin / group_size};
    const auto ranges = manifest.ranges(id);
    if (ranges.size() != layer.matrices.size())
      return Error::corrupt("layer {}: has {} matrices, the manifest {}", layer.layer,
                            layer.matrices.size(), ranges.size());
    std::vector<ByteSpan> bytes;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const SliceMatrix& matrix = layer.matrices[i];
      if (ranges[i]->type != matrix.type || ranges[i]->dims[0] != matrix.n_in ||
          ranges[i]->dims[1] != matrix.n_out)
        return Error::corrupt("{}: is {} of {} x {}, in the manifest {} of {} x {}",
                              place(*ranges[i]), type_info(matrix.type).name, matrix.n_in,
                              matrix.n_out, type_info(ranges[i]->type).name, ranges[i]->dims[0],
                              ranges[i]->dims[1]);
      bytes.push_back(unit_bytes(layer, matrix, manifest.experts(id)));
    }
    KVASIR_TRY_VOID(check_unit(manifest, id, bytes));
  }
  return {};
}

}  // namespace

Result<void> check_model_hash(const Manifest& manifest) {
  const std::string found =
      sha256_hex(bytes_of(identity_text(manifest.keys(), manifest.entries())));
  if (found == manifest.model_hash()) return {};
  return Error::corrupt("the manifest says it is of the model {}, but describes {}",
                        manifest.model_hash(), found)
      .with_hint("it was damaged or changed: get it again");
}

Error wrong_hash(const ManifestEntry& entry, const std::string& found) {
  return Error::corrupt("{}: SHA-256 is {}, must be {}", place(entry), found, entry.sha256);
}

Result<void> check_range(const ManifestEntry& entry, ByteSpan bytes) {
  if (bytes.size() != entry.bytes)
    return Error::corrupt("{}: {} bytes, must be {}", place(entry), bytes.size(), entry.bytes);
  const std::string found = sha256_hex(bytes);
  if (found != entry.sha256) return wrong_hash(entry, found);
  return {};
}

Result<void> check_unit(const Manifest& manifest, UnitId unit, std::span<const ByteSpan> ranges) {
  const auto entries = manifest.ranges(unit);
  if (entries.empty())
    return Error::invalid("the model has no group {} of experts in layer {}", unit.group,
                          unit.layer);
  if (ranges.size() != entries.size())
    return Error::invalid("layer {}, group {}: {} ranges, must be {}", unit.layer, unit.group,
                          ranges.size(), entries.size());
  for (size_t i = 0; i < ranges.size(); ++i) KVASIR_TRY_VOID(check_range(*entries[i], ranges[i]));
  return {};
}

Result<void> check_slice(const Manifest& manifest, const Slice& slice) {
  if (slice.source != manifest.model_hash())
    return Error::corrupt("the slice is of the model {}, the manifest of {}", slice.source,
                          manifest.model_hash());
  const ExpertShape& shape = manifest.shape();
  if (slice.n_experts != shape.n_experts || slice.group_size != shape.group_size)
    return Error::corrupt("the slice has groups of {} of {} experts, the manifest {} of {}",
                          slice.group_size, slice.n_experts, shape.group_size, shape.n_experts);
  for (const SliceLayer& layer : slice.layers) KVASIR_TRY_VOID(check_layer(manifest, layer));
  return {};
}

}  // namespace kvasir::gguf
