#include "model/model_manifest.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <filesystem>
#include <mutex>
#include <utility>

#include "base/sha256.h"
#include "gguf/file_range.h"
#include "gguf/text_check.h"
#include "model/file_state.h"

namespace kvasir::model {
namespace {

using gguf::ManifestEntry;
using gguf::ManifestKey;
using gguf::ManifestPart;

// Tensors from this size on are hashed first, since one tensor is one thread's work. Smaller: disks
// read here and there for nothing; larger: one thread is still busy when all others are done.
constexpr uint64_t kLargeBytes = uint64_t{64} << 20;

class KeyList {
 public:
  explicit KeyList(std::string_view architecture) : prefix_(std::string(architecture) + ".") {}

  void add(const std::string& name, std::string value) {
    keys_.push_back({name, std::move(value)});
  }
  void own(const std::string& name, uint64_t value) { add(prefix_ + name, std::to_string(value)); }
  void own(const std::string& name, std::string value) { add(prefix_ + name, std::move(value)); }

  std::vector<ManifestKey> sorted() && {
    std::sort(keys_.begin(), keys_.end(),
              [](const ManifestKey& a, const ManifestKey& b) { return a.name < b.name; });
    return std::move(keys_);
  }

 private:
  std::string prefix_;
  std::vector<ManifestKey> keys_;
};

// Floats by their bits: no two ways to print one number.
std::string bits_text(double value) {
  return fmt::format("f64:{:016x}", std::bit_cast<uint64_t>(value));
}
std::string bits_text(float value) {
  return fmt::format("f32:{:08x}", std::bit_cast<uint32_t>(value));
}

Result<uint32_t> group_size(const gguf::Metadata& metadata) {
  KVASIR_TRY(uint64_t size, metadata.get_uint_or(gguf::kGroupSizeKey, gguf::kGroupSizeDefault));
  if (size == 0 || size > gguf::kUnitExpertsMax)
    return Error::corrupt("key '{}': {} is outside 1..{}", gguf::kGroupSizeKey, size,
                          gguf::kUnitExpertsMax);
  return static_cast<uint32_t>(size);
}

std::string kinds_text(const HyperParameters& hp) {
  std::string text;
  for (LayerKind kind : hp.layer_kinds) text += kind == LayerKind::kAttention ? 'a' : 'd';
  return text;
}

void add_delta_net_keys(const HyperParameters& hp, KeyList& keys) {
  keys.own("expert_shared_feed_forward_length", hp.shared_expert_width);
  keys.own("ssm.group_count", hp.n_key_heads);
  keys.own("ssm.time_step_rank", hp.n_value_heads);
  keys.own("ssm.state_size", hp.delta_head_dim);
  keys.own("ssm.conv_kernel", hp.conv_kernel);
  const bool tiled = hp.value_head_order == ValueHeadOrder::kTiled;
  keys.own("ssm.v_head_reordered", std::string(tiled ? "true" : "false"));
}

// In place of a hash that is not known yet.
const std::string kNoHash(64, '0');

// No hash is right yet; everything else is known from headers alone.
struct Outline {
  std::vector<ManifestPart> parts;
  std::vector<ManifestKey> keys;
  std::vector<ManifestEntry> entries;
};

Result<void> add_units(const gguf::TensorView& tensor, const HyperParameters& hp, uint32_t group,
                       std::vector<ManifestEntry>& entries) {
  const gguf::TensorInfo& info = *tensor.info;
  if (info.n_dims != 3 || info.dims[2] != hp.n_experts)
    return Error::corrupt("tensor '{}': holds experts, but not {} of them", info.name,
                          hp.n_experts);
  const uint64_t expert_bytes = info.bytes / hp.n_experts;
  for (uint32_t begin = 0; begin < hp.n_experts; begin += group) {
    const gguf::ExpertRange unit = gguf::group_experts(begin / group, group, hp.n_experts);
    entries.push_back({info.name, info.type, info.n_dims, info.dims, unit, kNoHash,
                       static_cast<uint32_t>(tensor.part), info.offset + begin * expert_bytes,
                       unit.count() * expert_bytes});
  }
  return {};
}

Result<Outline> outline(const Model& model) {
  Outline result;
  const gguf::ModelFile& file = *model.file;
  for (size_t part = 0; part < file.parts(); ++part)
    result.parts.push_back({std::filesystem::path(file.part_file(part).path()).filename().string(),
                            file.part_file(part).bytes().size()});
  KVASIR_TRY(result.keys, manifest_keys(model));
  KVASIR_TRY(const uint32_t group, group_size(file.metadata()));
  for (const gguf::TensorView& tensor : file.tensors()) {
    const gguf::TensorInfo& info = *tensor.info;
    if (!gguf::is_manifest_name(info.name))
      return Error::unsupported("tensor '{}': a manifest cannot hold this name",
                                gguf::printable(info.name));
    if (gguf::parse_expert_tensor_name(info.name)) {
      KVASIR_TRY_VOID(add_units(tensor, model.hp, group, result.entries));
      continue;
    }
    result.entries.push_back({info.name, info.type, info.n_dims, info.dims, std::nullopt, kNoHash,
                              static_cast<uint32_t>(tensor.part), info.offset, info.bytes});
  }
  return result;
}

// A contradiction, or a manifest that nobody would read, is found before anything is hashed.
Result<void> check_outline(const Outline& facts) {
  KVASIR_TRY(const gguf::Manifest trial,
             gguf::Manifest::build(kNoHash, facts.parts, facts.keys, facts.entries));
  const size_t bytes = trial.text().size();
  if (bytes > gguf::kManifestBytesMax)
    return Error::limit("its manifest would have {} bytes, more than {}", bytes,
                        gguf::kManifestBytesMax)
        .with_hint(fmt::format("make units larger with the key {}", gguf::kGroupSizeKey));
  return {};
}

// Fills in all hashes; the order in which it goes through them is that of the files, so that disks
// read on, after the largest tensors.
class Hasher {
 public:
  Hasher(const gguf::ModelFile& file, std::vector<ManifestEntry>& entries, const HashWatch& watch)
      : file_(file), watch_(watch) {
    for (ManifestEntry& entry : entries) {
      order_.push_back(&entry);
      all_ += entry.bytes;
    }
    std::sort(order_.begin(), order_.end(), [](const auto* a, const auto* b) {
      return std::pair(a->part, a->offset) < std::pair(b->part, b->offset);
    });
    std::stable_sort(order_.begin(), order_.end(), [](const auto* a, const auto* b) {
      return std::max(a->bytes, kLargeBytes) > std::max(b->bytes, kLargeBytes);
    });
  }

