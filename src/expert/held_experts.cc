#include "expert/held_experts.h"

#include <algorithm>
#include <utility>

namespace kvasir::expert {
namespace {

// Weights of 4 bytes are read as such, and no block wants more.
constexpr uintptr_t kAddressMultiple = 8;

using gguf::ExpertRole;

// One matrix of neighbouring experts, as a slice or a manifest describes it.
struct Source {
  ExpertRole role;
  gguf::TensorType type;
  uint64_t n_in, n_out;
  size_t expert_bytes;
  const std::byte* data;
};

MatrixView rows_of(const Source& source, uint64_t first, uint64_t count) {
  const auto row_bytes = static_cast<size_t>(gguf::row_bytes(source.type, source.n_in));
  return {source.type, static_cast<uint32_t>(source.n_in), static_cast<uint32_t>(count), row_bytes,
          source.data + static_cast<size_t>(first) * row_bytes};
}

LayerExperts weights_of(const std::vector<Source>& sources, uint32_t n_experts) {
  LayerExperts weights;
  weights.n_experts = n_experts;
  for (const Source& source : sources) {
    switch (source.role) {
      case ExpertRole::kGate:
        weights.first.gate = rows_of(source, 0, source.n_out);
        weights.gate_stride = source.expert_bytes;
        break;
      case ExpertRole::kUp:
        weights.first.up = rows_of(source, 0, source.n_out);
        weights.up_stride = source.expert_bytes;
        break;
      case ExpertRole::kGateUp:
        weights.first.gate = rows_of(source, 0, source.n_out / 2);
        weights.first.up = rows_of(source, source.n_out / 2, source.n_out / 2);
        weights.gate_stride = weights.up_stride = source.expert_bytes;
        break;
      case ExpertRole::kDown:
        weights.first.down = rows_of(source, 0, source.n_out);
        weights.down_stride = source.expert_bytes;
        break;
    }
  }
  return weights;
}

Result<void> check_types(uint32_t layer, const LayerExperts& weights) {
  for (const MatrixView* matrix : {&weights.first.gate, &weights.first.up, &weights.first.down})
    if (!kernels::is_supported(matrix->type))
      return Error::unsupported("layer {}: experts of type {} cannot be computed", layer,
                                gguf::type_info(matrix->type).name);
  return {};
}

bool is_alike(const MatrixView& a, const MatrixView& b) {
  return a.type == b.type && a.n_in == b.n_in && a.n_out == b.n_out;
}

bool is_alike(const LayerExperts& a, const LayerExperts& b) {
  return is_alike(a.first.gate, b.first.gate) && is_alike(a.first.up, b.first.up) &&
         is_alike(a.first.down, b.first.down);
}

uint64_t bytes_of_expert(const LayerExperts& weights) {
  const auto bytes = [](const MatrixView& matrix) {
    return uint64_t{matrix.row_bytes} * matrix.n_out;
  };
  return bytes(weights.first.gate) + bytes(weights.first.up) + bytes(weights.first.down);
}

}  // namespace

Result<void> HeldExperts::add(const std::shared_ptr<const gguf::SliceFile>& file) {
  const gguf::Slice& slice = file->slice();
  const ModelFacts facts{slice.source, slice.n_embd, slice.n_experts, slice.group_size};
  auto checked = check_model(facts);
  if (!checked) return std::move(checked.error()).in(file->path());
  std::vector<std::pair<uint32_t, HeldRange>> ranges;
  for (const gguf::SliceLayer& layer : slice.layers) {
    std::vector<Source> sources;
    for (const gguf::SliceMatrix& matrix : layer.matrices)
      sources.push_back({matrix.role, matrix.type, matrix.n_in, matrix.n_out,
                         static_cast<size_t>(matrix.expert_bytes), matrix.data.data()});
    HeldRange range{layer.experts, weights_of(sources, layer.experts.count()), file};
    checked = check_range(layer.layer, range);
    if (!checked) return std::move(checked.error()).in(file->path());
    ranges.emplace_back(layer.layer, std::move(range));
  }
  take(facts, std::move(ranges));
  return {};
}

Result<void> HeldExperts::add(const gguf::Manifest& manifest, gguf::UnitId unit,
                              std::span<const ByteSpan> ranges, std::shared_ptr<const void> owner) {
  const gguf::ExpertShape& shape = manifest.shape();
  const ModelFacts facts{manifest.model_hash(), shape.n_embd, shape.n_experts, shape.group_size};
  KVASIR_TRY_VOID(check_model(facts));
  const auto entries = manifest.ranges(unit);
  if (entries.empty())
    return Error::invalid("the model has no group {} of experts in layer {}", unit.group,
                          unit.layer);
  if (ranges.size() != entries.size())
    return Error::invalid("layer {}, group {}: {} ranges, must be {}", unit.layer, unit.group,
                          ranges.size(), entries.size());
  const gguf::ExpertRange experts = manifest.experts(unit);
  std::vector<Source> sources;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const gguf::ManifestEntry& entry = *entries[i];
    if (ranges[i].size() != entry.bytes)
      return Error::invalid("{}: {} bytes, must be {}", entry.name, ranges[i].size(), entry.bytes);
    if (reinterpret_cast<uintptr_t>(ranges[i].data()) % kAddressMultiple != 0)
      return Error::invalid("{}: the address is no multiple of {}", entry.name, kAddressMultiple);
    sources.push_back({gguf::parse_expert_tensor_name(entry.name)->role, entry.type, entry.dims[0],
                       entry.dims[1], ranges[i].size() / experts.count(), ranges[i].data()});
  }
  HeldRange range{experts, weights_of(sources, experts.count()), std::move(owner)};
  KVASIR_TRY_VOID(check_range(unit.layer, range));
  std::vector<std::pair<uint32_t, HeldRange>> taken;
  taken.emplace_back(unit.layer, std::move(range));
  take(facts, std::move(taken));
  return {};
}

