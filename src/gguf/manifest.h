// A model's manifest: the SHA-256 of every tensor and coverage unit, and where their bytes lie.
//
// Grammar (docs/slices.md; one space between words, every line ends with "\n", numbers decimal
// without leading zeros):
//   manifest := "kvasir-manifest 1", "model" hash, part+, key+, tensor+, "end"
//   part     := "part" bytes name              numbered from 0; name percent-encoded, for people
//   key      := "key" name value               ascending by name
//   tensor   := "tensor" name type dims unit hash, place
//   dims     := n{,n}     in ne order          unit := "-" | first expert "-" last expert
//   place    := part offset bytes
//
// Without the lines of the layout (model, part, end) and without places, and with "kvasir-model 1"
// in front, that is the identity text. The model hash is its SHA-256, so a manifest proves itself:
// who knows the model hash can take it from anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/types.h"
#include "gguf/units.h"

namespace kvasir::gguf {

// 512 experts in groups of 8 on 61 layers make 2 MiB. Larger: a stranger's manifest fills a phone.
inline constexpr size_t kManifestBytesMax = size_t{16} << 20;
inline constexpr size_t kManifestPartsMax = 1000;
inline constexpr size_t kManifestKeysMax = 256;

struct ManifestPart {
  std::string name;  // the file's, without folders; never to be opened
  uint64_t bytes = 0;
};

struct ManifestKey {
  std::string name, value;
  bool operator==(const ManifestKey&) const = default;
};

// A whole tensor, or one unit's share of an expert tensor.
struct ManifestEntry {
  std::string name;  // of the tensor; printable ASCII without spaces
  TensorType type = TensorType::kF32;
  uint32_t n_dims = 1;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // of the whole tensor, ne order
  std::optional<ExpertRange> unit;
  std::string sha256;  // 64 lower-case hex digits, of the bytes
  uint32_t part = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What a manifest says about a model's experts; from its keys.
struct ExpertShape {
  uint32_t n_experts = 0;
  uint32_t group_size = 0;
  uint32_t n_embd = 0;
  uint32_t width = 0;
};

// 64 lower-case hex digits.
bool is_sha256(std::string_view text);
// What a manifest can name: 1 to 63 printable ASCII characters without spaces.
bool is_manifest_name(std::string_view name);

// Complete and free of contradictions: extents lie inside their part and do not overlap, every
// layer with experts has all matrices of all of them in whole units. Whether hashes are right is
// another matter (manifest_check.h). Immutable, thread-safe.
class Manifest {
 public:
  // Entries in any order. kCorrupt or kLimit, naming part, key or tensor.
  static Result<Manifest> build(std::string model_hash, std::vector<ManifestPart> parts,
                                std::vector<ManifestKey> keys, std::vector<ManifestEntry> entries);

  const std::string& model_hash() const { return model_hash_; }
  const std::vector<ManifestPart>& parts() const { return parts_; }
  const std::vector<ManifestKey>& keys() const { return keys_; }
  const std::vector<ManifestEntry>& entries() const { return entries_; }  // by name, then expert
  const ExpertShape& shape() const { return shape_; }

  // Ascending by layer, then group. Empty for a model without experts.
  std::vector<UnitId> units() const;
  // Gate, up and down, or gate_up and down, in this order; empty if there is no such unit.
  std::vector<const ManifestEntry*> ranges(UnitId unit) const;
  ExpertRange experts(UnitId unit) const;

  std::string text() const;

 private:
  Manifest() = default;
  Result<void> index_units();

  std::string model_hash_;
  std::vector<ManifestPart> parts_;
  std::vector<ManifestKey> keys_;
  std::vector<ManifestEntry> entries_;
  ExpertShape shape_;
  static constexpr uint32_t kNone = UINT32_MAX;
  using Ranges = std::array<uint32_t, 3>;  // indices of entries: gate or gate_up, up, down
  std::map<UnitId, Ranges> units_;
};

// What the model hash is the SHA-256 of. Keys and entries sorted as in a manifest.
std::string identity_text(const std::vector<ManifestKey>& keys,
                          const std::vector<ManifestEntry>& entries);
void sort_entries(std::vector<ManifestEntry>& entries);

// `text` is a stranger's. Accepted text is what text() writes again, byte for byte. Errors name the
// line.
Result<Manifest> parse_manifest(std::string_view text);

// Bytes outside 0x21..0x7e, '%' and '/' as %XX; for names in line formats.
std::string percent_encoded(std::string_view text);
// Nothing for what percent_encoded() never writes.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace kvasir::gguf
