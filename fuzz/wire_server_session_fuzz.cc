// A server's session fed with any bytes, times and application calls.
#include "wire_session_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvasir::wire;
  auto server = test_server(test_server_config(), 0, Toy::kBelievesAll);
  SessionRun(*server, Role::kBackbone).run(std::as_bytes(std::span(data, size)), [&](Time now) {
    server->admit(1, ResumeId{}, now);
  });
  return 0;
}
