#include "gguf/slice.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gguf/manifest.h"
#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

Result<uint32_t> read_number(const Metadata& metadata, const std::string& key, uint64_t max) {
  KVASIR_TRY(uint64_t value, metadata.get_uint(key));
  if (value == 0 || value > max)
    return Error::corrupt("key '{}': {} is outside 1..{}", key, value, max);
  return static_cast<uint32_t>(value);
}

// One of the three arrays that say which experts are here.
Result<std::vector<uint32_t>> read_array(const Metadata& metadata, std::string_view key,
                                         uint64_t max) {
  const Value* value = metadata.find(key);
  if (value != nullptr && value->count > kUnitLayersMax)
    return Error::corrupt("key '{}': {} entries are more than {}", key, value->count,
                          kUnitLayersMax);
  KVASIR_TRY(auto numbers, metadata.get_ints(key));
  std::vector<uint32_t> result;
  for (int64_t number : numbers) {
    if (number < 0 || static_cast<uint64_t>(number) > max)
      return Error::corrupt("key '{}': {} is outside 0..{}", key, number, max);
    result.push_back(static_cast<uint32_t>(number));
  }
  return result;
}

Result<void> read_layers(const Metadata& metadata, Slice& slice) {
  KVASIR_TRY(auto layers, read_array(metadata, kSliceLayerKey, kUnitLayersMax - 1));
  KVASIR_TRY(auto first, read_array(metadata, kSliceFirstKey, slice.n_experts - 1));
  KVASIR_TRY(auto count, read_array(metadata, kSliceCountKey, slice.n_experts));
  if (layers.empty() || first.size() != layers.size() || count.size() != layers.size())
    return Error::corrupt("keys kvasir.slice.*: {} layers, {} firsts and {} counts", layers.size(),
                          first.size(), count.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0 && layers[i] <= layers[i - 1])
      return Error::corrupt("key '{}': {} comes after {}", kSliceLayerKey, layers[i],
                            layers[i - 1]);
    const ExpertRange experts{first[i], first[i] + count[i]};
    if (!is_whole_groups(experts, slice.group_size, slice.n_experts))
      return Error::corrupt("layer {}: {} experts from {} on are no whole groups of {} of {}",
                            layers[i], count[i], first[i], slice.group_size, slice.n_experts);
    slice.layers.push_back({layers[i], experts, {}});
  }
  return {};
}

Result<SliceMatrix> read_matrix(const TensorInfo& tensor, ExpertRole role, ExpertRange experts,
                                ByteSpan file) {
  constexpr uint64_t kRowsMax = 131'072;  // gate and up, each of the largest width
  if (tensor.n_dims != 3 || tensor.dims[2] != experts.count())
    return Error::corrupt("tensor '{}': must hold {} experts", printable(tensor.name),
                          experts.count());
  if (tensor.dims[0] > kRowsMax || tensor.dims[1] > kRowsMax)
    return Error::corrupt("tensor '{}': a matrix of {} x {} is too large", printable(tensor.name),
                          tensor.dims[0], tensor.dims[1]);
  SliceMatrix matrix;
  matrix.role = role;
  matrix.type = tensor.type;
  matrix.n_in = static_cast<uint32_t>(tensor.dims[0]);
  matrix.n_out = static_cast<uint32_t>(tensor.dims[1]);
  matrix.expert_bytes = tensor.bytes / experts.count();
  matrix.data = file.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  return matrix;
}

// Every matrix takes rows of n_embd and gives rows of the width, or the other way round.
Result<void> check_shapes(const SliceLayer& layer, Slice& slice) {
  if (slice.width == 0) slice.width = layer.matrices.back().n_in;
  for (const SliceMatrix& matrix : layer.matrices) {
    const bool is_down = matrix.role == ExpertRole::kDown;
    const uint64_t n_out = is_down                              ? slice.n_embd
                           : matrix.role == ExpertRole::kGateUp ? 2 * uint64_t{slice.width}
                                                                : slice.width;
    if (matrix.n_in != (is_down ? slice.width : slice.n_embd) || matrix.n_out != n_out)
      return Error::corrupt("tensor '{}': {} x {} does not fit {} embeddings and a width of {}",
                            expert_tensor_name(layer.layer, matrix.role), matrix.n_in, matrix.n_out,
                            slice.n_embd, slice.width);
  }
  return {};
}

