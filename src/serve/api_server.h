// The API's server: every route of api/routes.h, on an event loop with a thread of its own, over a
// generator and, if there is one, a swarm. It listens before there is a model, and says so.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/keys.h"
#include "api/origin.h"
#include "api/request.h"
#include "crypto/identity.h"
#include "net/http_server.h"
#include "serve/request_log.h"
#include "serve/served_model.h"
#include "swarm/worker_gate.h"

namespace kvasir::serve {

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8080;
  api::KeyRing keys{{}};
  api::CorsPolicy cors;
  api::Bound bound = api::Bound::kLoopback;
  api::UnknownFields unknown_fields = api::UnknownFields::kIgnored;
  net::HttpLimits limits;
  LogFormat log_format = LogFormat::kText;
  // Takes a line of the log, without its end; on the loop's thread. Empty: no log.
  std::function<void(const std::string& line)> log;
  std::string version;  // "0.2.0"
  uint64_t keep_alive_ms = 10'000;
};

// Thread-safe, but for construction and destruction.
class ApiServer {
 public:
  // kIo if the address cannot be had.
  static Result<std::unique_ptr<ApiServer>> listen(ServerOptions options);
  // Drops all connections. What it was told to serve is not used afterwards.
  ~ApiServer();
  uint16_t port() const;

  // From now on workers may join. Both outlive this.
  void open_swarm(const crypto::Identity& identity, swarm::SharedDispatcher& dispatcher,
                  swarm::GateOptions gate);
  // The model is known, and requests for it are taken. Its generator outlives close().
  void serve(std::shared_ptr<const ServedModel> model);
  // A token came out: /readyz says yes.
  void set_ready();

  // No new requests for answers: 503. Those under way go on.
  void drain();
  // After drain(): whether nothing is under way any more, within so long.
  bool wait_idle(uint64_t patience_ms);
  // Cancels what is under way, closes every connection, and waits until the generator is done with
  // all of it. Workers are told goodbye.
  void close();

 private:
  struct State;
  explicit ApiServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace kvasir::serve
