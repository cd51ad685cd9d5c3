// For *_test.cc and the fuzzer only: the pieces of a small manifest, so that a test can change one
// thing and see what the reader says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "gguf/manifest.h"

namespace kvasir::gguf {

// Layer 0 with gate, up and down, layer 2 with a fused gate_up; 10 experts in groups of 4.
class ManifestPieces {
 public:
  ManifestPieces() {
    parts = {{"small-00001-of-00002.gguf", 0}, {"small-00002-of-00002.gguf", 0}};
    keys = {{"general.architecture", "qwen35moe"},
            {"kvasir.expert_group_size", "4"},
            {"qwen35moe.embedding_length", "64"},
            {"qwen35moe.expert_count", "10"},
            {"qwen35moe.expert_feed_forward_length", "32"}};
    add_experts("blk.0.ffn_gate_exps.weight", TensorType::kQ8_0, {64, 32, 10, 1}, 0);
    add_experts("blk.0.ffn_up_exps.weight", TensorType::kQ8_0, {64, 32, 10, 1}, 0);
    add_experts("blk.0.ffn_down_exps.weight", TensorType::kF16, {32, 64, 10, 1}, 0);
    add_experts("blk.2.ffn_gate_up_exps.weight", TensorType::kQ4_0, {64, 64, 10, 1}, 1);
    add_experts("blk.2.ffn_down_exps.weight", TensorType::kF32, {32, 64, 10, 1}, 1);
    add("output_norm.weight", TensorType::kF32, 1, {64, 1, 1, 1}, std::nullopt, 0, 256);
    sort_entries(entries);
  }

  std::string model_hash() const { return sha256_hex(bytes_of(identity_text(keys, entries))); }
  Result<Manifest> build() const { return Manifest::build(model_hash(), parts, keys, entries); }

  std::vector<ManifestPart> parts;
  std::vector<ManifestKey> keys;
  std::vector<ManifestEntry> entries;

 private:
  void add(const std::string& name, TensorType type, uint32_t n_dims, std::array<uint64_t, 4> dims,
           std::optional<ExpertRange> unit, uint32_t part, uint64_t bytes) {
    const std::string hash = sha256_hex(bytes_of(name + std::to_string(entries.size())));
    entries.push_back({name, type, n_dims, dims, unit, hash, part, parts[part].bytes, bytes});
    parts[part].bytes += bytes;
  }
  void add_experts(const std::string& name, TensorType type, std::array<uint64_t, 4> dims,
                   uint32_t part) {
    for (uint32_t group = 0; group < 3; ++group) {
      const ExpertRange unit = group_experts(group, 4, 10);
      add(name, type, 3, dims, unit, part, row_bytes(type, dims[0]) * dims[1] * unit.count());
    }
  }
};

}  // namespace kvasir::gguf
