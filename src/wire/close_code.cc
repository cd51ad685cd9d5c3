#include "wire/close_code.h"

#include <iterator>

namespace kvasir::wire {

std::string_view close_code_name(CloseCode code) {
  static constexpr std::string_view kNames[] = {
      "goodbye",     "malformed",  "unexpected", "version",    "role",   "identity",
      "fingerprint", "token",      "too_slow",   "silent",     "credit", "stalled",
      "path",        "superseded", "full",       "restarting", "renew",  "connection"};
  static_assert(std::size(kNames) == kCloseCodeLast - kCloseCodeFirst + 1);
  return kNames[static_cast<uint16_t>(code) - kCloseCodeFirst];
}

}  // namespace kvasir::wire
