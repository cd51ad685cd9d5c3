// For tests and fuzzers of the worker: a few layers of random experts, some of them held.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "expert/held_experts.h"
#include "expert/local_expert_service.h"
#include "expert/test_weights.h"

namespace kvasir::worker {

inline constexpr uint32_t kTestEmbd = 256, kTestWidth = 256;
inline constexpr uint32_t kTestExperts = 8, kTestGroup = 4;

// Rows travel as Q8_K in layer 0, as Q8_0 in layer 1, as f32 in layer 3, where gate and up differ.
// Held are all experts of layers 0 and 3, and 4-7 of layer 1. There is no layer 2.
class TestExperts {
 public:
  explicit TestExperts(expert::Random& random) {
    using kernels::TensorType;
    add(random, 0, {TensorType::kQ4_K, TensorType::kQ4_K, TensorType::kQ6_K});
    add(random, 1, {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ8_0});
    add(random, 3, {TensorType::kQ4_K, TensorType::kQ8_0, TensorType::kF16});
    std::vector<gguf::ManifestKey> keys = {
        {"general.architecture", "qwen35moe"},
        {"kvasir.expert_group_size", std::to_string(kTestGroup)},
        {"qwen35moe.embedding_length", std::to_string(kTestEmbd)},
        {"qwen35moe.expert_count", std::to_string(kTestExperts)},
        {"qwen35moe.expert_feed_forward_length", std::to_string(kTestWidth)}};
    gguf::sort_entries(entries_);
    auto manifest =
        gguf::Manifest::build(std::string(64, 'a'), {{"test.gguf", part_bytes_}}, keys, entries_);
    KVASIR_CHECK(manifest.has_value());
    manifest_.emplace(std::move(*manifest));
    for (const gguf::UnitId unit : manifest_->units())
      if (unit.layer != 1 || unit.group == 1) hold(unit, held_);
  }
  TestExperts(const TestExperts&) = delete;
  TestExperts& operator=(const TestExperts&) = delete;

  const expert::HeldExperts& held() const { return held_; }
  // By layer; empty for layer 2.
  const std::vector<expert::LayerExperts>& layers() const { return layers_; }
  // All there are, held or not.
  std::vector<gguf::UnitId> units() const { return manifest_->units(); }
  void hold(gguf::UnitId unit, expert::HeldExperts& held) const {
    const expert::LayerExperts& layer = layers_[unit.layer];
    const expert::ExpertView first = layer.expert(unit.group * kTestGroup);
    const std::array<ByteSpan, 3> ranges = {
        ByteSpan(first.gate.data, kTestGroup * layer.gate_stride),
        ByteSpan(first.up.data, kTestGroup * layer.up_stride),
        ByteSpan(first.down.data, kTestGroup * layer.down_stride)};
    KVASIR_CHECK(held.add(*manifest_, unit, ranges, nullptr).has_value());
  }

 private:
  void add(expert::Random& random, uint32_t layer, std::array<kernels::TensorType, 3> types) {
    layers_.resize(layer + 1);
    constexpr std::array kRoles = {gguf::ExpertRole::kGate, gguf::ExpertRole::kUp,
                                   gguf::ExpertRole::kDown};
    expert::LayerExperts& experts = layers_[layer];
    experts.n_experts = kTestExperts;
    const std::array views = {&experts.first.gate, &experts.first.up, &experts.first.down};
    const std::array strides = {&experts.gate_stride, &experts.up_stride, &experts.down_stride};
    for (size_t i = 0; i < kRoles.size(); ++i) {
      const bool down = kRoles[i] == gguf::ExpertRole::kDown;
      const uint32_t n_in = down ? kTestWidth : kTestEmbd, n_out = down ? kTestEmbd : kTestWidth;
      matrices_.push_back(
          std::make_unique<expert::TestMatrix>(random, types[i], n_in, n_out * kTestExperts));
      expert::MatrixView view = matrices_.back()->view();
      view.n_out = n_out;
      *views[i] = view;
      *strides[i] = n_out * view.row_bytes;
      for (uint32_t begin = 0; begin < kTestExperts; begin += kTestGroup) {
        gguf::ManifestEntry entry;
        entry.name = gguf::expert_tensor_name(layer, kRoles[i]);
        entry.type = types[i];
        entry.n_dims = 3;
        entry.dims = {n_in, n_out, kTestExperts, 1};
        entry.unit = gguf::ExpertRange{begin, begin + kTestGroup};
        entry.sha256 = std::string(64, '0');
        entry.offset = part_bytes_;
        entry.bytes = uint64_t{kTestGroup} * n_out * view.row_bytes;
        part_bytes_ += entry.bytes;
        entries_.push_back(entry);
      }
    }
  }

  std::vector<std::unique_ptr<expert::TestMatrix>> matrices_;
  std::vector<expert::LayerExperts> layers_;
  std::vector<gguf::ManifestEntry> entries_;
  uint64_t part_bytes_ = 0;
  std::optional<gguf::Manifest> manifest_;
  expert::HeldExperts held_;
};

}  // namespace kvasir::worker
