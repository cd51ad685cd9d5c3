// Any bytes in any pieces through the detokenizer.
//
//   input := cuts "\n" stop strings, separated by "|" "\n" bytes
//
// The pieces (lengths from `cuts`, in turn) add up to the same text as the whole; each is valid
// UTF-8; no stop string that is valid itself is in the text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace {

using namespace kvasir::text;

// Takes what is in front of the first `separator`, and the separator, off `input`.
std::string_view take(std::string_view& input, char separator) {
  const std::string_view part = input.substr(0, input.find(separator));
  input.remove_prefix(std::min(input.size(), part.size() + 1));
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view cuts = take(bytes, '\n');
  std::string_view stop_list = take(bytes, '\n');
  std::vector<std::string> stops;
  while (!stop_list.empty()) stops.emplace_back(take(stop_list, '|'));

  Detokenizer whole(stops);
  std::string expected = whole.push(bytes);
  KVASIR_CHECK(is_valid_utf8(expected));
  expected += whole.finish();

  Detokenizer pieces(stops);
  std::string text;
  for (size_t cut = 0; !bytes.empty(); ++cut) {
    const size_t wanted = cuts.empty() ? 1 : static_cast<uint8_t>(cuts[cut % cuts.size()]) % 8;
    const std::string_view piece = bytes.substr(0, cut % 64 == 63 ? wanted + 1 : wanted);
    const std::string part = pieces.push(piece);
    KVASIR_CHECK(is_valid_utf8(part));
    text += part;
    bytes.remove_prefix(piece.size());
  }
  text += pieces.finish();
  KVASIR_CHECK(text == expected);
  KVASIR_CHECK(pieces.stopped() == whole.stopped());
  for (const std::string& stop : stops) {
    KVASIR_CHECK(stop.empty() || !is_valid_utf8(stop) || text.find(stop) == std::string::npos);
  }
  return 0;
}
