#include "swarm/swarm_listener.h"

#include <future>

#include "swarm/status_json.h"

namespace kvasir::swarm {
namespace {

// Time for close frames to leave.
constexpr auto kGoodbyeWithin = std::chrono::milliseconds(500);

void answer(const std::shared_ptr<net::HttpExchange>& exchange, SharedDispatcher& dispatcher,
            WorkerGate& gate) {
  const net::HttpRequest& request = exchange->request();
  if (request.path == kSwarmPath) {
    gate.take(exchange);
  } else if (request.path != kStatusPath) {
    exchange->respond({404, {{"Content-Type", "text/plain"}}, "there are /swarm and /v1/swarm\n"});
  } else if (request.method != "GET" && request.method != "HEAD") {
    exchange->respond({405, {{"Allow", "GET, HEAD"}}, ""});
  } else {
    exchange->respond(status_response(dispatcher));
  }
}

}  // namespace

net::HttpResponse status_response(SharedDispatcher& dispatcher) {
  const SwarmStatus status = dispatcher.with(
      [](const Dispatcher& the_dispatcher) { return the_dispatcher.status(now_us()); });
  return {200,
          {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          status_json(status)};
}

struct SwarmListener::State {
  net::LoopThread thread;
  std::unique_ptr<WorkerGate> gate;
  std::unique_ptr<net::HttpServer> server;
};

SwarmListener::SwarmListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<SwarmListener>> SwarmListener::listen(const std::string& address,
                                                             uint16_t port,
                                                             const crypto::Identity& identity,
                                                             SharedDispatcher& dispatcher,
                                                             GateOptions options) {
  auto state = std::make_unique<State>();
  std::promise<Result<void>> ready;
  State& the_state = *state;
  state->thread.loop().post([&] {
    the_state.gate = std::make_unique<WorkerGate>(the_state.thread.loop(), identity, dispatcher,
                                                  std::move(options));
    auto server = net::HttpServer::listen(
        the_state.thread.loop(), address, port, {},
        [&dispatcher, gate = the_state.gate.get()](std::shared_ptr<net::HttpExchange> exchange) {
          answer(exchange, dispatcher, *gate);
        });
    if (server) the_state.server = std::move(*server);
    ready.set_value(server ? Result<void>() : Result<void>(std::move(server.error())));
  });
  if (Result<void> listening = ready.get_future().get(); !listening) {
    std::promise<void> closed;
    the_state.thread.loop().post([&] {
      the_state.gate.reset();
      closed.set_value();
    });
    closed.get_future().wait();
    return std::move(listening.error());
  }
  return std::unique_ptr<SwarmListener>(new SwarmListener(std::move(state)));
}

SwarmListener::~SwarmListener() {
  std::promise<void> said;
  net::EventLoop& loop = state_->thread.loop();
  std::unique_ptr<net::Timer> timer;
  loop.post([&] {
    state_->server->stop_accepting();
    const bool any = state_->gate->connections() > 0;
    state_->gate->close_all(wire::CloseCode::kGoodbye, "the backbone ends");
    timer = std::make_unique<net::Timer>(loop);
    const auto wait = any ? static_cast<net::Time>(kGoodbyeWithin.count()) : 0;
    timer->at(net::EventLoop::now() + wait, [&] {
      state_->gate.reset();
      state_->server.reset();
      said.set_value();
    });
  });
  said.get_future().wait();
  std::promise<void> freed;
  loop.post([&] {
    timer.reset();
    freed.set_value();
  });
  freed.get_future().wait();
}

uint16_t SwarmListener::port() const {
  return state_->server->port();
}

}  // namespace kvasir::swarm