  // False if the watch stopped it.
  Result<bool> run(ThreadPool& pool) {
    std::vector<gguf::RangeReader> readers(pool.threads());
    pool.run(order_.size(), [&](size_t index, size_t thread) {
      if (stop_.load(std::memory_order_relaxed)) return;
      hash(*order_[index], readers[thread], thread == 0);
    });
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return !stop_;
  }

 private:
  void hash(ManifestEntry& entry, gguf::RangeReader& reader, bool is_caller) {
    Sha256 hash;
    const auto piece = [&](ByteSpan bytes) -> Result<bool> {
      hash.update(bytes);
      const uint64_t done = done_.fetch_add(bytes.size(), std::memory_order_relaxed);
      if (is_caller && watch_ && !watch_(done + bytes.size(), all_)) stop_ = true;
      return !stop_.load(std::memory_order_relaxed);
    };
    auto read = reader.read(file_.part_file(entry.part), entry.offset, entry.bytes, piece);
    if (read && *read) entry.sha256 = hash.hex();
    if (!read) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::move(read.error());
      stop_ = true;
    }
  }

  const gguf::ModelFile& file_;
  const HashWatch& watch_;
  std::vector<ManifestEntry*> order_;
  uint64_t all_ = 0;
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::optional<Error> error_;  // guarded by mutex_
};

Error in_file(Error error, const Model& model) {
  return std::move(error).in(model.file->part_file(0).path());
}

Result<void> check_entry_sets(const std::vector<ManifestEntry>& wanted,
                              const std::vector<ManifestEntry>& found) {
  const size_t common = std::min(wanted.size(), found.size());
  for (size_t i = 0; i < common; ++i) {
    const ManifestEntry& a = wanted[i];
    const ManifestEntry& b = found[i];
    if (a.name != b.name || a.unit != b.unit)
      return Error::corrupt("the manifest has tensor '{}' where the model has '{}'", a.name,
                            b.name);
    if (a.type != b.type || a.dims != b.dims || a.n_dims != b.n_dims)
      return Error::corrupt("tensor '{}': type or shape is not that of the manifest", b.name);
  }
  if (wanted.size() != found.size())
    return Error::corrupt("the manifest has {} tensors and units, the model {}", wanted.size(),
                          found.size());
  return {};
}

}  // namespace

