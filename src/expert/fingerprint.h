// The compute fingerprint: what backbone and worker compare when they meet. Equal fingerprints
// compute the same bits. A compatibility check, not security.
// Not part of the portable set (SHA-256).
#pragma once

#include <string>
#include <string_view>

#include "expert/encoding.h"
#include "kernels/kernels.h"

namespace kvasir::expert {

struct ComputeRules {
  std::string model_hash;  // 64 lower-case hex digits
  int arithmetic_version = kernels::kArithmeticVersion;
  OutputEncoding encoding = OutputEncoding::kF32;
  kernels::KvType kv_type = kernels::KvType::kF16;
};

// What is hashed: one rule a line (docs/slices.md). Also for people, to say in what two differ.
std::string compute_rules_text(const ComputeRules& rules);
// 64 lower-case hex digits.
std::string compute_fingerprint(const ComputeRules& rules);

}  // namespace kvasir::expert
