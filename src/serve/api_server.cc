#include "serve/api_server.h"

#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "serve/answering.h"
#include "serve/routes.h"
#include "serve/server_state.h"
#include "serve/visit.h"

namespace kvasir::serve {
namespace {

// Time for close frames to leave.
constexpr net::Time kGoodbyeWithinMs = 500;
constexpr auto kLookAgain = std::chrono::milliseconds(10);
constexpr size_t kIdLetters = 24;

}  // namespace

std::string random_id() {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random{random_seed()};
  std::string id(kIdLetters, ' ');
  for (char& c : id) c = kLetters[random() % kLetters.size()];
  return id;
}

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct ApiServer::State {
  // Waits until it has run.
  template <typename Call>
  void on_loop(Call call) {
    std::promise<void> done;
    thread->loop().post([&] {
      call();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Until the condition, looked at on the loop, holds. False after `patience_ms`.
  bool wait_for(uint64_t patience_ms, const std::function<bool()>& condition) {
    const net::Time until = net::EventLoop::now() + patience_ms;
    for (;;) {
      bool holds = false;
      on_loop([&] { holds = condition(); });
      if (holds || net::EventLoop::now() >= until) return holds;
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  std::unique_ptr<ServerState> state;  // outlives the loop's callbacks
  std::unique_ptr<net::LoopThread> thread;
  std::unique_ptr<net::HttpServer> http;  // the loop's
  uint16_t port = 0;
  bool closed = false;
};

namespace {

// Of what the HTTP server refuses before a request is one: clients expect the errors of an API.
net::HttpResponse refusal_page(int status, std::string_view path, size_t body_bytes) {
  if (status != 413)
    return {status, {{"Content-Type", "text/plain"}}, fmt::format("{}: not served\n", status)};
  api::ErrorAnswer answer = api::error_answer(
      api::ApiError::of(api::Code::kRequestTooLarge, "",
                        "the request has more than {} bytes, which is all that is read",
                        body_bytes),
      api::family_of(path), "req_" + random_id());
  net::HttpResponse response{answer.status, {}, std::move(answer.body)};
  for (api::Header& header : answer.headers)
    response.headers.emplace_back(std::move(header.name), std::move(header.value));
  return response;
}

}  // namespace

ApiServer::ApiServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ApiServer>> ApiServer::listen(ServerOptions options) {
  auto state = std::make_unique<State>();
  State& s = *state;
  s.thread = std::make_unique<net::LoopThread>();
  s.state = std::make_unique<ServerState>(s.thread->loop(), std::move(options));
  Result<void> listening;
  s.on_loop([&] {
    const ServerOptions& o = s.state->options;
    auto http = net::HttpServer::listen(
        s.thread->loop(), o.address, o.port, o.limits,
        [core = s.state.get()](std::shared_ptr<net::HttpExchange> exchange) {
          const auto visit = Visit::begin(*core, std::move(exchange));
          if (visit->admit()) handle(*core, visit);
        },
        [limit = o.limits.body_bytes](int status, std::string_view path) {
          return refusal_page(status, path, limit);
        });
    if (!http) {
      listening = std::move(http.error());
      return;
    }
    s.http = std::move(*http);
    s.port = s.http->port();
    s.state->http = s.http.get();
  });
  if (!listening) return std::move(listening.error());
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(state)));
}

ApiServer::~ApiServer() {
  close();
  state_->state->room.reset();
  state_->thread.reset();
}

uint16_t ApiServer::port() const {
  return state_->port;
}

void ApiServer::open_swarm(const crypto::Identity& identity, swarm::SharedDispatcher& dispatcher,
                           swarm::GateOptions gate) {
  state_->on_loop([&] {
    state_->state->dispatcher = &dispatcher;
    state_->state->gate = std::make_unique<swarm::WorkerGate>(state_->thread->loop(), identity,
                                                              dispatcher, std::move(gate));
  });
}

void ApiServer::serve(std::shared_ptr<const ServedModel> model) {
  state_->on_loop([&] { state_->state->model = std::move(model); });
}

void ApiServer::set_ready() {
  state_->on_loop([&] { state_->state->ready = true; });
}

void ApiServer::drain() {
  state_->on_loop([&] { state_->state->draining = true; });
}

bool ApiServer::wait_idle(uint64_t patience_ms) {
  ServerState& core = *state_->state;
  return state_->wait_for(patience_ms,
                          [&core] { return core.answering.empty() && core.planning == 0; });
}

void ApiServer::close() {
  if (std::exchange(state_->closed, true)) return;
  ServerState& core = *state_->state;
  bool any_workers = false;
  state_->on_loop([&] {
    core.draining = true;
    if (state_->http) state_->http->stop_accepting();
    const auto all = core.answering;
    for (const auto& answering : all) {
      answering->abort(api::ApiError::of(api::Code::kDraining, "", "this server is shutting down"));
    }
    if (core.gate) {
      any_workers = core.gate->connections() > 0;
      core.gate->close_all(wire::CloseCode::kGoodbye, "the backbone ends");
    }
  });
  // Cancelled generations end within a layer.
  while (!wait_idle(1'000)) {
  }
  if (any_workers)
    state_->wait_for(kGoodbyeWithinMs, [&core] { return core.gate->connections() == 0; });
  state_->on_loop([&] {
    core.swarm_streams.clear();
    core.gate.reset();
    core.dispatcher = nullptr;
    core.http = nullptr;
    state_->http.reset();
    core.model.reset();
  });
}

}  // namespace kvasir::serve
