#include "wire/client_session.h"

#include <algorithm>

namespace kvasir::wire {

ClientSession::ClientSession(ClientConfig config, std::unique_ptr<SessionCrypto> crypto, Time now)
    : Session(config.role, config.link, now),
      config_(std::move(config)),
      crypto_(std::move(crypto)) {
  set_deadline(now + kChallengeWithinMs, CloseCode::kTooSlow, "no CHALLENGE within 5 s");
}

void ClientSession::on_handshake(std::span<std::byte> message, Time now) {
  MessageReader reader(message);
  auto frame = reader.next();
  if (!frame || !*frame || (*frame)->wire_bytes != message.size() || (*frame)->head.peer != 0) {
    fail(CloseCode::kMalformed, "a message of the handshake is not one frame",
         "is this the address of a Kvasir server?");
    return;
  }
  const FrameType type = (*frame)->head.type;
  if (type == FrameType::kChallenge && !challenge_)
    on_challenge((*frame)->body, now);
  else if (type == FrameType::kWelcome && challenge_)
    on_welcome((*frame)->body, now);
  else if (type == FrameType::kRefused)
    on_refused((*frame)->body);
  else
    fail(CloseCode::kUnexpected,
         fmt::format("{} is out of place in the handshake", find_rule(type)->name));
}

void ClientSession::on_challenge(ByteSpan body, Time now) {
  auto challenge = decode_challenge(body);
  if (!challenge) {
    fail(CloseCode::kMalformed, challenge.error());
    return;
  }
  if (config_.server_key && *config_.server_key != challenge->server_key) {
    fail(CloseCode::kIdentity,
         fmt::format("the server's key is {}, expected was {}", hex(challenge->server_key),
                     hex(*config_.server_key)),
         "is this the right server?");
    return;
  }
  version_ = std::min(config_.version_max, challenge->version_max);
  if (version_ < config_.version_min || version_ < challenge->version_min) {
    fail(CloseCode::kVersion,
         fmt::format("the server speaks protocol versions {} to {}, this node {} to {}",
                     challenge->version_min, challenge->version_max, config_.version_min,
                     config_.version_max),
         "update the older one");
    return;
  }
  challenge_ = *challenge;
  transcript_.add(body);
  const auto role = static_cast<std::byte>(config_.role);
  transcript_.add(ByteSpan(&role, 1));

  Hello hello;
  hello.role = config_.role;
  hello.version = version_;
  hello.capabilities = config_.capabilities;
  hello.node_key = crypto_->node_key();
  hello.ephemeral = crypto_->ephemeral();
  hello.resume_id = config_.resume_id;
  hello.fingerprints = config_.fingerprints;
  hello.build = config_.build;
  hello.token = config_.token;
  hello.signature = crypto_->sign(transcript_.signed_bytes(kHelloDomain, encode_hello(hello)));
  const auto hello_body = encode_hello(hello);
  transcript_.add(hello_body);

  MessageWriter writer;
  FrameHead head;
  head.type = FrameType::kHello;
  writer.add(head, hello_body);
  std::vector<std::byte> message = writer.take();
  message.insert(message.begin(), role);
  queue_message(std::move(message));
  set_deadline(now + kWelcomeWithinMs, CloseCode::kTooSlow, "no WELCOME within 15 s");
}

void ClientSession::on_welcome(ByteSpan body, Time now) {
  auto welcome = decode_welcome(body);
  if (!welcome) {
    fail(CloseCode::kMalformed, welcome.error());
    return;
  }
  if (!crypto_->verify(challenge_->server_key, transcript_.signed_bytes(kWelcomeDomain, body),
                       welcome->signature)) {
    fail(CloseCode::kIdentity, "the server's signature does not belong to its key");
    return;
  }
  const auto& own = config_.fingerprints;
  const bool worker = config_.role == Role::kWorker;
  if (welcome->version != version_ || welcome->rows_max > config_.capabilities.rows_max ||
      (worker && (welcome->rows_max == 0 ||
                  std::find(own.begin(), own.end(), welcome->fingerprint) == own.end()))) {
    fail(CloseCode::kMalformed, "WELCOME does not answer HELLO");
    return;
  }
  transcript_.add(body);
  auto taggers = crypto_->derive(challenge_->ephemeral, transcript_.bytes(), End::kClient);
  if (!taggers) {
    fail(CloseCode::kIdentity, taggers.error());
    return;
  }
  welcome_ = std::move(*welcome);
  begin_probing(std::move(*taggers), challenge_->role);
  send_probe(now);
}

void ClientSession::on_refused(ByteSpan body) {
  auto refused = decode_refused(body);
  if (refused)
    fail(refused->code, std::move(refused->reason), std::move(refused->hint));
  else
    fail(CloseCode::kMalformed, refused.error());
}

// One at a time: what follows would push a probe out of a proxy that holds it back.
void ClientSession::send_probe(Time now) {
  queue_probe(FrameType::kProbe, probes_, probe_body(probes_));
  set_deadline(now + kProbeEchoWithinMs, CloseCode::kPath,
               fmt::format("a message of {} bytes did not come back within 5 s",
                           kProbeMessageBytes[probes_]));
}

void ClientSession::on_probe(const Frame& frame, Time now) {
  const auto expected = probe_body(probes_);
  if (frame.head.ticket != probes_ ||
      !std::equal(frame.body.begin(), frame.body.end(), expected.begin(), expected.end())) {
    fail(CloseCode::kMalformed, fmt::format("PROBE_ECHO {} is not as expected", probes_));
    return;
  }
  if (++probes_ < kProbeMessageBytes.size())
    send_probe(now);
  else
    open(challenge_->server_key, welcome_, now);
}

}  // namespace kvasir::wire
