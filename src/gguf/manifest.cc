#include "gguf/manifest.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/bytes.h"
#include "gguf/header.h"
#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

constexpr size_t kKeyValueBytesMax = 4096;
constexpr uint64_t kWidthMax = 65'536;  // of embeddings and experts

bool is_word(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
}

std::string dims_text(const ManifestEntry& entry) {
  std::string text;
  for (uint32_t i = 0; i < entry.n_dims; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", entry.dims[i]);
  return text;
}

std::string entry_text(const ManifestEntry& entry) {
  const std::string unit =
      entry.unit ? fmt::format("{}-{}", entry.unit->begin, entry.unit->end - 1) : "-";
  return fmt::format("tensor {} {} {} {} {}", entry.name, type_info(entry.type).name,
                     dims_text(entry), unit, entry.sha256);
}

uint32_t first_expert(const ManifestEntry& entry) {
  return entry.unit ? entry.unit->begin : 0;
}

bool is_before(const ManifestEntry& a, const ManifestEntry& b) {
  const int order = a.name.compare(b.name);
  return order < 0 || (order == 0 && first_expert(a) < first_expert(b));
}

Result<void> check_parts(const std::vector<ManifestPart>& parts) {
  if (parts.empty()) return Error::corrupt("no part is named");
  if (parts.size() > kManifestPartsMax)
    return Error::limit("{} parts are more than {}", parts.size(), kManifestPartsMax);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = parts[i].name;
    if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
        name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
      return Error::corrupt("part {}: '{}' is no file name", i, printable(name));
    if (parts[i].bytes == 0) return Error::corrupt("part {}: the file is empty", i);
  }
  return {};
}

Result<void> check_keys(const std::vector<ManifestKey>& keys) {
  if (keys.size() > kManifestKeysMax)
    return Error::limit("{} keys are more than {}", keys.size(), kManifestKeysMax);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!is_word(keys[i].name) || !is_word(keys[i].value) ||
        keys[i].name.size() + keys[i].value.size() > kKeyValueBytesMax)
      return Error::corrupt("key '{}': name or value cannot stand in a manifest",
                            printable(keys[i].name));
    if (i > 0 && keys[i].name <= keys[i - 1].name)
      return Error::corrupt("key '{}': is not behind '{}'", printable(keys[i].name),
                            printable(keys[i - 1].name));
  }
  return {};
}

const ManifestKey* find_key(const std::vector<ManifestKey>& keys, std::string_view name) {
  const auto found = std::lower_bound(
      keys.begin(), keys.end(), name,
      [](const ManifestKey& key, std::string_view wanted) { return key.name < wanted; });
  return found != keys.end() && found->name == name ? &*found : nullptr;
}

Result<uint32_t> read_count(const std::vector<ManifestKey>& keys, const std::string& name,
                            uint64_t max) {
  const ManifestKey* key = find_key(keys, name);
  if (key == nullptr) return Error::corrupt("key '{}' is missing", printable(name));
  uint32_t value = 0;
  const char* end = key->value.data() + key->value.size();
  const auto [stop, error] = std::from_chars(key->value.data(), end, value);
  if (error != std::errc() || stop != end || value == 0 || value > max ||
      std::to_string(value) != key->value)
    return Error::corrupt("key '{}': '{}' is no whole number from 1 to {}", printable(name),
                          printable(key->value), max);
  return value;
}

Result<ExpertShape> read_shape(const std::vector<ManifestKey>& keys) {
  const ManifestKey* architecture = find_key(keys, "general.architecture");
  if (architecture == nullptr) return Error::corrupt("key 'general.architecture' is missing");
  const std::string& prefix = architecture->value;
  ExpertShape shape;
  KVASIR_TRY(shape.n_experts, read_count(keys, prefix + ".expert_count", kUnitExpertsMax));
  KVASIR_TRY(shape.group_size, read_count(keys, std::string(kGroupSizeKey), kUnitExpertsMax));
  KVASIR_TRY(shape.n_embd, read_count(keys, prefix + ".embedding_length", kWidthMax));
  KVASIR_TRY(shape.width, read_count(keys, prefix + ".expert_feed_forward_length", kWidthMax));
  return shape;
}

// Of the whole tensor.
Result<uint64_t> tensor_bytes(const ManifestEntry& entry) {
  if (find_type(static_cast<uint32_t>(entry.type)) == nullptr)
    return Error::corrupt("tensor '{}': type {} is unknown", entry.name,
                          static_cast<uint32_t>(entry.type));
  if (entry.n_dims < 1 || entry.n_dims > 4)
    return Error::corrupt("tensor '{}': has {} dimensions", entry.name, entry.n_dims);
  for (uint32_t i = 0; i < 4; ++i)
    if (entry.dims[i] == 0 || (i >= entry.n_dims && entry.dims[i] != 1))
      return Error::corrupt("tensor '{}': dimension {} is {}", entry.name, i, entry.dims[i]);
  if (entry.dims[0] % type_info(entry.type).block_length != 0)
    return Error::corrupt("tensor '{}': rows of {} are no whole blocks of {}", entry.name,
                          entry.dims[0], type_info(entry.type).name);
  std::optional<uint64_t> bytes = checked_mul(entry.dims[0] / type_info(entry.type).block_length,
                                              type_info(entry.type).block_bytes);
  for (uint32_t i = 1; i < entry.n_dims && bytes; ++i) bytes = checked_mul(*bytes, entry.dims[i]);
  if (!bytes) return Error::corrupt("tensor '{}': its size does not fit 64 bits", entry.name);
  return *bytes;
}

