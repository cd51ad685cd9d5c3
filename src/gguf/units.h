// Coverage units: aligned groups of neighbouring experts of one layer, the grain at which experts
// are handed out. And how the tensors they lie in are called.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir::gguf {

// Experts in a unit, where the model does not say otherwise (key kvasir.expert_group_size).
// Smaller: more units to keep account of, more requests for a download. Larger: a phone holds none.
inline constexpr uint32_t kGroupSizeDefault = 8;
inline constexpr std::string_view kGroupSizeKey = "kvasir.expert_group_size";

// Bounds on hostile input, far above real models.
inline constexpr uint32_t kUnitLayersMax = 1024;
inline constexpr uint32_t kUnitExpertsMax = 4096;

// Matrices of an expert. A tensor holds one of them for every expert of a layer, expert after
// expert; a fused gate_up holds the rows of gate, then those of up.
enum class ExpertRole : uint8_t { kGate, kUp, kGateUp, kDown };
std::string_view role_name(ExpertRole role);  // "gate", "up", "gate_up", "down"

struct ExpertTensorName {
  uint32_t layer = 0;
  ExpertRole role = ExpertRole::kGate;
};
// "blk.3.ffn_gate_exps.weight"
std::string expert_tensor_name(uint32_t layer, ExpertRole role);
// Nothing for any other name; leading zeros and layers of kUnitLayersMax or more are other names.
std::optional<ExpertTensorName> parse_expert_tensor_name(std::string_view name);

struct ExpertRange {
  uint32_t begin = 0, end = 0;  // half-open
  uint32_t count() const { return end - begin; }
  bool operator==(const ExpertRange&) const = default;
};

struct UnitId {
  uint32_t layer = 0;
  uint32_t group = 0;  // experts group * group_size and those after it
  auto operator<=>(const UnitId&) const = default;
};

// The last group of a layer may be smaller.
inline ExpertRange group_experts(uint32_t group, uint32_t group_size, uint32_t n_experts) {
  const uint32_t begin = group * group_size;
  return {begin, begin + group_size < n_experts ? begin + group_size : n_experts};
}

// Whole groups: begins where a group begins and ends where one ends.
inline bool is_whole_groups(ExpertRange range, uint32_t group_size, uint32_t n_experts) {
  return range.begin < range.end && range.end <= n_experts && range.begin % group_size == 0 &&
         (range.end % group_size == 0 || range.end == n_experts);
}

}  // namespace kvasir::gguf
