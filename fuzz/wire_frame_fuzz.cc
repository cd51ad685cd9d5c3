// Any bytes as a WebSocket message: every frame lies inside the message, in order and without
// overlap, and written again gives the same bytes; nothing is believed twice.
#include <algorithm>
#include <cstdint>

#include "wire/test_session.h"

namespace {

using namespace kvasir;
using namespace kvasir::wire;

void read_all(std::vector<std::byte> message, FrameOpener* opener) {
  MessageReader reader(message, opener);
  const std::byte* last = message.data();
  bool whole = true;
  for (;;) {
    auto frame = reader.next();
    if (!frame) {
      KVASIR_CHECK(!frame.error().message.empty());
      whole = false;
      frame = reader.next();
      KVASIR_CHECK(frame && !*frame);
      break;
    }
    if (!*frame) break;
    const ByteSpan body = (*frame)->body;
    const std::byte* begin = body.data() - kHeadBytes;
    KVASIR_CHECK(begin >= last && body.size() <= body_max((*frame)->head.type));
    last = begin + (*frame)->wire_bytes;
    KVASIR_CHECK(last <= message.data() + message.size());
    if (opener == nullptr) {
      MessageWriter writer;
      writer.add((*frame)->head, body);
      const auto again = writer.take();
      KVASIR_CHECK(std::equal(again.begin(), again.end(), begin, last));
    }
  }
  KVASIR_CHECK(reader.passed_data_bytes() <= message.size());
  // A message that was read to its end brings nothing when it comes again. (After an unknown frame
  // a session is over; here reading on would find what stood behind it.)
  if (opener == nullptr || !whole) return;
  MessageReader again(message, opener);
  auto frame = again.next();
  KVASIR_CHECK(!frame || !*frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> message(bytes.begin(), bytes.end());
  read_all(message, nullptr);
  ToyTagger tagger(1, Toy::kBelievesAll);
  FrameOpener opener(tagger);
  read_all(message, &opener);
  return 0;
}