// Tensors of experts come in units, others whole.
Result<void> check_unit(const ManifestEntry& entry, const ExpertShape& shape) {
  const auto tensor = parse_expert_tensor_name(entry.name);
  if (tensor.has_value() != entry.unit.has_value())
    return Error::corrupt(
        "tensor '{}': {}", entry.name,
        tensor ? "holds experts, but names no unit" : "names a unit, but holds no experts");
  if (!tensor) return {};
  const bool is_down = tensor->role == ExpertRole::kDown;
  const uint64_t n_in = is_down ? shape.width : shape.n_embd;
  const uint64_t n_out = is_down                               ? shape.n_embd
                         : tensor->role == ExpertRole::kGateUp ? 2 * uint64_t{shape.width}
                                                               : shape.width;
  const std::array<uint64_t, 4> dims = {n_in, n_out, shape.n_experts, 1};
  if (entry.n_dims != 3 || entry.dims != dims)
    return Error::corrupt("tensor '{}': has shape {}, the keys imply {},{},{}", entry.name,
                          dims_text(entry), n_in, n_out, shape.n_experts);
  if (*entry.unit !=
          group_experts(entry.unit->begin / shape.group_size, shape.group_size, shape.n_experts) ||
      !is_whole_groups(*entry.unit, shape.group_size, shape.n_experts))
    return Error::corrupt("tensor '{}': {}-{} is no group of {} of {} experts", entry.name,
                          entry.unit->begin, entry.unit->end, shape.group_size, shape.n_experts);
  return {};
}

Result<void> check_entry(const ManifestEntry& entry, const ExpertShape& shape,
                         const std::vector<ManifestPart>& parts) {
  if (!is_manifest_name(entry.name))
    return Error::corrupt("tensor '{}': the name cannot stand in a manifest",
                          printable(entry.name));
  KVASIR_TRY(uint64_t bytes, tensor_bytes(entry));
  KVASIR_TRY_VOID(check_unit(entry, shape));
  if (entry.unit) bytes = bytes / shape.n_experts * entry.unit->count();
  if (!is_sha256(entry.sha256))
    return Error::corrupt("tensor '{}': '{}' is no SHA-256", entry.name, printable(entry.sha256));
  if (entry.bytes != bytes)
    return Error::corrupt("tensor '{}': {} bytes, type and shape make {}", entry.name, entry.bytes,
                          bytes);
  if (entry.part >= parts.size())
    return Error::corrupt("tensor '{}': in part {} of {}", entry.name, entry.part, parts.size());
  const uint64_t part_bytes = parts[entry.part].bytes;
  if (entry.offset > part_bytes || entry.bytes > part_bytes - entry.offset)
    return Error::corrupt("tensor '{}': {} bytes at {} do not fit part {} of {} bytes", entry.name,
                          entry.bytes, entry.offset, entry.part, part_bytes);
  return {};
}

// Sorted entries of one name: the units of one tensor, all of them, or one whole tensor.
Result<void> check_tensor(const ManifestEntry* first, const ManifestEntry* last,
                          const ExpertShape& shape) {
  if (!first->unit) {
    if (last - first == 1) return {};
    return Error::corrupt("tensor '{}': is there twice", first->name);
  }
  uint32_t next = 0;
  for (const ManifestEntry* entry = first; entry < last; ++entry) {
    if (entry->type != first->type || entry->dims != first->dims)
      return Error::corrupt("tensor '{}': its units differ in type or shape", first->name);
    if (entry->unit->begin != next)
      return Error::corrupt("tensor '{}': expert {} comes where {} must", first->name,
                            entry->unit->begin, next);
    next = entry->unit->end;
  }
  if (next == shape.n_experts) return {};
  return Error::corrupt("tensor '{}': experts from {} on are missing", first->name, next);
}

Result<void> check_tensors(const std::vector<ManifestEntry>& entries, const ExpertShape& shape) {
  const ManifestEntry* const end = entries.data() + entries.size();
  for (const ManifestEntry* first = entries.data(); first < end;) {
    const ManifestEntry* last = first;
    while (last < end && last->name == first->name) ++last;
    KVASIR_TRY_VOID(check_tensor(first, last, shape));
    first = last;
  }
  return {};
}

