// What the handlers of one server share. Internal to this module; the loop's thread only.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "net/event_loop.h"
#include "serve/api_server.h"
#include "serve/metrics.h"
#include "serve/work_room.h"

namespace kvasir::serve {

class Answering;

struct ServerState {
  ServerState(net::EventLoop& the_loop, ServerOptions the_options)
      : loop(the_loop), options(std::move(the_options)), rates(options.keys) {}

  net::EventLoop& loop;
  const ServerOptions options;
  api::KeyRates rates;
  Metrics metrics;
  std::shared_ptr<const ServedModel> model;  // null: not there yet
  bool ready = false;
  bool draining = false;

  // Requests of which the generator may still say something.
  std::set<std::shared_ptr<Answering>> answering;
  size_t planning = 0;                            // requests in the work room
  std::set<std::shared_ptr<void>> swarm_streams;  // those who watch the swarm

  swarm::SharedDispatcher* dispatcher = nullptr;  // null: no swarm
  std::unique_ptr<swarm::WorkerGate> gate;
  net::HttpServer* http = nullptr;
  // Its threads end before the loop does.
  std::unique_ptr<WorkRoom> room = std::make_unique<WorkRoom>(2, 256);
};

// "req_" and so on: letters and digits by chance.
std::string random_id();
uint64_t random_seed();
int64_t unix_ms();

}  // namespace kvasir::serve
