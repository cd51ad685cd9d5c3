// One HTTP connection of a server: reads a request, waits for its answer, writes it, and so on.
// Only for net/*.cc. The loop's thread only.
#pragma once

#include <list>
#include <memory>
#include <unordered_set>

#include "net/asio_impl.h"
#include "net/http_reader.h"
#include "net/http_server.h"

namespace kvasir::net {

class HttpConnection;

// What a server's connections share. They hold it, so it outlives the server by a moment.
struct HttpServerState {
  HttpServerState(EventLoop& l, const HttpLimits& x, HttpServer::Handler h, RefusalPage r)
      : loop(l), limits(x), handler(std::move(h)), refusal(std::move(r)) {}

  EventLoop& loop;
  const HttpLimits limits;
  const HttpServer::Handler handler;
  const RefusalPage refusal;
  bool stopping = false;  // no further requests
  bool gone = false;      // the server was destroyed
  std::unordered_set<HttpConnection*> connections;
  // With those that became WebSocket connections; they may outlive all of this.
  std::shared_ptr<size_t> sockets = std::make_shared<size_t>(0);
  std::list<HttpConnection*> without_request;  // in the order they came
};

// Counts one socket while it lives.
class SocketSlot {
 public:
  explicit SocketSlot(std::shared_ptr<size_t> count) : count_(std::move(count)) { ++*count_; }
  ~SocketSlot() { --*count_; }
  SocketSlot(const SocketSlot&) = delete;
  SocketSlot& operator=(const SocketSlot&) = delete;

 private:
  std::shared_ptr<size_t> count_;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::shared_ptr<HttpServerState> server, Socket socket);
  ~HttpConnection();

  void start();
  // The end, at once.
  void drop();
  // No further request. At once if none is being read or answered.
  void finish_up();

 private:
  class Exchange;
  using UpgradeDone = std::function<void(std::unique_ptr<MessageSocket>)>;
  // What goes on beside writing.
  enum class Phase : uint8_t {
    kReading,    // of a request
    kAnswering,  // its handler has it
    kUpgrading,
    kLingering,  // all is said; reads what still comes, so that our last words arrive
    kClosed,
  };

  void read();
  void on_read(ErrorCode error, size_t bytes);
  void on_end_of_input();
  void process();
  void begin_exchange();
  void refuse(int status);
  void append_head(int status, const HttpHeaders& headers, std::string_view framing);
  void answer_complete();
  void flush();
  void write_some();
  void on_written(ErrorCode error, size_t bytes);
  void on_all_sent();
  void linger();
  void had_request();
  void upgrade(const HttpRequest& request, const MessageLimits& limits, UpgradeDone done);
  void continue_upgrade();
  size_t unsent_bytes() const { return waiting_.size() + sending_.size() - sent_; }

  const std::shared_ptr<HttpServerState> server_;
  std::shared_ptr<SocketSlot> slot_;
  Socket socket_;
  const std::string remote_address_;
  HttpReader reader_;
  Timer phase_timer_, write_timer_;
  Phase phase_ = Phase::kReading;
  HttpReader::Step step_ = HttpReader::Step::kIdle;
  bool reading_ = false, input_ended_ = false, had_request_ = false;
  std::list<HttpConnection*>::iterator without_request_;  // until had_request_
  bool last_ = false;                                     // closes after this answer
  bool answered_ = false;  // the answer is complete, though maybe not sent

  std::string waiting_, sending_;  // sending_ is being written, waiting_ comes next
  size_t sent_ = 0;                // of sending_
  Exchange* exchange_ = nullptr;   // until its answer is sent or it is destroyed
  std::function<void()> when_sent_;

  HttpRequest upgrade_request_;
  MessageLimits upgrade_limits_;
  UpgradeDone upgrade_done_;
};

}  // namespace kvasir::net
