// One HTTP request from its arrival to its line in the log: whoever handles it answers through
// this, which adds the headers that every answer has, and counts.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/routes.h"
#include "net/http_server.h"
#include "serve/planning.h"
#include "serve/server_state.h"

namespace kvasir::serve {

// The loop's thread only. Dropped without an answer it is answered with 500.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  static std::shared_ptr<Visit> begin(ServerState& state,
                                      std::shared_ptr<net::HttpExchange> exchange);
  ~Visit();

  const net::HttpRequest& request() const { return exchange_->request(); }
  const api::Route* route() const { return route_; }
  const std::string& parameter() const { return parameter_; }
  const std::string& id() const { return record_.id; }
  const Client& client() const { return client_; }
  net::Time began() const { return began_; }
  bool over() const { return over_; }
  RequestRecord& record() { return record_; }

  // Host, origin, route, key and rate, in this order. False: it is answered.
  bool admit();

  void answer(int status, std::string body,
              std::string_view content_type = "application/json; charset=utf-8");
  void fail(const api::ApiError& error);
  // As the body of 503 says it: with a number for a code.
  void answer_unhealthy(const api::ApiError& error);

  void begin_stream();
  void write(std::string_view bytes);
  void end_stream();
  size_t unsent_bytes() const { return exchange_->unsent_bytes(); }
  // The client went away before the answer was complete. Once.
  void on_gone(std::function<void()> callback) { on_gone_ = std::move(callback); }
  // For the workers' gate: what is said there is no matter of this.
  std::shared_ptr<net::HttpExchange> hand_over();

 private:
  Visit(ServerState& state, std::shared_ptr<net::HttpExchange> exchange);
  api::Outcome<void> check();
  net::HttpHeaders headers(std::string_view content_type) const;
  void finish(int status);

  ServerState& state_;
  std::shared_ptr<net::HttpExchange> exchange_;
  const net::Time began_;
  const api::Route* route_ = nullptr;
  std::string parameter_;
  api::Family family_;
  std::vector<api::Header> cors_;
  Client client_;
  RequestRecord record_;
  bool over_ = false;
  std::function<void()> on_gone_;
};

}  // namespace kvasir::serve
