// HTTP/1.1 server: hands over whole requests, takes whole or streamed answers, upgrades to
// WebSocket. Knows nothing of routes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/event_loop.h"
#include "net/message_socket.h"

namespace kvasir::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // as sent, percent-encoded, without the query
  std::string query;   // behind '?', may be empty
  HttpHeaders headers;
  std::string body;
  std::string remote_address;  // "127.0.0.1:40312"
  bool wants_upgrade = false;  // a WebSocket upgrade

  // The first header of that name, in any case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers;  // without Content-Length, Date and Connection
  std::string body;
};

// One request and its answer. The loop's thread only. Whoever answers keeps the pointer until it is
// done; dropping it unanswered sends 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;

  // The whole answer. Once, instead of start().
  virtual void respond(HttpResponse response) = 0;

  // A streamed answer: start, any number of writes, finish. Chunked, unless `headers` name a
  // Content-Length; then so many bytes are written, or the connection is cut. Dropping the pointer
  // before finish() cuts it, too.
  virtual void start(int status, HttpHeaders headers) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0;
  // Bytes written that the system has not taken yet. Who streams stops, or drops the client, when
  // this grows (HttpLimits::unsent_bytes closes the connection on its own).
  virtual size_t unsent_bytes() const = 0;

  // Calls back once, when all bytes written so far are taken: whoever streams a file writes the
  // next piece then. Not if the client goes away first.
  virtual void when_sent(std::function<void()> callback) { callback(); }

  // Called once if the client goes away before the answer is complete, but not if the server is
  // destroyed. A client that ends its side of the connection before the answer is complete is gone.
  virtual void on_gone(std::function<void()> callback) = 0;
  virtual bool gone() const = 0;

  // Only if request().wants_upgrade. Instead of an answer; null if the client went away or its
  // request was wrong (that is answered). Never called from within upgrade(), nor after the server
  // is gone.
  virtual void upgrade(const MessageLimits& limits,
                       std::function<void(std::unique_ptr<MessageSocket>)> done) = 0;
};

struct HttpLimits {
  size_t header_bytes = size_t{8} * 1024;
  size_t headers = 64;
  size_t body_bytes = size_t{8} * 1024 * 1024;
  uint64_t request_within_ms = 5'000;  // head of a request, from its first byte (or accept)
  uint64_t body_within_ms = 30'000;
  uint64_t idle_ms = 75'000;  // between requests of one connection
  size_t connections = 4'096;
  size_t connections_without_request = 1'024;     // accepted, first request not complete
  size_t unsent_bytes = size_t{4} * 1024 * 1024;  // a slower reader is cut off
  uint64_t unsent_within_ms = 30'000;             // no byte taken for so long while some wait
};

// What is said to a request that the server refuses on its own behalf: 400, 408, 413, 431, ...
// path: of the request, empty if its head was not complete.
using RefusalPage = std::function<HttpResponse(int status, std::string_view path)>;

class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<HttpExchange>)>;
  // Listens at once; port 0 takes a free one. `handler` is called on the loop's thread. kIo if the
  // address is taken or not ours, kInvalid if it is no IP address.
  static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, const std::string& address,
                                                    uint16_t port, const HttpLimits& limits,
                                                    Handler handler, RefusalPage refusal = {});
  virtual ~HttpServer() = default;  // on the loop's thread or after it: drops all connections
  virtual uint16_t port() const = 0;
  // Accepts nothing more; connections end with the answers that are under way.
  virtual void stop_accepting() = 0;
  // WebSocket connections that began here count, too, as long as they live.
  virtual size_t connections() const = 0;
};

}  // namespace kvasir::net
