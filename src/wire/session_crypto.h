// What a session needs of cryptography, and the bytes that are signed. wire/ itself knows no
// algorithm; crypto/ implements this with Ed25519, X25519 and BLAKE2b.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "wire/frame_tags.h"
#include "wire/handshake_messages.h"

namespace kvasir::wire {

// The taggers of one session, as one end sees them.
struct SessionTaggers {
  std::unique_ptr<FrameTagger> sending, receiving;
};

enum class End : uint8_t { kClient, kServer };

// One identity meeting one peer: made anew for each connection, together with an ephemeral key.
class SessionCrypto {
 public:
  virtual ~SessionCrypto() = default;
  virtual const Key& node_key() const = 0;   // Ed25519 public key
  virtual const Key& ephemeral() const = 0;  // X25519 public key, of this connection alone
  virtual Key random_nonce() = 0;
  virtual Signature sign(ByteSpan message) const = 0;
  virtual bool verify(const Key& node_key, ByteSpan message, const Signature& signature) const = 0;
  // Keys from both ephemeral keys and the transcript, which both ends know alike. kCorrupt for an
  // ephemeral key that would make the secret guessable. Once.
  virtual Result<SessionTaggers> derive(const Key& peer_ephemeral, ByteSpan transcript,
                                        End end) = 0;
};

// The bytes that both ends saw, in order:
//   transcript := CHALLENGE body, role u8, HELLO body, WELCOME body
// Signed is a domain text, one zero byte, and the transcript up to the signature itself.
class Transcript {
 public:
  void add(ByteSpan bytes);
  ByteSpan bytes() const { return bytes_; }
  // What a body's signature covers: everything before, and the body without its last 64 bytes.
  std::vector<std::byte> signed_bytes(std::string_view domain, ByteSpan body) const;

 private:
  std::vector<std::byte> bytes_;
};

inline constexpr std::string_view kHelloDomain = "kvasir hello v1";
inline constexpr std::string_view kWelcomeDomain = "kvasir welcome v1";

}  // namespace kvasir::wire
