#include "expert/fingerprint.h"

#include <fmt/format.h>

#include "base/sha256.h"

namespace kvasir::expert {

std::string compute_rules_text(const ComputeRules& rules) {
  return fmt::format("kvasir-compute 1\nmodel {}\narithmetic {}\noutput-encoding {}\nkv-type {}\n",
                     rules.model_hash, rules.arithmetic_version, encoding_name(rules.encoding),
                     rules.kv_type == kernels::KvType::kF16 ? "f16" : "f32");
}

std::string compute_fingerprint(const ComputeRules& rules) {
  return sha256_hex(bytes_of(compute_rules_text(rules)));
}

}  // namespace kvasir::expert
