#include "wire/server_session.h"

#include <algorithm>

namespace kvasir::wire {
namespace {

std::vector<std::byte> message_of(FrameType type, ByteSpan body) {
  MessageWriter writer;
  FrameHead head;
  head.type = type;
  writer.add(head, body);
  return writer.take();
}

// Refusals name both sides' values. 8 of them would not fit one text; the first tell enough.
std::string names_of(const std::vector<Fingerprint>& fingerprints) {
  std::string names = fingerprints.empty() ? "none" : hex(fingerprints.front());
  if (fingerprints.size() > 1) names += fmt::format(" and {} more", fingerprints.size() - 1);
  return names;
}

}  // namespace

ServerSession::ServerSession(ServerConfig config, std::unique_ptr<SessionCrypto> crypto, Time now)
    : Session(config.role, config.link, now),
      config_(std::move(config)),
      crypto_(std::move(crypto)) {
  Challenge challenge;
  challenge.role = config_.role;
  challenge.version_min = config_.version_min;
  challenge.version_max = config_.version_max;
  challenge.server_key = crypto_->node_key();
  challenge.ephemeral = crypto_->ephemeral();
  challenge.nonce = crypto_->random_nonce();
  const auto body = encode_challenge(challenge);
  transcript_.add(body);
  queue_message(message_of(FrameType::kChallenge, body));
  set_deadline(now + kHelloWithinMs, CloseCode::kTooSlow, "no HELLO within 3 s");
}

void ServerSession::on_handshake(std::span<std::byte> message, Time now) {
  if (hello_) {
    fail(CloseCode::kUnexpected, "a second message before WELCOME");
    return;
  }
  if (message.empty() || message.size() > kFirstMessageBytesMax) {
    fail(CloseCode::kMalformed, fmt::format("first message of {} bytes", message.size()));
    return;
  }
  const auto role = find_role(std::to_integer<uint8_t>(message[0]));
  MessageReader reader(message.subspan(1));
  auto frame = reader.next();
  if (!role || *role == Role::kRelay || !frame || !*frame ||
      (*frame)->head.type != FrameType::kHello || (*frame)->head.peer != 0 ||
      (*frame)->wire_bytes + 1 != message.size()) {
    fail(CloseCode::kMalformed, "the first message is not a role and HELLO",
         "is this client a Kvasir node of the same version?");
    return;
  }
  const ByteSpan body = (*frame)->body;
  auto hello = decode_hello(*role, body);
  if (!hello) {
    turn_away({CloseCode::kMalformed, hello.error().message, ""});
    return;
  }
  transcript_.add(bytes_of(std::string_view(reinterpret_cast<const char*>(message.data()), 1)));
  if (auto refused = judge(*hello, body)) {
    turn_away(*refused);
    return;
  }
  transcript_.add(body);
  hello_ = *hello;
  set_deadline(now + kAdmissionWithinMs, CloseCode::kFull, "not admitted in time");
  tell(HelloArrived{std::move(*hello)});
}

std::optional<Refused> ServerSession::judge(const Hello& hello, ByteSpan body) {
  if (!config_.clients.contains(hello.role))
    return Refused{
        CloseCode::kRole,
        fmt::format("this {} takes no {} here", role_name(config_.role), role_name(hello.role)),
        "connect to another address"};
  if (hello.version < config_.version_min || hello.version > config_.version_max)
    return Refused{CloseCode::kVersion,
                   fmt::format("protocol version {}; this {} speaks {} to {}", hello.version,
                               role_name(config_.role), config_.version_min, config_.version_max),
                   "update the older one"};
  if (!crypto_->verify(hello.node_key, transcript_.signed_bytes(kHelloDomain, body),
                       hello.signature))
    return Refused{CloseCode::kIdentity, "the signature does not belong to the node key", ""};
  if (hello.role != Role::kWorker) return std::nullopt;
  for (const Fingerprint& fingerprint : hello.fingerprints)
    if (std::find(config_.fingerprints.begin(), config_.fingerprints.end(), fingerprint) !=
        config_.fingerprints.end()) {
      welcome_.fingerprint = fingerprint;
      return std::nullopt;
    }
  return Refused{CloseCode::kFingerprint,
                 fmt::format("fingerprints differ: worker {}, {} {}", names_of(hello.fingerprints),
                             role_name(config_.role), names_of(config_.fingerprints)),
                 "use the same model, version and output encoding on both sides"};
}

void ServerSession::admit(uint64_t epoch, const ResumeId& resume_id, Time now) {
  if (state() != State::kHandshake || !hello_) return;
  welcome_.version = hello_->version;
  welcome_.rows_max = std::min(config_.rows_max, hello_->capabilities.rows_max);
  welcome_.epoch = epoch;
  welcome_.resume_id = resume_id;
  welcome_.build = config_.build;
  auto body = encode_welcome(welcome_);
  welcome_.signature = crypto_->sign(transcript_.signed_bytes(kWelcomeDomain, body));
  body = encode_welcome(welcome_);
  transcript_.add(body);
  auto taggers = crypto_->derive(hello_->ephemeral, transcript_.bytes(), End::kServer);
  if (!taggers) {
    refuse(CloseCode::kIdentity, taggers.error().message);
    return;
  }
  queue_message(message_of(FrameType::kWelcome, body));
  begin_probing(std::move(*taggers), hello_->role);
  set_deadline(now + kProbingWithinMs, CloseCode::kPath, "the path probes took longer than 20 s");
}

void ServerSession::refuse(CloseCode code, std::string reason, std::string hint) {
  if (state() != State::kHandshake) return;
  queue_message(message_of(FrameType::kRefused, encode_refused({code, reason, hint})));
  close(code, std::move(reason), std::move(hint));
}

void ServerSession::turn_away(const Refused& refused) {
  refuse(refused.code, refused.reason, refused.hint);
  tell(*closed());
}

void ServerSession::on_probe(const Frame& frame, Time now) {
  auto expected = probe_body(probes_);
  if (frame.head.ticket != probes_ ||
      !std::equal(frame.body.begin(), frame.body.end(), expected.begin(), expected.end())) {
    fail(CloseCode::kMalformed, fmt::format("PROBE {} is not as expected", probes_));
    return;
  }
  queue_probe(FrameType::kProbeEcho, probes_, std::move(expected));
  if (++probes_ == kProbeMessageBytes.size()) open(hello_->node_key, welcome_, now);
}

}  // namespace kvasir::wire
