#include "gguf/types.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvasir::gguf {
namespace {

using enum TensorType;

// Sorted by id. Ids that are missing were removed from the format or belong to forks of it.
constexpr std::array kTypes = {
    TypeInfo{kF32, "F32", 1, 4},
    TypeInfo{kF16, "F16", 1, 2},
    TypeInfo{kQ4_0, "Q4_0", 32, 18},
    TypeInfo{kQ4_1, "Q4_1", 32, 20},
    TypeInfo{kQ5_0, "Q5_0", 32, 22},
    TypeInfo{kQ5_1, "Q5_1", 32, 24},
    TypeInfo{kQ8_0, "Q8_0", 32, 34},
    TypeInfo{kQ8_1, "Q8_1", 32, 36},
    TypeInfo{kQ2_K, "Q2_K", 256, 84},
    TypeInfo{kQ3_K, "Q3_K", 256, 110},
    TypeInfo{kQ4_K, "Q4_K", 256, 144},
    TypeInfo{kQ5_K, "Q5_K", 256, 176},
    TypeInfo{kQ6_K, "Q6_K", 256, 210},
    TypeInfo{kQ8_K, "Q8_K", 256, 292},
    TypeInfo{kIQ2_XXS, "IQ2_XXS", 256, 66},
    TypeInfo{kIQ2_XS, "IQ2_XS", 256, 74},
    TypeInfo{kIQ3_XXS, "IQ3_XXS", 256, 98},
    TypeInfo{kIQ1_S, "IQ1_S", 256, 50},
    TypeInfo{kIQ4_NL, "IQ4_NL", 32, 18},
    TypeInfo{kIQ3_S, "IQ3_S", 256, 110},
    TypeInfo{kIQ2_S, "IQ2_S", 256, 82},
    TypeInfo{kIQ4_XS, "IQ4_XS", 256, 136},
    TypeInfo{kI8, "I8", 1, 1},
    TypeInfo{kI16, "I16", 1, 2},
    TypeInfo{kI32, "I32", 1, 4},
    TypeInfo{kI64, "I64", 1, 8},
    TypeInfo{kF64, "F64", 1, 8},
    TypeInfo{kIQ1_M, "IQ1_M", 256, 56},
    TypeInfo{kBF16, "BF16", 1, 2},
    TypeInfo{kTQ1_0, "TQ1_0", 256, 54},
    TypeInfo{kTQ2_0, "TQ2_0", 256, 66},
    TypeInfo{kMXFP4, "MXFP4", 32, 17},
    TypeInfo{kNVFP4, "NVFP4", 64, 36},
    TypeInfo{kQ1_0, "Q1_0", 128, 18},
};

// type_info() is called per row in places, so it must not search.
constexpr auto kIndexById = [] {
  std::array<uint8_t, 64> index{};
  index.fill(0xff);
  for (size_t i = 0; i < kTypes.size(); ++i)
    index[static_cast<size_t>(kTypes[i].type)] = static_cast<uint8_t>(i);
  return index;
}();

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

}  // namespace

const TypeInfo* find_type(uint32_t id) {
  if (id >= kIndexById.size() || kIndexById[id] == 0xff) return nullptr;
  return &kTypes[kIndexById[id]];
}

const TypeInfo* find_type(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (std::equal(name.begin(), name.end(), info.name.begin(), info.name.end(),
                   [](char a, char b) { return upper(a) == upper(b); }))
      return &info;
  }
  return nullptr;
}

const TypeInfo& type_info(TensorType type) {
  const TypeInfo* info = find_type(static_cast<uint32_t>(type));
  KVASIR_CHECK(info != nullptr);
  return *info;
}

std::span<const TypeInfo> all_types() {
  return kTypes;
}

}  // namespace kvasir::gguf
