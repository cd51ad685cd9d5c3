// What is done to a swarm, and when: fixed by a seed before the run begins. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gguf/units.h"

namespace kvasir::chaos {

// Faults that happen at a moment. (Damaged messages, lies and answers out of order are shares.)
enum class Fault : uint8_t {
  kKill,     // a worker ends without a word
  kStall,    // a worker stands still for a while
  kCut,      // a connection ends, both processes live on
  kGarbage,  // a message that nobody sent
};
inline constexpr size_t kFaults = 4;
std::string_view fault_name(Fault fault);  // "kills", ...

// Per 100 tokens.
struct FaultRates {
  double kill = 0, stall = 0, cut = 0, garbage = 0;
};

struct PlannedFault {
  uint64_t token = 0;  // it is time when so many have been computed
  Fault fault = Fault::kKill;
  uint64_t chance = 0;  // decides what else has to be chosen
  bool operator==(const PlannedFault&) const = default;
};

// tokens * rate / 100 of each kind (rounded), spread evenly but for chance, over tokens 1 to
// `tokens` - 1. Ascending by token.
std::vector<PlannedFault> make_schedule(const FaultRates& rates, uint64_t tokens, uint64_t seed);

// Which worker holds which units: [n_workers], ascending. Every unit has `replicas` holders (at
// most n_workers), chosen by chance among those that hold the fewest.
std::vector<std::vector<gguf::UnitId>> assign_units(const std::vector<gguf::UnitId>& units,
                                                    size_t n_workers, size_t replicas,
                                                    uint64_t seed);

}  // namespace kvasir::chaos
