// The fingerprint as another implementation would compute it, and that every rule enters it.
#include "expert/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "base/sha256.h"

namespace kvasir::expert {
namespace {

TEST(Fingerprint, IsTheHashOfTheRules) {
  const ComputeRules rules{std::string(64, 'a'), 1, OutputEncoding::kQ8, kernels::KvType::kF32};
  const std::string text = "kvasir-compute 1\nmodel " + std::string(64, 'a') +
                           "\narithmetic 1\noutput-encoding q8\nkv-type f32\n";
  EXPECT_EQ(compute_rules_text(rules), text);
  EXPECT_EQ(compute_fingerprint(rules), sha256_hex(bytes_of(text)));
}

TEST(Fingerprint, DiffersWithEveryRule) {
  std::set<std::string> seen;
  size_t n = 0;
  for (char model : {'a', 'b'})
    for (int version : {1, 2})
      for (OutputEncoding encoding :
           {OutputEncoding::kF32, OutputEncoding::kF16, OutputEncoding::kQ8})
        for (kernels::KvType kv : {kernels::KvType::kF16, kernels::KvType::kF32}) {
          seen.insert(compute_fingerprint({std::string(64, model), version, encoding, kv}));
          ++n;
        }
  EXPECT_EQ(seen.size(), n);
}

}  // namespace
}  // namespace kvasir::expert
