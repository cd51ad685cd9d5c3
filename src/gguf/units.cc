#include "gguf/units.h"

#include <fmt/format.h>

namespace kvasir::gguf {
namespace {

constexpr ExpertRole kRoles[] = {ExpertRole::kGate, ExpertRole::kUp, ExpertRole::kGateUp,
                                 ExpertRole::kDown};

}  // namespace

std::string_view role_name(ExpertRole role) {
  switch (role) {
    case ExpertRole::kGate:
      return "gate";
    case ExpertRole::kUp:
      return "up";
    case ExpertRole::kGateUp:
      return "gate_up";
    case ExpertRole::kDown:
      return "down";
  }
  return "unknown";
}

std::string expert_tensor_name(uint32_t layer, ExpertRole role) {
  return fmt::format("blk.{}.ffn_{}_exps.weight", layer, role_name(role));
}

std::optional<ExpertTensorName> parse_expert_tensor_name(std::string_view name) {
  constexpr std::string_view kFront = "blk.";
  if (!name.starts_with(kFront)) return std::nullopt;
  name.remove_prefix(kFront.size());
  uint32_t layer = 0;
  size_t digits = 0;
  for (; digits < name.size() && name[digits] >= '0' && name[digits] <= '9'; ++digits) {
    layer = layer * 10 + static_cast<uint32_t>(name[digits] - '0');
    if (layer >= kUnitLayersMax || (digits > 0 && name[0] == '0')) return std::nullopt;
  }
  if (digits == 0) return std::nullopt;
  const std::string_view rest = name.substr(digits);
  for (ExpertRole role : kRoles)
    if (rest == fmt::format(".ffn_{}_exps.weight", role_name(role)))
      return ExpertTensorName{layer, role};
  return std::nullopt;
}

}  // namespace kvasir::gguf
