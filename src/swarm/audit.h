// Audits: which answers are computed again here, how answers are compared, and what is kept of a
// wrong one. Answers are compared after decoding, bit for bit: an audit is a comparison, not a
// matter of tolerance. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/keyed_hash.h"
#include "swarm/types.h"

namespace kvasir::swarm {

struct VerifyPolicy {
  // Of tickets whose answers are computed here, too, before they are used: 0 none, 1 all.
  double share = 0;
};

// Picks by a hash of worker and ticket under a key that nobody else knows: a worker cannot tell
// which of its answers will be looked at, and a run can be repeated.
class AuditSampler {
 public:
  AuditSampler(HashKey secret, VerifyPolicy policy) : secret_(secret), policy_(policy) {}
  bool picks(const wire::Key& worker, uint64_t ticket) const;
  const VerifyPolicy& policy() const { return policy_; }

 private:
  HashKey secret_;
  VerifyPolicy policy_;
};

// 128 bits over the bits of decoded outputs.
using Digest = std::array<uint64_t, 2>;
Digest digest(HashKey secret, std::span<const float> outputs);

// What convicted a worker: enough for anybody who has the model to compute it again.
struct Evidence {
  wire::Key worker{};
  uint64_t ticket = 0;
  std::vector<std::byte> compute;  // body of COMPUTE; empty if it was not kept
  std::vector<std::byte> result;   // body of RESULT
  uint16_t pair = 0;               // of the ticket: the first that is wrong
  std::vector<float> expected;     // its output; empty if only its digest was kept
  std::string reason;
};

}  // namespace kvasir::swarm
