// What a worker can be told to do wrong, so that those who audit it can be tested. Only the
// environment of its own process can ask for it (or a program that builds the worker): no flag, no
// file and nothing from the network reaches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

#include "wire/jitter.h"
#include "wire/work_messages.h"

namespace kvasir::worker {

struct Mischief {
  double lie_share = 0;  // of the tickets: one bit of one output is wrong
  bool reorder = false;  // waiting tickets are answered in random order
  uint64_t seed = 0;
};

// The environment variable, and what it says: any of "lie=0.05", "reorder" and "seed=7", separated
// by commas. kInvalid for anything else.
inline constexpr const char* kMischiefVariable = "KVASIR_CHAOS";
Result<Mischief> parse_mischief(std::string_view text);

// Flips the lowest bit it can of one value of one of the outputs, which stay what an honest worker
// could have sent: [n_pairs][wire::row_bytes(encoding, n_embd)]. False if no value can be changed.
bool lie(std::span<std::byte> outputs, wire::ResultEncoding encoding, size_t n_embd,
         wire::Jitter& random);

}  // namespace kvasir::worker
