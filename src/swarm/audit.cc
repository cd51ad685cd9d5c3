#include "swarm/audit.h"

#include <cmath>
#include <string_view>

namespace kvasir::swarm {

bool AuditSampler::picks(const wire::Key& worker, uint64_t ticket) const {
  if (policy_.share <= 0) return false;
  if (policy_.share >= 1) return true;
  std::array<char, sizeof(wire::Key) + sizeof ticket> text;
  std::memcpy(text.data(), worker.data(), worker.size());
  store_le(text.data() + worker.size(), ticket);
  const uint64_t hash = sip_hash(secret_, {text.data(), text.size()});
  return static_cast<double>(hash >> 11) * 0x1p-53 < policy_.share;
}

Digest digest(HashKey secret, std::span<const float> outputs) {
  const std::string_view text = text_of(std::as_bytes(outputs));
  return {sip_hash(secret, text), sip_hash({~secret.low, ~secret.high}, text)};
}

}  // namespace kvasir::swarm
