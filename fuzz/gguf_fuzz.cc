// Any bytes as a GGUF file: refused with a reason, or accepted with every promise kept.
#include <cstdint>

#include "gguf/header_promises.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvasir::ByteSpan file = std::as_bytes(std::span(data, size));
  auto header = kvasir::gguf::parse_header(file);
  if (header)
    kvasir::gguf::check_header_promises(*header, file);
  else
    KVASIR_CHECK(!header.error().message.empty());
  return 0;
}
