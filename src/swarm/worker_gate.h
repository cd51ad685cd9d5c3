// Where workers come in: the backbone's ends of their connections. Takes WebSocket upgrades from
// whoever runs the HTTP server, decides who may join, and carries frames between the sessions and
// the dispatcher.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crypto/identity.h"
#include "net/event_loop.h"
#include "net/http_server.h"
#include "net/session_driver.h"
#include "swarm/shared_dispatcher.h"
#include "wire/server_session.h"

namespace kvasir::swarm {

struct GateOptions {
  wire::Fingerprint fingerprint{};  // of the model that is served
  std::string build;                // "kvasir 0.2.0"
  std::string token;                // that workers must show; empty: none
  uint16_t rows_max = 64;           // of one COMPUTE
  size_t workers_max = 4096;
  std::string evidence_folder;  // where what convicted a worker is written; empty: nowhere
};

// The loop's thread only, but for the constructor and the destructor: these need the loop to run
// (the latter waits for it) or to have stopped.
class WorkerGate {
 public:
  // All outlive this.
  WorkerGate(net::EventLoop& loop, const crypto::Identity& identity, SharedDispatcher& dispatcher,
             GateOptions options);
  ~WorkerGate();

  // A request for the swarm's path. Anything but a WebSocket upgrade is answered with 426.
  void take(const std::shared_ptr<net::HttpExchange>& exchange);
  // Tells all workers to come back later.
  void close_all(wire::CloseCode code, const std::string& reason);
  size_t connections() const { return connections_.size(); }

 private:
  struct Connection;
  using Number = uint64_t;

  void open(std::unique_ptr<net::MessageSocket> socket);
  void on_event(Number number, wire::SessionEvent& event);
  void on_hello(Connection& connection, const wire::Hello& hello);
  void on_open(Number number, Connection& connection, const wire::SessionOpen& event);
  // False if the frame breaks the protocol.
  Result<void> on_frame(Connection& connection, const wire::FrameArrived& frame);
  void end(Number number);
  void expel(Number number, wire::CloseCode code, const std::string& reason);
  void on_news();
  void flush(Connection& connection);
  void keep_evidence();

  net::EventLoop& loop_;
  const crypto::Identity& identity_;
  SharedDispatcher& dispatcher_;
  const GateOptions options_;
  const wire::ServerConfig config_;

  Number last_number_ = 0;
  uint64_t last_epoch_ = 0;
  std::map<Number, std::unique_ptr<Connection>> connections_;
  std::map<WorkerId, Number> number_of_;
  std::map<wire::Key, Number> login_of_;
  // Closed from this side: kept until the close frame has had time to leave.
  std::deque<std::unique_ptr<Connection>> closing_;
  net::Timer closing_timer_;
  std::shared_ptr<std::atomic<bool>> is_news_posted_;
  std::shared_ptr<std::atomic<bool>> is_alive_;
  size_t evidence_written_ = 0;
};

}  // namespace kvasir::swarm
