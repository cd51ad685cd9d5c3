// The server's end of a connection, from the WebSocket upgrade on: it speaks first.
#pragma once

#include "wire/session.h"

namespace kvasir::wire {

inline constexpr size_t kFirstMessageBytesMax = 1024;
inline constexpr Time kHelloWithinMs = 3'000;       // after the upgrade
inline constexpr Time kAdmissionWithinMs = 10'000;  // the application decides
inline constexpr Time kProbingWithinMs = 20'000;    // all five probes

struct ServerConfig {
  Role role = Role::kBackbone;
  Roles clients = {Role::kWorker};
  uint16_t version_min = kProtocolVersion, version_max = kProtocolVersion;
  // Of the models that this server has; a worker must serve one of them.
  std::vector<Fingerprint> fingerprints;
  uint16_t rows_max = 64;  // 1..256, of one COMPUTE
  std::string build;
  LinkConfig link;
};

class ServerSession final : public Session {
 public:
  ServerSession(ServerConfig config, std::unique_ptr<SessionCrypto> crypto, Time now);

  // The answers to HelloArrived. The texts are printable ASCII of at most 255 bytes. No event
  // follows, but look at closed(): a client whose key is no good is not admitted.
  void admit(uint64_t epoch, const ResumeId& resume_id, Time now);
  void refuse(CloseCode code, std::string reason, std::string hint = {});

 private:
  void on_handshake(std::span<std::byte> message, Time now) override;
  void on_probe(const Frame& frame, Time now) override;
  // Refuses on this session's own behalf.
  void turn_away(const Refused& refused);
  // Nothing wrong: no value.
  std::optional<Refused> judge(const Hello& hello, ByteSpan body);

  const ServerConfig config_;
  const std::unique_ptr<SessionCrypto> crypto_;
  Transcript transcript_;
  std::optional<Hello> hello_;
  Welcome welcome_;
  size_t probes_ = 0;
};

}  // namespace kvasir::wire
