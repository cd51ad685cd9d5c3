// Words of the swarm that several files share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "expert/encoding.h"
#include "kernels/activation.h"
#include "wire/handshake_messages.h"
#include "wire/work_messages.h"

namespace kvasir::swarm {

// Microseconds of a clock that never goes back; where it starts does not matter.
using TimeUs = uint64_t;
inline constexpr TimeUs kNeverUs = UINT64_MAX;
inline constexpr TimeUs kSecondUs = 1'000'000;

// One login of a worker; never used for another one.
using WorkerId = uint32_t;

// One expert for one row of a request: index row * top_k + rank.
using PairIndex = uint32_t;

// What the dispatcher knows of a model.
struct LayerRoute {
  uint32_t n_experts = 0;  // 0: the layer has none
  // How rows travel: what gate and up both want, f32 if they differ.
  kernels::ActivationFormat row_format = kernels::ActivationFormat::kF32;
};
struct ModelRoutes {
  uint32_t n_embd = 0;
  uint32_t group_size = 8;  // experts of a coverage unit
  std::vector<LayerRoute> layers;
};

struct WorkerInfo {
  wire::Key key{};
  std::string build;
  std::string address;
  wire::Capabilities capabilities;
  uint16_t rows_max = 1;  // of one COMPUTE, agreed
};

// A frame for a worker, in the order in which they are to leave.
struct Outgoing {
  WorkerId worker = 0;
  uint64_t ticket = 0;
  wire::FrameType type = wire::FrameType::kCompute;  // or kCancel
  std::vector<std::byte> body;
};

inline wire::ResultEncoding wire_encoding(expert::OutputEncoding encoding) {
  switch (encoding) {
    case expert::OutputEncoding::kF16:
      return wire::ResultEncoding::kF16;
    case expert::OutputEncoding::kQ8:
      return wire::ResultEncoding::kQ8;
    case expert::OutputEncoding::kF32:
      break;
  }
  return wire::ResultEncoding::kF32;
}

}  // namespace kvasir::swarm
