// A backbone's open door: an HTTP server with the workers' gate at /swarm and the swarm's status at
// /v1/swarm, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "crypto/identity.h"
#include "swarm/worker_gate.h"

namespace kvasir::swarm {

inline constexpr std::string_view kSwarmPath = "/swarm";
inline constexpr std::string_view kStatusPath = "/v1/swarm";

// The answer to GET kStatusPath.
net::HttpResponse status_response(SharedDispatcher& dispatcher);

class SwarmListener {
 public:
  // `identity` and `dispatcher` outlive this. kIo if the address cannot be had.
  static Result<std::unique_ptr<SwarmListener>> listen(const std::string& address, uint16_t port,
                                                       const crypto::Identity& identity,
                                                       SharedDispatcher& dispatcher,
                                                       GateOptions options);
  ~SwarmListener();  // says goodbye to the workers
  uint16_t port() const;

 private:
  struct State;
  explicit SwarmListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvasir::swarm
