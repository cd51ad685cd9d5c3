#include "gguf/slice_writer.h"

#include <algorithm>

#include "base/output_file.h"
#include "base/sha256.h"
#include "gguf/file_range.h"
#include "gguf/manifest_check.h"
#include "gguf/slice.h"
#include "gguf/writer.h"

namespace kvasir::gguf {
namespace {

constexpr uint64_t kAlignment = kAlignmentDefault;

// One tensor of the slice: where its bytes come from, and what they must be.
struct Cut {
  const TensorView* source = nullptr;
  std::vector<const ManifestEntry*> units;  // neighbours
};

Result<void> check_request(const Manifest& manifest, const SliceRequest& request) {
  const ExpertShape& shape = manifest.shape();
  const ExpertRange& experts = request.experts;
  if (experts.begin >= experts.end || experts.end > shape.n_experts)
    return Error::invalid("experts {}-{}: the model has experts 0-{} in a layer", experts.begin,
                          experts.end == 0 ? 0 : experts.end - 1, shape.n_experts - 1);
  if (!is_whole_groups(experts, shape.group_size, shape.n_experts)) {
    const uint32_t begin = experts.begin / shape.group_size * shape.group_size;
    const uint32_t last_group = (experts.end - 1) / shape.group_size;
    return Error::invalid("experts {}-{} are no whole groups of {}", experts.begin, experts.end - 1,
                          shape.group_size)
        .with_hint(
            fmt::format("hashes are kept per group; the whole ones around these are {}-{}", begin,
                        group_experts(last_group, shape.group_size, shape.n_experts).end - 1));
  }
  if (request.layers.empty()) return Error::invalid("a slice needs a layer");
  for (uint32_t layer : request.layers)
    if (manifest.ranges({layer, experts.begin / shape.group_size}).empty())
      return Error::invalid("layer {}: the model has no experts there", layer);
  return {};
}

// Calls `visit(unit)` for every unit of one layer of a request.
template <typename Visit>
Result<void> for_each_unit(const Manifest& manifest, uint32_t layer, ExpertRange experts,
                           const Visit& visit) {
  const uint32_t size = manifest.shape().group_size;
  for (uint32_t group = experts.begin / size; group * size < experts.end; ++group)
    KVASIR_TRY_VOID(visit(UnitId{layer, group}));
  return {};
}

Result<const TensorView*> find_source(const ModelFile& model, const ManifestEntry& entry) {
  const TensorView* tensor = model.find(entry.name);
  if (tensor == nullptr)
    return Error::corrupt("tensor '{}' is in the manifest and not in the model", entry.name);
  if (tensor->info->type != entry.type || tensor->info->dims != entry.dims)
    return Error::corrupt("tensor '{}': type or shape is not that of the manifest", entry.name);
  return tensor;
}

// Gate, up and down of one layer.
Result<std::vector<Cut>> plan_layer(const ModelFile& model, const Manifest& manifest,
                                    uint32_t layer, ExpertRange experts) {
  std::vector<Cut> cuts;
  KVASIR_TRY_VOID(for_each_unit(manifest, layer, experts, [&](UnitId unit) -> Result<void> {
    const auto ranges = manifest.ranges(unit);
    cuts.resize(ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      cuts[i].units.push_back(ranges[i]);
      KVASIR_TRY(cuts[i].source, find_source(model, *ranges[i]));
    }
    return {};
  }));
  return cuts;
}

// The model's own keys: who it is and its hyper-parameters. The tokenizer, nine tenths of a header,
// is of no use here; split.* would be wrong.
void add_model_keys(Writer& writer, const Metadata& metadata) {
  std::string prefix = ".";
  if (const auto architecture = metadata.get_string("general.architecture"))
    prefix = std::string(*architecture) + ".";
  for (const Value& value : metadata.values())
    if (value.key.starts_with("general.") || value.key.starts_with(prefix)) writer.add_value(value);
}

void add_slice_keys(Writer& writer, const Manifest& manifest, const SliceRequest& request) {
  const size_t n = request.layers.size();
  writer.add_u32(kSliceVersionKey, kSliceVersion);
  writer.add_string(kSliceSourceKey, manifest.model_hash());
  writer.add_u32s(kSliceLayerKey, request.layers);
  writer.add_u32s(kSliceFirstKey, std::vector<uint32_t>(n, request.experts.begin));
  writer.add_u32s(kSliceCountKey, std::vector<uint32_t>(n, request.experts.count()));
  writer.add_u32(kGroupSizeKey, manifest.shape().group_size);
}

// Copies, hashes and compares one unit's range. The result is false if `more` stopped it.
template <typename More>
Result<bool> copy_range(const ModelFile& model, const TensorView& source,
                        const ManifestEntry& entry, RangeReader& reader, OutputFile& out,
                        const More& more) {
  const uint64_t expert_bytes = entry.bytes / entry.unit->count();
  const uint64_t offset = source.info->offset + entry.unit->begin * expert_bytes;
  Sha256 hash;
  KVASIR_TRY(bool done, reader.read(model.part_file(source.part), offset, entry.bytes,
                                    [&](ByteSpan bytes) -> Result<bool> {
                                      hash.update(bytes);
                                      KVASIR_TRY_VOID(out.write(bytes));
                                      return more(bytes.size());
                                    }));
  if (!done) return false;
  const std::string found = hash.hex();
  if (found != entry.sha256)
    return wrong_hash(entry, found)
        .with_hint("the model file was damaged, or is another model than the manifest's");
  return true;
}

}  // namespace

Result<uint64_t> slice_bytes(const Manifest& manifest, const SliceRequest& request) {
  KVASIR_TRY_VOID(check_request(manifest, request));
  uint64_t sum = 0;
  for (uint32_t layer : request.layers)
    KVASIR_TRY_VOID(
        for_each_unit(manifest, layer, request.experts, [&](UnitId unit) -> Result<void> {
          for (const ManifestEntry* entry : manifest.ranges(unit)) sum += entry->bytes;
          return {};
        }));
  return sum;
}

Result<bool> write_slice(const ModelFile& model, const Manifest& manifest,
                         const SliceRequest& request, const std::string& path,
                         const SliceWatch& watch) {
  KVASIR_TRY(const uint64_t all, slice_bytes(manifest, request));
  Writer writer(kAlignment);
  add_model_keys(writer, model.metadata());
  add_slice_keys(writer, manifest, request);
  std::vector<Cut> cuts;
  for (uint32_t layer : request.layers) {
    KVASIR_TRY(auto planned, plan_layer(model, manifest, layer, request.experts));
    for (Cut& cut : planned) {
      const TensorInfo& info = *cut.source->info;
      writer.add_tensor(info.name, info.type,
                        {info.dims[0], info.dims[1], request.experts.count()});
      cuts.push_back(std::move(cut));
    }
  }

  KVASIR_TRY(OutputFile out, OutputFile::create(path));
  KVASIR_TRY_VOID(out.write(writer.header()));
  RangeReader reader;
  uint64_t done = 0;
  const auto more = [&](uint64_t bytes) {
    done += bytes;
    return !watch || watch(done, all);
  };
  for (size_t i = 0; i < cuts.size(); ++i) {
    for (const ManifestEntry* unit : cuts[i].units) {
      KVASIR_TRY(bool copied, copy_range(model, *cuts[i].source, *unit, reader, out, more));
      if (!copied) return false;
    }
    const uint64_t end = writer.tensors()[i].bytes;
    const std::vector<std::byte> padding(
        static_cast<size_t>((kAlignment - end % kAlignment) % kAlignment));
    KVASIR_TRY_VOID(out.write(padding));
  }
  KVASIR_TRY_VOID(out.finish());
  return true;
}

}  // namespace kvasir::gguf
