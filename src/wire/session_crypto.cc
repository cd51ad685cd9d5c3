#include "wire/session_crypto.h"

namespace kvasir::wire {

void Transcript::add(ByteSpan bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> Transcript::signed_bytes(std::string_view domain, ByteSpan body) const {
  KVASIR_CHECK(body.size() >= sizeof(Signature));
  const ByteSpan text = bytes_of(domain);
  const ByteSpan unsigned_body = body.first(body.size() - sizeof(Signature));
  std::vector<std::byte> message(text.begin(), text.end());
  message.push_back(std::byte{0});
  message.insert(message.end(), bytes_.begin(), bytes_.end());
  message.insert(message.end(), unsigned_body.begin(), unsigned_body.end());
  return message;
}

}  // namespace kvasir::wire
