#include "net/http_server.h"

#include <boost/asio/ip/address.hpp>

#include "net/asio_impl.h"
#include "net/http_connection.h"

namespace kvasir::net {
namespace {

using asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;

// After an error of the system, which is out of file numbers as a rule.
constexpr Time kAcceptAgainMs = 100;

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(EventLoop& loop, std::shared_ptr<HttpServerState> server)
      : server_(std::move(server)), acceptor_(loop.impl().context), timer_(loop) {}

  ErrorCode open(const tcp::endpoint& where) {
    ErrorCode error;
    acceptor_.open(where.protocol(), error);
    if (!error) acceptor_.set_option(Acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(Acceptor::max_listen_connections, error);
    return error;
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void accept() {
    if (!acceptor_.is_open()) return;
    acceptor_.async_accept([self = shared_from_this()](ErrorCode error, Socket socket) {
      self->on_accepted(error, std::move(socket));
    });
  }

  void close() {
    timer_.cancel();
    ErrorCode ignored;
    acceptor_.close(ignored);
  }

 private:
  void on_accepted(ErrorCode error, Socket socket) {
    if (!acceptor_.is_open()) return;
    if (error && error != asio::error::connection_aborted) {
      timer_.at(EventLoop::now() + kAcceptAgainMs, [this] { accept(); });
      return;
    }
    const HttpLimits& limits = server_->limits;
    if (error || *server_->sockets >= limits.connections) {
      close_quietly(socket);
    } else {
      // Who asks at once is not kept out by those who came before and say nothing.
      if (server_->without_request.size() >= limits.connections_without_request)
        server_->without_request.front()->drop();
      std::make_shared<HttpConnection>(server_, std::move(socket))->start();
    }
    accept();
  }

  const std::shared_ptr<HttpServerState> server_;
  Acceptor acceptor_;
  Timer timer_;
};

class Server final : public HttpServer {
 public:
  Server(std::shared_ptr<HttpServerState> state, std::shared_ptr<Listener> listener)
      : state_(std::move(state)), listener_(std::move(listener)), port_(listener_->port()) {}

  ~Server() override {
    state_->stopping = state_->gone = true;
    listener_->close();
    for_each_connection([](HttpConnection& connection) { connection.drop(); });
  }

  uint16_t port() const override { return port_; }

  void stop_accepting() override {
    state_->stopping = true;
    listener_->close();
    for_each_connection([](HttpConnection& connection) { connection.finish_up(); });
  }

  size_t connections() const override { return *state_->sockets; }

 private:
  // They may leave the set meanwhile.
  template <typename Do>
  void for_each_connection(Do&& act) {
    std::vector<std::shared_ptr<HttpConnection>> all;
    for (HttpConnection* connection : state_->connections)
      all.push_back(connection->shared_from_this());
    for (const auto& connection : all) act(*connection);
  }

  const std::shared_ptr<HttpServerState> state_;
  const std::shared_ptr<Listener> listener_;
  const uint16_t port_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, const std::string& address,
                                                       uint16_t port, const HttpLimits& limits,
                                                       Handler handler, RefusalPage refusal) {
  ErrorCode error;
  const auto host = asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  if (error)
    return Error::invalid("'{}' is no IP address", address)
        .with_hint("use 127.0.0.1 for this machine alone, 0.0.0.0 for every network");
  auto state =
      std::make_shared<HttpServerState>(loop, limits, std::move(handler), std::move(refusal));
  auto listener = std::make_shared<Listener>(loop, state);
  error = listener->open({host, port});
  if (error)
    return Error::io("cannot listen on {} port {}: {}", address, port, error.message())
        .with_hint("is another program using this port?");
  auto server = std::make_unique<Server>(state, listener);
  loop.post([listener] { listener->accept(); });
  return server;
}

}  // namespace kvasir::net
