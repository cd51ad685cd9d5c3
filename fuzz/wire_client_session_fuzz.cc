// A client's session fed with any bytes, times and application calls.
#include "wire_session_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvasir::wire;
  auto client = test_client(test_client_config(), 0, Toy::kBelievesAll);
  SessionRun(*client, Role::kWorker).run(std::as_bytes(std::span(data, size)), [](Time) {});
  return 0;
}
