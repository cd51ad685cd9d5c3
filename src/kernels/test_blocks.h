// For tests: the sixteen weight types, the reference blocks of tests/data/blocks, and random rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/test_data.h"
#include "kernels/kernels.h"

namespace kvasir::kernels {

// scale_offsets: where a block's f16 fields (d, then m or dmin) lie; -1 where there is none.
struct WeightType {
  TensorType type;
  const char* name;  // of its files in tests/data/blocks
  size_t block_length;
  size_t block_bytes;
  int scale_offsets[2];
};

inline constexpr WeightType kWeightTypes[] = {
    {TensorType::kF32, "f32", 1, 4, {-1, -1}},
    {TensorType::kF16, "f16", 1, 2, {-1, -1}},
    {TensorType::kBF16, "bf16", 1, 2, {-1, -1}},
    {TensorType::kQ8_0, "q8_0", 32, 34, {0, -1}},
    {TensorType::kQ4_0, "q4_0", 32, 18, {0, -1}},
    {TensorType::kQ4_1, "q4_1", 32, 20, {0, 2}},
    {TensorType::kQ5_0, "q5_0", 32, 22, {0, -1}},
    {TensorType::kQ5_1, "q5_1", 32, 24, {0, 2}},
    {TensorType::kIQ4_NL, "iq4_nl", 32, 18, {0, -1}},
    {TensorType::kMXFP4, "mxfp4", 32, 17, {-1, -1}},
    {TensorType::kQ2_K, "q2_K", 256, 84, {80, 82}},
    {TensorType::kQ3_K, "q3_K", 256, 110, {108, -1}},
    {TensorType::kQ4_K, "q4_K", 256, 144, {0, 2}},
    {TensorType::kQ5_K, "q5_K", 256, 176, {0, 2}},
    {TensorType::kQ6_K, "q6_K", 256, 210, {208, -1}},
    {TensorType::kIQ4_XS, "iq4_xs", 256, 136, {0, -1}},
};

inline const WeightType& weight_type(TensorType type) {
  for (const WeightType& entry : kWeightTypes) {
    if (entry.type == type) return entry;
  }
  KVASIR_CHECK(false);
}

template <typename T>
std::vector<T> read_block_file(const std::string& name) {
  std::ifstream file(test_data("blocks/" + name), std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

using Random = std::mt19937_64;

inline float uniform(Random& random, float min, float max) {
  return min + (max - min) * (static_cast<float>(random() >> 40) * 0x1p-24f);
}

}  // namespace kvasir::kernels
