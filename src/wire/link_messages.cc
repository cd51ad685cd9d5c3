#include "wire/link_messages.h"

#include "wire/body.h"

namespace kvasir::wire {
namespace {

Result<uint64_t> decode_number(std::string_view what, ByteSpan bytes) {
  BodyReader body(what, bytes);
  const uint64_t value = body.u64();
  KVASIR_TRY_VOID(body.finish());
  return value;
}

uint16_t read_peer(BodyReader& body) {
  const uint16_t peer = body.u16();
  body.require(peer != 0, "peer 0 is the relay itself");
  return peer;
}

}  // namespace

std::vector<std::byte> encode_echo(uint64_t value) {
  return BodyWriter().u64(value).take();
}

Result<uint64_t> decode_echo(ByteSpan body) {
  return decode_number("PING or PONG", body);
}

std::vector<std::byte> encode_credit(uint64_t total_bytes) {
  return BodyWriter().u64(total_bytes).take();
}

Result<uint64_t> decode_credit(ByteSpan body) {
  return decode_number("CREDIT", body);
}

std::vector<std::byte> encode_peer_here(const PeerHere& here) {
  return BodyWriter()
      .u16(here.peer)
      .u8(static_cast<uint8_t>(here.role))
      .zeros(5)
      .u64(here.epoch)
      .bytes(here.key)
      .take();
}

Result<PeerHere> decode_peer_here(ByteSpan bytes) {
  BodyReader body("PEER_HERE", bytes);
  PeerHere here;
  here.peer = read_peer(body);
  const auto role = find_role(body.u8());
  body.require(role.has_value() && *role != Role::kRelay, "unknown role");
  body.zeros(5);
  here.epoch = body.u64();
  here.key = body.array<32>();
  KVASIR_TRY_VOID(body.finish());
  here.role = *role;
  return here;
}

std::vector<std::byte> encode_peer_gone(const PeerGone& gone) {
  return BodyWriter().u16(gone.peer).zeros(6).u64(gone.epoch).take();
}

Result<PeerGone> decode_peer_gone(ByteSpan bytes) {
  BodyReader body("PEER_GONE", bytes);
  PeerGone gone;
  gone.peer = read_peer(body);
  body.zeros(6);
  gone.epoch = body.u64();
  KVASIR_TRY_VOID(body.finish());
  return gone;
}

std::vector<std::byte> encode_restarting(const Restarting& restarting) {
  return BodyWriter().u32(restarting.come_back_after_ms).u32(restarting.give_up_after_ms).take();
}

Result<Restarting> decode_restarting(ByteSpan bytes) {
  BodyReader body("RESTARTING", bytes);
  Restarting restarting;
  restarting.come_back_after_ms = body.u32();
  restarting.give_up_after_ms = body.u32();
  body.require(restarting.give_up_after_ms >= restarting.come_back_after_ms,
               "it says to give up before coming back");
  KVASIR_TRY_VOID(body.finish());
  return restarting;
}

std::vector<std::byte> probe_body(size_t index) {
  std::vector<std::byte> body(kProbeMessageBytes[index] - kHeadBytes - kTrailerBytes);
  // Neither constant nor of a period that a buffer's size could hide.
  size_t value = index, until_carry = 251;
  for (std::byte& byte : body) {
    byte = static_cast<std::byte>(value & 0xFF);
    value += 131;
    if (--until_carry == 0) {
      until_carry = 251;
      ++value;
    }
  }
  return body;
}

}  // namespace kvasir::wire
