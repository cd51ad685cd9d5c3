// The experts that a worker holds: units of slices, or units kept as bare byte ranges, found by
// layer and expert. Says nothing of where they came from and checks no hash: that comes before
// (gguf/manifest_check.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "expert/expert_function.h"
#include "gguf/manifest.h"
#include "gguf/slice.h"

namespace kvasir::expert {

// Neighbouring experts of one layer.
struct HeldRange {
  gguf::ExpertRange experts;
  // For experts.begin .. end - 1: index 0 is experts.begin. n_experts is their number.
  LayerExperts weights;
  std::shared_ptr<const void> owner;  // keeps the bytes; null: the caller does
};

// Thread-safe for reading; adding and removing is one thread's, while nobody reads.
class HeldExperts {
 public:
  // Everything of a slice, or nothing if it fails: kInvalid for another model than that of what is
  // held, for experts that are held already, or for types and shapes that differ within a layer;
  // kUnsupported for a type that no kernel computes.
  Result<void> add(const std::shared_ptr<const gguf::SliceFile>& slice);

  // One unit without a wrapper: its ranges in the manifest's order (gate, up, down, or gate_up,
  // down), each of the manifest's size, at addresses that are multiples of 8. `owner` keeps them.
  Result<void> add(const gguf::Manifest& manifest, gguf::UnitId unit,
                   std::span<const ByteSpan> ranges, std::shared_ptr<const void> owner);

  // The range that was added with the first expert of this unit: a unit, or all of a slice's layer.
  // False if there is none.
  bool remove(gguf::UnitId unit);

  // Nothing for an expert that is not held.
  std::optional<ExpertView> find(uint32_t layer, uint32_t expert) const;

  // Ascending by first expert; empty for a layer of which nothing is held.
  std::span<const HeldRange> layer(uint32_t layer) const;
  std::vector<uint32_t> layers() const;
  // Complete units only.
  std::vector<gguf::UnitId> units() const;
  uint64_t expert_count() const;
  uint64_t bytes() const;

  // Of the model; empty and 0 while nothing was ever added.
  const std::string& model_hash() const { return model_hash_; }
  uint32_t n_embd() const { return n_embd_; }
  uint32_t n_experts() const { return n_experts_; }
  uint32_t group_size() const { return group_size_; }

 private:
  struct ModelFacts {
    std::string_view hash;
    uint32_t n_embd, n_experts, group_size;
  };
  Result<void> check_model(const ModelFacts& facts) const;
  Result<void> check_range(uint32_t layer, const HeldRange& range) const;
  void take(const ModelFacts& facts, std::vector<std::pair<uint32_t, HeldRange>>&& ranges);

  std::string model_hash_;
  uint32_t n_embd_ = 0;
  uint32_t n_experts_ = 0;
  uint32_t group_size_ = 0;
  std::map<uint32_t, std::vector<HeldRange>> layers_;
};

}  // namespace kvasir::expert
