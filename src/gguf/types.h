// The tensor types a GGUF file may hold, with their block sizes. Facts: GGUF's published type
// table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvasir::gguf {

// Numbers as in the file.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

// `block_length` values are stored in `block_bytes` bytes; rows never share a block.
struct TypeInfo {
  TensorType type;
  std::string_view name;  // "Q4_K"
  uint32_t block_length;
  uint32_t block_bytes;
};

// Nothing for an id that is not in the table.
const TypeInfo* find_type(uint32_t id);
// By name, case-insensitive: "q4_k", "Q4_K".
const TypeInfo* find_type(std::string_view name);
// For a type known to be valid.
const TypeInfo& type_info(TensorType type);
std::span<const TypeInfo> all_types();

// Bytes of one row of `n` values; n is a multiple of the block length.
inline uint64_t row_bytes(TensorType type, uint64_t n) {
  const TypeInfo& info = type_info(type);
  return n / info.block_length * info.block_bytes;
}

}  // namespace kvasir::gguf
