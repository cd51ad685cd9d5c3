// The frames by which two ends meet: CHALLENGE, HELLO, WELCOME, REFUSED. What is signed and how
// keys come out of it is in session_crypto.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/close_code.h"
#include "wire/link_messages.h"
#include "wire/rows.h"

namespace kvasir::wire {

inline constexpr uint16_t kProtocolVersion = 1;

using Signature = std::array<std::byte, 64>;
using ResumeId = std::array<std::byte, 16>;  // all zero: none
using Fingerprint = std::array<std::byte, 32>;

// 64 lower-case hex digits.
std::string hex(const std::array<std::byte, 32>& bytes);
// The other way round; nothing for any other text.
std::optional<std::array<std::byte, 32>> parse_hex(std::string_view text);

struct Challenge {
  Role role = Role::kBackbone;  // of the server
  uint16_t version_min = kProtocolVersion, version_max = kProtocolVersion;
  Key server_key{};  // Ed25519
  Key ephemeral{};   // X25519, of this connection
  Key nonce{};
};
inline constexpr size_t kChallengeBytes = 104;
std::vector<std::byte> encode_challenge(const Challenge& challenge);
Result<Challenge> decode_challenge(ByteSpan body);

// What a worker can do, as bit masks over the wire's numbers of formats and encodings.
struct Capabilities {
  uint8_t row_formats = 0;
  uint8_t encodings = 0;
  uint16_t rows_max = 0;  // of one COMPUTE; 1..kRowsMax for a worker
  uint32_t memory_mib = 0;

  bool has(ActivationFormat format) const {
    return (row_formats >> static_cast<unsigned>(format) & 1U) != 0;
  }
  bool has(ResultEncoding encoding) const {
    return (encodings >> static_cast<unsigned>(encoding) & 1U) != 0;
  }
};

inline constexpr size_t kFingerprintsMax = 8;
inline constexpr size_t kBuildBytesMax = 64;
inline constexpr size_t kTokenBytesMax = 255;

struct Hello {
  Role role = Role::kWorker;  // the byte in front of the frame
  uint16_t version = kProtocolVersion;
  Capabilities capabilities;
  Key node_key{};   // Ed25519
  Key ephemeral{};  // X25519, of this connection
  ResumeId resume_id{};
  std::vector<Fingerprint> fingerprints;  // that it serves, at most kFingerprintsMax
  std::string build;                      // "kvasir 0.2.0"; printable ASCII
  std::string token;                      // of the node; printable ASCII, may be empty
  Signature signature{};
};
// The body; its last 64 bytes are the signature.
std::vector<std::byte> encode_hello(const Hello& hello);
Result<Hello> decode_hello(Role role, ByteSpan body);

struct Welcome {
  uint16_t version = kProtocolVersion;
  uint16_t rows_max = 0;  // of one COMPUTE, agreed
  uint64_t epoch = 0;     // of this login of the node
  ResumeId resume_id{};
  Fingerprint fingerprint{};  // the one both serve; zero if the client is no worker
  std::string build;
  Signature signature{};
};
std::vector<std::byte> encode_welcome(const Welcome& welcome);
Result<Welcome> decode_welcome(ByteSpan body);

inline constexpr size_t kReasonBytesMax = 255;
struct Refused {
  CloseCode code = CloseCode::kFull;
  std::string reason;  // what happened; printable ASCII
  std::string hint;    // what to do; may be empty
};
std::vector<std::byte> encode_refused(const Refused& refused);
Result<Refused> decode_refused(ByteSpan body);

}  // namespace kvasir::wire
