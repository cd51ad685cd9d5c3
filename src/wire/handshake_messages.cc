#include "wire/handshake_messages.h"

#include "wire/body.h"
#include "wire/work_messages.h"

namespace kvasir::wire {
namespace {

// Three formats, three encodings.
constexpr uint8_t kKnownBits = 0b111;

// The first message after the upgrade is at most 1 KiB; the longest HELLO fits.
static_assert(1 + kHeadBytes + 16 + 32 + 32 + 16 + kFingerprintsMax * 32 + 1 + kBuildBytesMax + 1 +
                  kTokenBytesMax + 64 <=
              1024);

}  // namespace

std::string hex(const std::array<std::byte, 32>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte >> 4)];
    text += kDigits[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}

std::optional<std::array<std::byte, 32>> parse_hex(std::string_view text) {
  std::array<std::byte, 32> bytes{};
  if (text.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    const char digit = text[i];
    const bool is_letter = digit >= 'a' && digit <= 'f';
    if (!is_letter && (digit < '0' || digit > '9')) return std::nullopt;
    const auto value = static_cast<uint8_t>(is_letter ? digit - 'a' + 10 : digit - '0');
    bytes[i / 2] = bytes[i / 2] << 4 | std::byte{value};
  }
  return bytes;
}

std::vector<std::byte> encode_challenge(const Challenge& challenge) {
  return BodyWriter()
      .u8(static_cast<uint8_t>(challenge.role))
      .zeros(1)
      .u16(challenge.version_min)
      .u16(challenge.version_max)
      .zeros(2)
      .bytes(challenge.server_key)
      .bytes(challenge.ephemeral)
      .bytes(challenge.nonce)
      .take();
}

Result<Challenge> decode_challenge(ByteSpan bytes) {
  BodyReader body("CHALLENGE", bytes);
  Challenge challenge;
  const auto role = find_role(body.u8());
  body.require(role == Role::kBackbone || role == Role::kRelay, "no server has this role");
  body.zeros(1);
  challenge.version_min = body.u16();
  challenge.version_max = body.u16();
  body.require(challenge.version_min <= challenge.version_max, "the version range is empty");
  body.zeros(2);
  challenge.server_key = body.array<32>();
  challenge.ephemeral = body.array<32>();
  challenge.nonce = body.array<32>();
  KVASIR_TRY_VOID(body.finish());
  challenge.role = *role;
  return challenge;
}

std::vector<std::byte> encode_hello(const Hello& hello) {
  KVASIR_CHECK(hello.fingerprints.size() <= kFingerprintsMax &&
               hello.build.size() <= kBuildBytesMax && hello.token.size() <= kTokenBytesMax);
  BodyWriter body;
  body.u16(hello.version)
      .u8(hello.capabilities.row_formats)
      .u8(hello.capabilities.encodings)
      .u16(hello.capabilities.rows_max)
      .u8(static_cast<uint8_t>(hello.fingerprints.size()))
      .zeros(1)
      .u32(hello.capabilities.memory_mib)
      .bytes(hello.node_key)
      .bytes(hello.ephemeral)
      .bytes(hello.resume_id);
  for (const Fingerprint& fingerprint : hello.fingerprints) body.bytes(fingerprint);
  return body.text(hello.build).text(hello.token).bytes(hello.signature).take();
}

Result<Hello> decode_hello(Role role, ByteSpan bytes) {
  BodyReader body("HELLO", bytes);
  Hello hello;
  hello.role = role;
  hello.version = body.u16();
  hello.capabilities.row_formats = body.u8();
  hello.capabilities.encodings = body.u8();
  hello.capabilities.rows_max = body.u16();
  const uint8_t n_fingerprints = body.u8();
  body.zeros(1);
  hello.capabilities.memory_mib = body.u32();
  body.require((hello.capabilities.row_formats & ~kKnownBits) == 0, "unknown row formats");
  body.require((hello.capabilities.encodings & ~kKnownBits) == 0, "unknown encodings");
  body.require(n_fingerprints <= kFingerprintsMax, "too many fingerprints");
  if (role == Role::kWorker) {
    body.require(hello.capabilities.rows_max >= 1 && hello.capabilities.rows_max <= kRowsMax,
                 "rows of one COMPUTE are 1 to 256");
    body.require(hello.capabilities.row_formats != 0 && hello.capabilities.encodings != 0,
                 "a worker without row formats or encodings");
    body.require(n_fingerprints >= 1, "a worker without a fingerprint");
  }
  hello.node_key = body.array<32>();
  hello.ephemeral = body.array<32>();
  hello.resume_id = body.array<16>();
  if (!body.ok()) return body.error();
  for (size_t i = 0; i < n_fingerprints; ++i) hello.fingerprints.push_back(body.array<32>());
  hello.build = body.text(kBuildBytesMax);
  hello.token = body.text(kTokenBytesMax);
  hello.signature = body.array<64>();
  KVASIR_TRY_VOID(body.finish());
  return hello;
}

std::vector<std::byte> encode_welcome(const Welcome& welcome) {
  return BodyWriter()
      .u16(welcome.version)
      .u16(welcome.rows_max)
      .zeros(4)
      .u64(welcome.epoch)
      .bytes(welcome.resume_id)
      .bytes(welcome.fingerprint)
      .text(welcome.build)
      .bytes(welcome.signature)
      .take();
}

Result<Welcome> decode_welcome(ByteSpan bytes) {
  BodyReader body("WELCOME", bytes);
  Welcome welcome;
  welcome.version = body.u16();
  welcome.rows_max = body.u16();
  body.require(welcome.rows_max <= kRowsMax, "rows of one COMPUTE are at most 256");
  body.zeros(4);
  welcome.epoch = body.u64();
  welcome.resume_id = body.array<16>();
  welcome.fingerprint = body.array<32>();
  welcome.build = body.text(kBuildBytesMax);
  welcome.signature = body.array<64>();
  KVASIR_TRY_VOID(body.finish());
  return welcome;
}

std::vector<std::byte> encode_refused(const Refused& refused) {
  return BodyWriter()
      .u16(static_cast<uint16_t>(refused.code))
      .text(refused.reason)
      .text(refused.hint)
      .take();
}

Result<Refused> decode_refused(ByteSpan bytes) {
  BodyReader body("REFUSED", bytes);
  Refused refused;
  const auto code = find_close_code(body.u16());
  body.require(code.has_value(), "unknown code");
  refused.reason = body.text(kReasonBytesMax);
  body.require(!refused.reason.empty(), "no reason");
  refused.hint = body.text(kReasonBytesMax);
  KVASIR_TRY_VOID(body.finish());
  refused.code = *code;
  return refused;
}

}  // namespace kvasir::wire
