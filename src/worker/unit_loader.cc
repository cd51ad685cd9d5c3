#include "worker/unit_loader.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "gguf/file_range.h"
#include "gguf/manifest_check.h"
#include "gguf/model_file.h"
#include "worker/own_memory.h"

namespace kvasir::worker {
namespace {

using gguf::Manifest;
using gguf::ManifestEntry;
using gguf::UnitId;

// HeldExperts wants multiples of 8; this is a cache line.
constexpr uint64_t kRangeAlignment = 64;

std::string mebibytes(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

Result<Manifest> read_manifest(const std::string& path) {
  KVASIR_TRY(const MappedFile file, MappedFile::open(path));
  auto manifest = gguf::parse_manifest(text_of(file.bytes()));
  if (!manifest) return std::move(manifest.error()).in(path);
  auto checked = gguf::check_model_hash(*manifest);
  if (!checked) return std::move(checked.error()).in(path);
  return manifest;
}

Result<std::vector<UnitId>> units_of(const Manifest& manifest, const UnitRange& range) {
  const gguf::ExpertShape& shape = manifest.shape();
  if (manifest.ranges({range.layer, 0}).empty())
    return Error::invalid("--units: the model has no experts in layer {}", range.layer);
  if (range.experts.end > shape.n_experts)
    return Error::invalid("--units: expert {} of layer {}, which has experts 0-{}",
                          range.experts.end - 1, range.layer, shape.n_experts - 1);
  if (!gguf::is_whole_groups(range.experts, shape.group_size, shape.n_experts)) {
    const uint32_t begin = range.experts.begin / shape.group_size * shape.group_size;
    const uint32_t last = (range.experts.end - 1) / shape.group_size;
    return Error::invalid("--units: experts {}-{} of layer {} are no whole groups of {}",
                          range.experts.begin, range.experts.end - 1, range.layer, shape.group_size)
        .with_hint(
            fmt::format("the whole ones around these are {}:{}-{}", range.layer, begin,
                        gguf::group_experts(last, shape.group_size, shape.n_experts).end - 1));
  }
  std::vector<UnitId> ids;
  for (uint32_t begin = range.experts.begin; begin < range.experts.end; begin += shape.group_size)
    ids.push_back({range.layer, begin / shape.group_size});
  return ids;
}

Result<std::vector<UnitId>> wanted_units(const Manifest& manifest,
                                         const std::vector<UnitRange>& ranges) {
  std::vector<UnitId> all;
  for (const UnitRange& range : ranges) {
    KVASIR_TRY(const std::vector<UnitId> ids, units_of(manifest, range));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end())
    return Error::invalid("--units names some experts twice");
  return all;
}

uint64_t unit_bytes(const Manifest& manifest, UnitId unit) {
  uint64_t bytes = 0;
  for (const ManifestEntry* entry : manifest.ranges(unit))
    bytes += *checked_round_up(entry->bytes, kRangeAlignment);
  return bytes;
}

// "0:0-31,1:0-7" for the first `count` units.
std::string units_text(const Manifest& manifest, const std::vector<UnitId>& units, size_t count) {
  std::string text;
  for (size_t i = 0; i < count;) {
    const UnitId first = units[i];
    UnitId last = first;
    for (++i; i < count && units[i].layer == last.layer && units[i].group == last.group + 1; ++i)
      last = units[i];
    text += fmt::format("{}{}:{}-{}", text.empty() ? "" : ",", first.layer,
                        manifest.experts(first).begin, manifest.experts(last).end - 1);
  }
  return text;
}

// Something that takes memory, and the flags for it and all before it.
struct Piece {
  uint64_t bytes = 0;
  std::string flags;
};

std::vector<Piece> pieces_of(const std::vector<std::shared_ptr<const gguf::SliceFile>>& slices,
                             const Manifest* manifest, const std::vector<UnitId>& units) {
  std::vector<Piece> pieces;
  std::string flags;
  for (const auto& slice : slices) {
    flags += fmt::format("{}--slice {}", flags.empty() ? "" : " ", slice->path());
    pieces.push_back({slice->slice().bytes(), flags});
  }
  if (!flags.empty()) flags += " ";
  for (size_t i = 0; i < units.size(); ++i)
    pieces.push_back({unit_bytes(*manifest, units[i]),
                      flags + "--units " + units_text(*manifest, units, i + 1)});
  return pieces;
}

Result<void> check_budget(const std::vector<Piece>& pieces, uint64_t memory_bytes) {
  uint64_t needed = 0;
  const Piece* last_fitting = nullptr;
  uint64_t fitting = 0;
  for (const Piece& piece : pieces) {
    needed += piece.bytes;
    if (needed > memory_bytes) continue;
    last_fitting = &piece;
    fitting = needed;
  }
  if (needed <= memory_bytes) return {};
  std::string hint =
      last_fitting != nullptr
          ? fmt::format("what fits, with {}:  {}", mebibytes(fitting), last_fitting->flags)
          : fmt::format("not even {} fits, which has {}", pieces.front().flags,
                        mebibytes(pieces.front().bytes));
  return Error::limit("the experts have {}, --memory is {}", mebibytes(needed),
                      mebibytes(memory_bytes))
      .with_hint(std::move(hint));
}

Result<const gguf::TensorView*> find_source(const gguf::ModelFile& model,
                                            const ManifestEntry& entry) {
  const gguf::TensorView* tensor = model.find(entry.name);
  if (tensor == nullptr)
    return Error::corrupt("tensor '{}' is in the manifest and not in the model", entry.name);
  if (tensor->info->type != entry.type || tensor->info->dims != entry.dims)
    return Error::corrupt("tensor '{}': type or shape is not that of the manifest", entry.name);
  return tensor;
}

// Reads units of one model, whatever way it is split.
class UnitReader {
 public:
  UnitReader(const gguf::ModelFile& model, const Manifest& manifest)
      : model_(model), manifest_(manifest) {}

  Result<void> read(UnitId unit, expert::HeldExperts& held) {
    KVASIR_TRY(const std::shared_ptr<OwnMemory> memory,
               OwnMemory::allocate(static_cast<size_t>(unit_bytes(manifest_, unit))));
    if (!memory->lock()) unlocked_bytes_ += memory->bytes().size();
    std::vector<ByteSpan> ranges;
    size_t at = 0;
    for (const ManifestEntry* entry : manifest_.ranges(unit)) {
      const std::span<std::byte> range =
          memory->bytes().subspan(at, static_cast<size_t>(entry->bytes));
      KVASIR_TRY_VOID(read_range(*entry, range));
      ranges.push_back(range);
      at += static_cast<size_t>(*checked_round_up(entry->bytes, kRangeAlignment));
    }
    return held.add(manifest_, unit, ranges, memory);
  }
  // That the system did not keep out of the swap.
  uint64_t unlocked_bytes() const { return unlocked_bytes_; }

 private:
  Result<void> read_range(const ManifestEntry& entry, std::span<std::byte> out) {
    KVASIR_TRY(const gguf::TensorView* source, find_source(model_, entry));
    const uint64_t expert_bytes = entry.bytes / entry.unit->count();
    const uint64_t offset = source->info->offset + entry.unit->begin * expert_bytes;
    KVASIR_TRY_VOID(gguf::read_range(model_.part_file(source->part), offset, out));
    auto checked = gguf::check_range(entry, out);
    if (!checked)
      return std::move(checked.error())
          .with_hint("the model file was damaged, or is another model than the manifest's");
    return {};
  }

  const gguf::ModelFile& model_;
  const Manifest& manifest_;
  uint64_t unlocked_bytes_ = 0;
};

Result<void> check_sources(const UnitSources& sources) {
  if (sources.model && (!sources.manifest || sources.units.empty()))
    return Error::invalid("--model needs --manifest and --units")
        .with_hint("a slice needs neither: kvasir slice cuts one");
  if (!sources.units.empty() && !sources.model) return Error::invalid("--units needs --model");
  if (sources.slices.empty() && !sources.model)
    return Error::invalid(
        "a worker needs experts: --slice FILE, or --model, --manifest and --units");
  return {};
}

}  // namespace

Result<LoadedUnits> load_units(const UnitSources& sources) {
  KVASIR_TRY_VOID(check_sources(sources));
  std::optional<Manifest> manifest;
  if (sources.manifest) {
    KVASIR_TRY(manifest, read_manifest(*sources.manifest));
  }
  std::vector<std::shared_ptr<const gguf::SliceFile>> slices;
  for (const std::string& path : sources.slices) {
    KVASIR_TRY(gguf::SliceFile slice, gguf::SliceFile::open(path));
    slices.push_back(std::make_shared<const gguf::SliceFile>(std::move(slice)));
  }
  std::vector<UnitId> units;
  if (sources.model) {
    KVASIR_TRY(units, wanted_units(*manifest, sources.units));
  }
  if (sources.memory_bytes) {
    KVASIR_TRY_VOID(check_budget(pieces_of(slices, manifest ? &*manifest : nullptr, units),
                                 *sources.memory_bytes));
  }

  LoadedUnits loaded;
  for (const auto& slice : slices) {
    if (manifest) {
      auto checked = gguf::check_slice(*manifest, slice->slice());
      if (!checked) return std::move(checked.error()).in(slice->path());
    } else {
      loaded.notes.push_back(
          fmt::format("{}: its weights were not checked; --manifest does that", slice->path()));
    }
    KVASIR_TRY_VOID(loaded.held.add(slice));
  }
  if (!units.empty()) {
    KVASIR_TRY(const gguf::ModelFile model, gguf::ModelFile::open(*sources.model));
    UnitReader reader(model, *manifest);
    for (UnitId unit : units) {
      auto read = reader.read(unit, loaded.held);
      if (!read) return std::move(read.error()).in(*sources.model);
    }
    if (reader.unlocked_bytes() > 0)
      loaded.notes.push_back(
          fmt::format("{} of experts may be swapped out: the system locks no more memory (ulimit "
                      "-l)",
                      mebibytes(reader.unlocked_bytes())));
  }
  return loaded;
}

Result<std::vector<UnitRange>> parse_units(std::string_view text) {
  const auto wrong = [&] {
    return Error::invalid(
        "'{}' is not LAYER:FIRST-LAST, several separated by commas, such as "
        "0:0-31,1:8-15",
        text);
  };
  std::vector<UnitRange> ranges;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](uint32_t max, uint32_t& value) {
    if (at == end || *at < '0' || *at > '9') return false;
    const auto parsed = std::from_chars(at, end, value);
    at = parsed.ptr;
    return parsed.ec == std::errc() && value < max;
  };
  const auto sign = [&](char wanted) { return at != end && *at == wanted && (++at, true); };
  do {
    UnitRange range;
    uint32_t last = 0;
    if (!number(gguf::kUnitLayersMax, range.layer) || !sign(':') ||
        !number(gguf::kUnitExpertsMax, range.experts.begin) || !sign('-') ||
        !number(gguf::kUnitExpertsMax, last) || last < range.experts.begin)
      return wrong();
    range.experts.end = last + 1;
    ranges.push_back(range);
  } while (sign(','));
  if (at != end) return wrong();
  return ranges;
}

}  // namespace kvasir::worker