Result<void> check_overlaps(const std::vector<ManifestEntry>& entries) {
  std::vector<const ManifestEntry*> sorted;
  sorted.reserve(entries.size());
  for (const ManifestEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->part, a->offset) < std::pair(b->part, b->offset);
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const ManifestEntry& before = *sorted[i - 1];
    if (before.part == sorted[i]->part && before.offset + before.bytes > sorted[i]->offset)
      return Error::corrupt("tensor '{}': overlaps '{}'", sorted[i]->name, before.name);
  }
  return {};
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_manifest_name(std::string_view name) {
  return name.size() <= kTensorNameBytesMax && is_word(name);
}

Result<Manifest> Manifest::build(std::string model_hash, std::vector<ManifestPart> parts,
                                 std::vector<ManifestKey> keys,
                                 std::vector<ManifestEntry> entries) {
  if (!is_sha256(model_hash))
    return Error::corrupt("'{}' is no SHA-256 of a model", printable(model_hash));
  KVASIR_TRY_VOID(check_parts(parts));
  KVASIR_TRY_VOID(check_keys(keys));
  Manifest manifest;
  KVASIR_TRY(manifest.shape_, read_shape(keys));
  for (const ManifestEntry& entry : entries)
    KVASIR_TRY_VOID(check_entry(entry, manifest.shape_, parts));
  sort_entries(entries);
  KVASIR_TRY_VOID(check_tensors(entries, manifest.shape_));
  KVASIR_TRY_VOID(check_overlaps(entries));
  manifest.model_hash_ = std::move(model_hash);
  manifest.parts_ = std::move(parts);
  manifest.keys_ = std::move(keys);
  manifest.entries_ = std::move(entries);
  KVASIR_TRY_VOID(manifest.index_units());
  return manifest;
}

Result<void> Manifest::index_units() {
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const ManifestEntry& entry = entries_[i];
    const auto tensor = parse_expert_tensor_name(entry.name);
    if (!tensor) continue;
    const UnitId id{tensor->layer, entry.unit->begin / shape_.group_size};
    Ranges& ranges = units_.try_emplace(id, Ranges{kNone, kNone, kNone}).first->second;
    const size_t slot = tensor->role == ExpertRole::kDown ? 2 : tensor->role == ExpertRole::kUp;
    if (ranges[slot] != kNone)
      return Error::corrupt("tensor '{}': the gate is in '{}' as well", entry.name,
                            entries_[ranges[slot]].name);
    ranges[slot] = i;
  }
  for (const auto& [id, ranges] : units_) {
    const bool is_fused =
        ranges[0] != kNone &&
        parse_expert_tensor_name(entries_[ranges[0]].name)->role == ExpertRole::kGateUp;
    if (ranges[0] == kNone || ranges[2] == kNone || (ranges[1] == kNone) != is_fused)
      return Error::corrupt("layer {}: gate, up or down is missing, or is there twice", id.layer);
  }
  return {};
}

std::vector<UnitId> Manifest::units() const {
  std::vector<UnitId> ids;
  for (const auto& [id, ranges] : units_) ids.push_back(id);
  return ids;
}

std::vector<const ManifestEntry*> Manifest::ranges(UnitId unit) const {
  std::vector<const ManifestEntry*> entries;
  const auto found = units_.find(unit);
  if (found == units_.end()) return entries;
  for (uint32_t index : found->second)
    if (index != kNone) entries.push_back(&entries_[index]);
  return entries;
}

ExpertRange Manifest::experts(UnitId unit) const {
  KVASIR_CHECK(units_.contains(unit));
  return group_experts(unit.group, shape_.group_size, shape_.n_experts);
}

std::string Manifest::text() const {
  std::string text = fmt::format("kvasir-manifest 1\nmodel {}\n", model_hash_);
  for (const ManifestPart& part : parts_)
    text += fmt::format("part {} {}\n", part.bytes, percent_encoded(part.name));
  for (const ManifestKey& key : keys_) text += fmt::format("key {} {}\n", key.name, key.value);
  for (const ManifestEntry& entry : entries_)
    text += fmt::format("{} {} {} {}\n", entry_text(entry), entry.part, entry.offset, entry.bytes);
  return text + "end\n";
}

std::string identity_text(const std::vector<ManifestKey>& keys,
                          const std::vector<ManifestEntry>& entries) {
  std::string text = "kvasir-model 1\n";
  for (const ManifestKey& key : keys) text += fmt::format("key {} {}\n", key.name, key.value);
  for (const ManifestEntry& entry : entries) text += entry_text(entry) + "\n";
  return text;
}

void sort_entries(std::vector<ManifestEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), is_before);
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (char c : text) {
    if (c >= 0x21 && c <= 0x7e && c != '%' && c != '/')
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return encoded;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    uint8_t byte = 0;
    if (text.size() - i < 3) return std::nullopt;
    const char* digits = text.data() + i + 1;
    const auto [stop, error] = std::from_chars(digits, digits + 2, byte, 16);
    if (error != std::errc() || stop != digits + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  if (percent_encoded(decoded) != text) return std::nullopt;
  return decoded;
}

}  // namespace kvasir::gguf