Result<void> read_tensors(const Header& header, ByteSpan file, Slice& slice) {
  std::map<std::string_view, const TensorInfo*> tensors;
  for (const TensorInfo& tensor : header.tensors) tensors.emplace(tensor.name, &tensor);
  size_t used = 0;
  for (SliceLayer& layer : slice.layers) {
    const auto holds = [&](ExpertRole role) {
      return tensors.contains(expert_tensor_name(layer.layer, role));
    };
    std::vector<ExpertRole> roles = {ExpertRole::kGate, ExpertRole::kUp, ExpertRole::kDown};
    if (holds(ExpertRole::kGateUp)) roles = {ExpertRole::kGateUp, ExpertRole::kDown};
    for (ExpertRole role : roles) {
      const auto found = tensors.find(expert_tensor_name(layer.layer, role));
      if (found == tensors.end())
        return Error::corrupt("tensor '{}' is missing", expert_tensor_name(layer.layer, role));
      KVASIR_TRY(SliceMatrix matrix, read_matrix(*found->second, role, layer.experts, file));
      layer.matrices.push_back(matrix);
      ++used;
    }
    KVASIR_TRY_VOID(check_shapes(layer, slice));
  }
  if (used != tensors.size())
    return Error::corrupt("{} tensors belong to none of the experts that it announces",
                          tensors.size() - used);
  return {};
}

}  // namespace

bool is_slice(const Metadata& metadata) {
  return metadata.contains(kSliceVersionKey) || metadata.contains(kSliceSourceKey);
}

uint32_t Slice::n_units() const {
  uint32_t units = 0;
  for (const SliceLayer& layer : layers)
    units += (layer.experts.count() + group_size - 1) / group_size;
  return units;
}

uint64_t Slice::expert_count() const {
  uint64_t count = 0;
  for (const SliceLayer& layer : layers) count += layer.experts.count();
  return count;
}

uint64_t Slice::bytes() const {
  uint64_t sum = 0;
  for (const SliceLayer& layer : layers)
    for (const SliceMatrix& matrix : layer.matrices) sum += matrix.data.size();
  return sum;
}

Result<Slice> parse_slice(const Header& header, ByteSpan file) {
  const Metadata& metadata = header.metadata;
  if (!is_slice(metadata))
    return Error::corrupt("the file is no slice")
        .with_hint("kvasir slice cuts one from a model; kvasir inspect says what a file is");
  KVASIR_TRY(uint64_t version, metadata.get_uint(kSliceVersionKey));
  if (version != kSliceVersion)
    return Error::unsupported("version {} of slices is not known, only {}", version, kSliceVersion);
  Slice slice;
  KVASIR_TRY(slice.source, metadata.get_string(kSliceSourceKey));
  if (!is_sha256(slice.source))
    return Error::corrupt("key '{}': '{}' is no hash of a model", kSliceSourceKey,
                          printable(slice.source));
  KVASIR_TRY(slice.architecture, metadata.get_string("general.architecture"));
  KVASIR_TRY(slice.name, metadata.get_string_or("general.name", ""));
  KVASIR_TRY(slice.n_experts,
             read_number(metadata, slice.architecture + ".expert_count", kUnitExpertsMax));
  KVASIR_TRY(slice.n_embd, read_number(metadata, slice.architecture + ".embedding_length", 65'536));
  KVASIR_TRY(slice.group_size, read_number(metadata, std::string(kGroupSizeKey), kUnitExpertsMax));
  KVASIR_TRY_VOID(read_layers(metadata, slice));
  KVASIR_TRY_VOID(read_tensors(header, file, slice));
  return slice;
}

Result<SliceFile> SliceFile::open(const std::string& path) {
  KVASIR_TRY(auto file, MappedFile::open(path));
  auto header = parse_header(file.bytes());
  if (!header) return std::move(header.error()).in(path);
  auto slice = parse_slice(*header, file.bytes());
  if (!slice) return std::move(slice.error()).in(path);
  return SliceFile(std::move(file), std::move(*slice));
}

}  // namespace kvasir::gguf
