// The frames by which a worker gets its share of a model: OFFER, LEASE, READY, DRAIN, REVOKE. A
// coverage unit is a range of one layer's experts. Policies are elsewhere; this is the codec.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir::wire {

struct CoverageUnit {
  uint16_t layer = 0;
  uint16_t expert_begin = 0, expert_end = 0;  // half-open, not empty
};

// In OFFER and LEASE.
struct LeaseTerms {
  CoverageUnit unit;
  uint64_t epoch = 0;  // of the lease; 0 in an OFFER
  uint64_t price_micro_per_row = 0;
  uint32_t expires_in_ms = 0;  // from when it is received, since clocks differ; not 0
};

// In READY, DRAIN and REVOKE.
struct LeasedUnit {
  CoverageUnit unit;
  uint64_t epoch = 0;
};

inline constexpr size_t kUnitsMax = 512;  // of one frame: 12 KiB

// 1..kUnitsMax units, in ascending order of (layer, first expert), without overlap.
std::vector<std::byte> encode_lease_terms(const std::vector<LeaseTerms>& terms);
Result<std::vector<LeaseTerms>> decode_lease_terms(ByteSpan body);
std::vector<std::byte> encode_leased_units(const std::vector<LeasedUnit>& units);
Result<std::vector<LeasedUnit>> decode_leased_units(ByteSpan body);

}  // namespace kvasir::wire