Result<void> HeldExperts::check_model(const ModelFacts& facts) const {
  if (model_hash_.empty()) return {};
  if (facts.hash != model_hash_)
    return Error::invalid("experts of the model {}, but those of {} are held", facts.hash,
                          model_hash_)
        .with_hint("one worker holds experts of one model");
  if (facts.n_embd != n_embd_ || facts.n_experts != n_experts_ || facts.group_size != group_size_)
    return Error::invalid("{} embeddings, {} experts in groups of {}; held are {}, {} and {}",
                          facts.n_embd, facts.n_experts, facts.group_size, n_embd_, n_experts_,
                          group_size_);
  return {};
}

Result<void> HeldExperts::check_range(uint32_t layer, const HeldRange& range) const {
  KVASIR_TRY_VOID(check_types(layer, range.weights));
  const auto held = layers_.find(layer);
  if (held == layers_.end()) return {};
  for (const HeldRange& other : held->second) {
    if (range.experts.begin < other.experts.end && other.experts.begin < range.experts.end)
      return Error::invalid("layer {}: some of the experts {}-{} are held already", layer,
                            range.experts.begin, range.experts.end - 1);
    if (!is_alike(range.weights, other.weights))
      return Error::invalid("layer {}: experts {}-{} have other types or shapes than those held",
                            layer, range.experts.begin, range.experts.end - 1);
  }
  return {};
}

void HeldExperts::take(const ModelFacts& facts,
                       std::vector<std::pair<uint32_t, HeldRange>>&& ranges) {
  model_hash_ = facts.hash;
  n_embd_ = facts.n_embd;
  n_experts_ = facts.n_experts;
  group_size_ = facts.group_size;
  for (auto& [layer, range] : ranges) {
    std::vector<HeldRange>& held = layers_[layer];
    const auto place = std::upper_bound(
        held.begin(), held.end(), range,
        [](const HeldRange& a, const HeldRange& b) { return a.experts.begin < b.experts.begin; });
    held.insert(place, std::move(range));
  }
}

bool HeldExperts::remove(gguf::UnitId unit) {
  const auto held = layers_.find(unit.layer);
  if (held == layers_.end()) return false;
  const uint64_t first = uint64_t{unit.group} * group_size_;
  if (std::erase_if(held->second,
                    [&](const HeldRange& range) { return range.experts.begin == first; }) == 0)
    return false;
  if (held->second.empty()) layers_.erase(held);
  return true;
}

std::optional<ExpertView> HeldExperts::find(uint32_t layer, uint32_t expert) const {
  const std::span<const HeldRange> ranges = this->layer(layer);
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), expert,
      [](uint32_t wanted, const HeldRange& range) { return wanted < range.experts.begin; });
  if (after == ranges.begin()) return std::nullopt;
  const HeldRange& range = *(after - 1);
  if (expert >= range.experts.end) return std::nullopt;
  return range.weights.expert(expert - range.experts.begin);
}

std::span<const HeldRange> HeldExperts::layer(uint32_t layer) const {
  const auto held = layers_.find(layer);
  if (held == layers_.end()) return {};
  return held->second;
}

std::vector<uint32_t> HeldExperts::layers() const {
  std::vector<uint32_t> numbers;
  for (const auto& [layer, ranges] : layers_) numbers.push_back(layer);
  return numbers;
}

std::vector<gguf::UnitId> HeldExperts::units() const {
  std::vector<gguf::UnitId> ids;
  for (const auto& [layer, ranges] : layers_)
    for (const HeldRange& range : ranges)
      for (uint32_t first = range.experts.begin; first < range.experts.end; first += group_size_)
        ids.push_back({layer, first / group_size_});
  return ids;
}

uint64_t HeldExperts::expert_count() const {
  uint64_t count = 0;
  for (const auto& [layer, ranges] : layers_)
    for (const HeldRange& range : ranges) count += range.experts.count();
  return count;
}

uint64_t HeldExperts::bytes() const {
  uint64_t sum = 0;
  for (const auto& [layer, ranges] : layers_)
    for (const HeldRange& range : ranges)
      sum += range.experts.count() * bytes_of_expert(range.weights);
  return sum;
}

}  // namespace kvasir::expert
