// Why a connection ends: the WebSocket close codes of this protocol, also in REFUSED.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvasir::wire {

enum class CloseCode : uint16_t {
  kGoodbye = 4000,      // planned, nothing is wrong
  kMalformed = 4001,    // a message or frame breaks the rules
  kUnexpected = 4002,   // a good frame that this end may not send, or not now, or not known
  kVersion = 4003,      // no protocol version in common
  kRole = 4004,         // this server does not take clients of this role
  kIdentity = 4005,     // a signature or key is not the expected one
  kFingerprint = 4006,  // not the same model, arithmetic or encoding
  kToken = 4007,        // the node token is not accepted
  kTooSlow = 4008,      // a deadline of the handshake passed
  kSilent = 4009,       // no good frame for 45 s
  kCredit = 4010,       // sent more than allowed, or granted more than there is
  kStalled = 4011,      // no credit came for a minute
  kPath = 4012,         // a proxy or relay in between holds back or damages frames
  kSuperseded = 4013,   // the same identity logged in again
  kFull = 4014,         // no room now
  kRestarting = 4015,   // comes back soon
  kRenew = 4016,        // frame numbers are used up; a new handshake makes new keys
  kConnection = 4017,   // the connection broke; only reported locally
};

inline constexpr uint16_t kCloseCodeFirst = 4000, kCloseCodeLast = 4017;

inline std::optional<CloseCode> find_close_code(uint16_t code) {
  if (code < kCloseCodeFirst || code > kCloseCodeLast) return std::nullopt;
  return static_cast<CloseCode>(code);
}

// "goodbye", "malformed", ...: also metric labels.
std::string_view close_code_name(CloseCode code);

}  // namespace kvasir::wire