Result<std::vector<ManifestKey>> manifest_keys(const Model& model) {
  const HyperParameters& hp = model.hp;
  KVASIR_TRY(const uint32_t group, group_size(model.file->metadata()));
  KeyList keys(architecture_name(hp.architecture));
  keys.add("general.architecture", std::string(architecture_name(hp.architecture)));
  keys.add(std::string(gguf::kGroupSizeKey), std::to_string(group));
  keys.own("block_count", hp.n_layers + hp.n_mtp_blocks);
  keys.own("nextn_predict_layers", hp.n_mtp_blocks);
  keys.own("layer_kinds", kinds_text(hp));
  keys.own("embedding_length", hp.n_embd);
  keys.own("vocab_size", hp.n_vocab);
  keys.own("attention.head_count", hp.n_heads);
  keys.own("attention.head_count_kv", hp.n_kv_heads);
  keys.own("attention.key_length", hp.head_dim);
  keys.own("attention.layer_norm_rms_epsilon", bits_text(hp.rms_eps));
  keys.own("rope.dimension_count", hp.rope_dims);
  keys.own("rope.freq_base", bits_text(hp.rope_base));
  keys.own("expert_count", hp.n_experts);
  keys.own("expert_used_count", hp.n_experts_used);
  keys.own("expert_feed_forward_length", hp.expert_width);
  if (hp.architecture == Architecture::kQwen35Moe) add_delta_net_keys(hp, keys);
  return std::move(keys).sorted();
}

Result<std::optional<gguf::Manifest>> make_manifest(const Model& model, ThreadPool& pool,
                                                    const HashWatch& watch) {
  auto facts = outline(model);
  if (!facts) return in_file(std::move(facts.error()), model);
  auto checked = check_outline(*facts);
  if (!checked) return in_file(std::move(checked.error()), model);
  KVASIR_TRY(const auto before, file_states(*model.file));
  Hasher hasher(*model.file, facts->entries, watch);
  KVASIR_TRY(const bool done, hasher.run(pool));
  if (!done) return std::nullopt;
  KVASIR_TRY(const auto after, file_states(*model.file));
  if (before != after) return in_file(Error::io("the file changed while it was hashed"), model);

  gguf::sort_entries(facts->entries);
  std::string hash = sha256_hex(bytes_of(gguf::identity_text(facts->keys, facts->entries)));
  KVASIR_TRY(gguf::Manifest manifest,
             gguf::Manifest::build(std::move(hash), std::move(facts->parts), std::move(facts->keys),
                                   std::move(facts->entries)));
  return std::optional(std::move(manifest));
}

Result<void> check_same_model(const gguf::Manifest& manifest, const Model& model) {
  auto facts = outline(model);
  if (!facts) return in_file(std::move(facts.error()), model);
  const auto& wanted = manifest.keys();
  if (wanted != facts->keys) {
    const auto [a, b] =
        std::mismatch(wanted.begin(), wanted.end(), facts->keys.begin(), facts->keys.end());
    const auto show = [](const auto& at, const auto& end) {
      return at == end ? std::string("nothing")
                       : gguf::printable(fmt::format("{} {}", at->name, at->value));
    };
    return in_file(Error::corrupt("the manifest is of another model: it has '{}', the model '{}'",
                                  show(a, wanted.end()), show(b, facts->keys.end())),
                   model);
  }
  gguf::sort_entries(facts->entries);
  auto same = check_entry_sets(manifest.entries(), facts->entries);
  if (!same) return in_file(std::move(same.error()), model);
  return {};
}

}  // namespace kvasir::model
