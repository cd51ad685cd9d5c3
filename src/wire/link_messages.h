// The frames that keep a connection: PING, PONG, CREDIT, the relay's PEER_HERE, PEER_GONE and
// RESTARTING, and the body of a path probe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/frame.h"

namespace kvasir::wire {

using Key = std::array<std::byte, 32>;

// PING and PONG: 8 bytes that only their sender understands.
std::vector<std::byte> encode_echo(uint64_t value);
Result<uint64_t> decode_echo(ByteSpan body);

// CREDIT: how many bytes of data frames the receiver of this frame may have sent since the session
// began. A total, so that a lost CREDIT is made good by the next one.
std::vector<std::byte> encode_credit(uint64_t total_bytes);
Result<uint64_t> decode_credit(ByteSpan body);

struct PeerHere {
  uint16_t peer = 0;  // not 0
  Role role = Role::kWorker;
  Key key{};
  uint64_t epoch = 0;
};
std::vector<std::byte> encode_peer_here(const PeerHere& here);
Result<PeerHere> decode_peer_here(ByteSpan body);

struct PeerGone {
  uint16_t peer = 0;  // not 0
  uint64_t epoch = 0;
};
std::vector<std::byte> encode_peer_gone(const PeerGone& gone);
Result<PeerGone> decode_peer_gone(ByteSpan body);

struct Restarting {
  uint32_t come_back_after_ms = 0;
  uint32_t give_up_after_ms = 0;  // at least come_back_after_ms
};
std::vector<std::byte> encode_restarting(const Restarting& restarting);
Result<Restarting> decode_restarting(ByteSpan body);

// Bodies of the path probes, in the order of the probes: 1 byte; then what makes messages of 1,400,
// 65,535, 65,536 and 70,000 bytes, where proxies' buffers and WebSocket's own length fields change.
inline constexpr std::array<size_t, 5> kProbeMessageBytes = {41, 1'400, 65'535, 65'536, 70'000};
std::vector<std::byte> probe_body(size_t index);

}  // namespace kvasir::wire
