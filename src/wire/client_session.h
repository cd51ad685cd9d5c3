// The client's end of a connection, from the WebSocket upgrade on. A new one for each connection;
// Reconnect says when to dial again.
#pragma once

#include "wire/session.h"

namespace kvasir::wire {

inline constexpr Time kChallengeWithinMs = 5'000;  // after the upgrade
inline constexpr Time kWelcomeWithinMs = 15'000;   // after HELLO
inline constexpr Time kProbeEchoWithinMs = 5'000;  // each

struct ClientConfig {
  Role role = Role::kWorker;
  uint16_t version_min = kProtocolVersion, version_max = kProtocolVersion;
  std::optional<Key> server_key;  // accept no other server
  Capabilities capabilities;
  std::vector<Fingerprint> fingerprints;  // at most kFingerprintsMax
  std::string build, token;
  ResumeId resume_id{};
  LinkConfig link;
};

class ClientSession final : public Session {
 public:
  ClientSession(ClientConfig config, std::unique_ptr<SessionCrypto> crypto, Time now);

 private:
  void on_handshake(std::span<std::byte> message, Time now) override;
  void on_probe(const Frame& frame, Time now) override;
  void on_challenge(ByteSpan body, Time now);
  void on_welcome(ByteSpan body, Time now);
  void on_refused(ByteSpan body);
  void send_probe(Time now);

  const ClientConfig config_;
  const std::unique_ptr<SessionCrypto> crypto_;
  Transcript transcript_;
  std::optional<Challenge> challenge_;
  uint16_t version_ = 0;
  Welcome welcome_;
  size_t probes_ = 0;  // that came back
};

}  // namespace kvasir::wire
