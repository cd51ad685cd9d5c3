#include "net/message_socket.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "net/message_socket_impl.h"

namespace kvasir::net {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;

// A type of our own, so that Beast finds our async_teardown() below.
class TcpSocket : public Socket {
 public:
  using Socket::Socket;
  explicit TcpSocket(Socket socket) : Socket(std::move(socket)) {}
};

// What Beast does when the closing handshake is over. Its own would read until the other end closes
// too, for as long as that takes; Connection does this with a limit.
template <typename Handler>
void async_teardown(beast::role_type, TcpSocket& socket, Handler&& handler) {
  ErrorCode ignored;
  socket.shutdown(Socket::shutdown_send, ignored);
  asio::post(socket.get_executor(),
             beast::bind_front_handler(std::forward<Handler>(handler), ErrorCode{}));
}

using Stream = websocket::stream<TcpSocket, false>;  // false: no deflate

constexpr Time kHandshakeWithinMs = 5'000;
constexpr Time kCloseWithinMs = 3'000;
// Most messages of the swarm fit. Grows to the limit of a message if one needs it.
constexpr size_t kReceiveBytesAtFirst = size_t{16} * 1024;
// A client masks through this buffer; a message up to this size leaves in one write.
constexpr size_t kWriteBufferBytes = size_t{64} * 1024 + 64;
// WebSocket pings and pongs. Sessions have their own, so these come from proxies, rarely.
constexpr double kControlFramesPerSecond = 10, kControlFramesBurst = 20;

// At most what a close frame can hold, and nothing that a peer could object to.
websocket::close_reason make_close_reason(uint16_t code, std::string_view reason) {
  websocket::close_reason result(code);
  for (char c : reason.substr(0, result.reason.max_size()))
    result.reason.push_back(c >= 0x20 && c < 0x7F ? c : '?');
  return result;
}

// The connection broke, rather than what was said on it.
bool is_of_system(ErrorCode error) {
  return error &&
         (error.category() == asio::error::get_system_category() || error == asio::error::eof);
}

// Who we say that we are.
struct Names {
  void operator()(websocket::request_type& request) const {
    request.set(http::field::user_agent, "kvasir");
  }
  void operator()(websocket::response_type& response) const {
    response.set(http::field::server, "kvasir");
  }
};

// How many control frames may still come: a bucket that refills.
class ControlFrameBudget {
 public:
  bool take(Time now) {
    left_ = std::min(kControlFramesBurst,
                     left_ + static_cast<double>(now - at_) * kControlFramesPerSecond / 1000);
    at_ = now;
    left_ -= 1;
    return left_ >= 0;
  }

 private:
  double left_ = kControlFramesBurst;
  Time at_ = EventLoop::now();
};

// Lives as long as operations are under way; its user's end is Handle.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(EventLoop& loop, Socket socket, const MessageLimits& limits,
             std::shared_ptr<void> slot)
      : loop_(loop),
        limits_(limits),
        slot_(std::move(slot)),
        remote_address_(remote_address_text(socket)),
        stream_(TcpSocket(std::move(socket))),
        message_timer_(loop),
        write_timer_(loop),
        close_timer_(loop) {
    set_no_delay(stream_.next_layer());
    stream_.binary(true);
    stream_.auto_fragment(false);
    stream_.read_message_max(limits.message_bytes);
    stream_.write_buffer_bytes(kWriteBufferBytes);
    stream_.set_option(websocket::stream_base::decorator(Names{}));
  }

  void accept(const HttpRequest& request, std::function<void(std::unique_ptr<MessageSocket>)> done);
  void connect(const std::string& host, const std::string& target, Time deadline,
               std::function<void(Result<std::unique_ptr<MessageSocket>>)> done);

  void start(MessageEvents events);
  bool can_write() const { return open_ && !writing_; }
  void write(std::vector<std::byte> message);
  void close(uint16_t code, std::string_view reason);
  void drop();
  const std::string& remote_address() const { return remote_address_; }

 private:
  void read();
  void on_read(ErrorCode error, size_t bytes);
  void on_written(ErrorCode error);
  void close_soon(uint16_t code, std::string_view reason);
  void send_close();
  // Beast has sent a close frame that the other end should see, or nothing is left to wait for.
  enum class Then : uint8_t { kDrain, kRelease };
  void on_closed(std::string_view why, Then then);
  void drain();
  void release();

  EventLoop& loop_;
  const MessageLimits limits_;
  std::shared_ptr<void> slot_;
  const std::string remote_address_;
  Stream stream_;
  MessageEvents events_;

  std::vector<std::byte> received_;
  size_t received_bytes_ = 0;
  std::vector<std::byte> sending_;
  ControlFrameBudget control_frames_;
  Timer message_timer_, write_timer_, close_timer_;

  bool started_ = false, open_ = false, writing_ = false;
  bool told_ = false;  // on_closed was called, or nobody wants to know
  bool reading_ = false, close_sent_ = false;
  std::optional<websocket::close_reason> closing_;  // from close() on
};

class Handle final : public MessageSocket {
 public:
  explicit Handle(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Handle() override { connection_->drop(); }
  void start(MessageEvents events) override { connection_->start(std::move(events)); }
  bool can_write() const override { return connection_->can_write(); }
  void write(std::vector<std::byte> message) override { connection_->write(std::move(message)); }
  void close(uint16_t code, std::string_view reason) override { connection_->close(code, reason); }
  const std::string& remote_address() const override { return connection_->remote_address(); }

 private:
  // Events may destroy the handle, so the connection's own operations hold it, too.
  const std::shared_ptr<Connection> connection_;
};

void Connection::accept(const HttpRequest& request,
                        std::function<void(std::unique_ptr<MessageSocket>)> done) {
  auto upgrade = std::make_shared<http::request<http::string_body>>(
      http::verb::get, request.path + (request.query.empty() ? "" : "?" + request.query), 11);
  for (const auto& [name, value] : request.headers) upgrade->insert(name, value);
  close_timer_.at(EventLoop::now() + kHandshakeWithinMs, [this] { release(); });
  stream_.async_accept(
      *upgrade, [self = shared_from_this(), upgrade, done = std::move(done)](ErrorCode error) {
        self->close_timer_.cancel();
        if (error) {
          self->release();
          done(nullptr);
        } else {
          self->open_ = true;
          done(std::make_unique<Handle>(self));
        }
      });
}

void Connection::connect(const std::string& host, const std::string& target, Time deadline,
                         std::function<void(Result<std::unique_ptr<MessageSocket>>)> done) {
  auto answer = std::make_shared<websocket::response_type>();
  auto late = std::make_shared<bool>(false);
  close_timer_.at(deadline, [this, late] {
    *late = true;
    release();
  });
  stream_.async_handshake(
      *answer, host, target,
      [self = shared_from_this(), answer, late, host, done = std::move(done)](ErrorCode error) {
        self->close_timer_.cancel();
        if (!error) {
          self->open_ = true;
          done(std::make_unique<Handle>(self));
          return;
        }
        self->release();
        if (*late) {
          done(Error::io("{}: no answer to the WebSocket upgrade in time", host));
        } else if (error == websocket::error::upgrade_declined) {
          done(Error::corrupt("{}: no WebSocket upgrade, but HTTP status {}", host,
                              answer->result_int())
                   .with_hint("check the path of the URL"));
        } else if (is_of_system(error)) {
          done(Error::io("{}: the connection ended before the WebSocket upgrade: {}", host,
                         error.message()));
        } else {
          done(Error::corrupt("{}: the answer is no WebSocket upgrade: {}", host, error.message()));
        }
      });
}

void Connection::start(MessageEvents events) {
  KVASIR_CHECK(!started_);
  started_ = true;
  events_ = std::move(events);
  stream_.control_callback([this](websocket::frame_type type, beast::string_view) {
    if (type != websocket::frame_type::close && !control_frames_.take(EventLoop::now()))
      close_soon(1008, "too many control frames");
  });
  received_.resize(std::min(kReceiveBytesAtFirst, limits_.message_bytes + 1));
  read();
}

void Connection::read() {
  // One byte more than a message may have, so that there is always room to learn that it is over.
  if (received_bytes_ == received_.size())
    received_.resize(std::min(2 * received_.size(), limits_.message_bytes + 1));
  reading_ = true;
  stream_.async_read_some(
      asio::mutable_buffer(received_.data() + received_bytes_, received_.size() - received_bytes_),
      [self = shared_from_this()](ErrorCode error, size_t bytes) {
        self->reading_ = false;
        self->on_read(error, bytes);
      });
}

void Connection::on_read(ErrorCode error, size_t bytes) {
  if (told_) return;
  if (error) {
    // If the close frame of our own is under way, its end is the end.
    if (close_sent_ && error == asio::error::operation_aborted) return;
    on_closed(error.message(), is_of_system(error) ? Then::kRelease : Then::kDrain);
    return;
  }
  if (closing_) return;  // the close operation reads on, up to the other end's close frame
  received_bytes_ += bytes;
  if (!stream_.got_binary()) {
    close(1003, "binary messages only");
    return;
  }
  if (stream_.is_message_done()) {
    message_timer_.cancel();
    const size_t message_bytes = std::exchange(received_bytes_, 0);
    events_.on_message(std::span(received_).first(message_bytes));
    // The event may have closed or destroyed this.
    if (told_ || closing_) return;
  } else if (received_bytes_ == bytes) {
    message_timer_.at(EventLoop::now() + limits_.message_within_ms,
                      [this] { close(1008, "a message took too long"); });
  }
  read();
}

void Connection::write(std::vector<std::byte> message) {
  KVASIR_CHECK(started_ && can_write());
  writing_ = true;
  sending_ = std::move(message);
  write_timer_.at(EventLoop::now() + limits_.write_within_ms,
                  [this] { on_closed("the other end takes nothing", Then::kRelease); });
  stream_.async_write(
      asio::buffer(sending_.data(), sending_.size()),
      [self = shared_from_this()](ErrorCode error, size_t) { self->on_written(error); });
}

void Connection::on_written(ErrorCode error) {
  write_timer_.cancel();
  writing_ = false;
  if (told_) return;
  if (error) {
    // What the other end had to say may still be unread, its close code above all.
    open_ = false;
    if (!closing_)
      close_timer_.at(EventLoop::now() + kCloseWithinMs,
                      [this, text = error.message()] { on_closed(text, Then::kRelease); });
    if (closing_ && !close_sent_) on_closed(error.message(), Then::kRelease);
  } else if (closing_) {
    send_close();
  } else {
    events_.on_writable();
  }
}

void Connection::close(uint16_t code, std::string_view reason) {
  if (told_ || closing_) return;
  closing_ = make_close_reason(code, reason);
  open_ = false;
  message_timer_.cancel();
  close_timer_.at(EventLoop::now() + kCloseWithinMs,
                  [this] { on_closed("the other end did not close in time", Then::kRelease); });
  if (!writing_) send_close();
}

// From within Beast's reading, where no operation may be started.
void Connection::close_soon(uint16_t code, std::string_view reason) {
  loop_.post(
      [self = shared_from_this(), code, text = std::string(reason)] { self->close(code, text); });
}

void Connection::send_close() {
  close_sent_ = true;
  stream_.async_close(*closing_, [self = shared_from_this()](ErrorCode error) {
    self->on_closed(error.message(), is_of_system(error) ? Then::kRelease : Then::kDrain);
  });
}

// The end, for whatever reason.
void Connection::on_closed(std::string_view why, Then then) {
  if (told_) return;
  told_ = true;
  open_ = false;
  message_timer_.cancel();
  write_timer_.cancel();
  close_timer_.cancel();
  const auto self = shared_from_this();  // the event may destroy the handle
  if (then == Then::kDrain)
    drain();
  else
    release();
  const websocket::close_reason& theirs = stream_.reason();
  const std::string reason(theirs.reason.data(), theirs.reason.size());
  events_.on_closed(theirs.code, theirs.code != 0 ? reason : why);
}

// Closing a socket with unread bytes resets the connection, and the other end may lose our close
// frame by that. So what still comes is read and forgotten, for some seconds.
void Connection::drain() {
  auto waste = std::make_shared<std::array<std::byte, 4096>>();
  auto timer = std::make_shared<Timer>(loop_);
  auto self = shared_from_this();
  timer->at(EventLoop::now() + kCloseWithinMs, [self] { self->release(); });
  // Reads itself on: a function that holds itself only while an operation does.
  struct Drain {
    std::shared_ptr<Connection> self;
    std::shared_ptr<std::array<std::byte, 4096>> waste;
    std::shared_ptr<Timer> timer;
    void operator()(ErrorCode error, size_t) {
      if (error) {
        timer->cancel();
        self->release();
        return;
      }
      auto& socket = self->stream_.next_layer();
      auto buffer = asio::buffer(*waste);
      socket.async_read_some(buffer, std::move(*this));
    }
  };
  Drain{self, waste, timer}(ErrorCode{}, 0);
}

void Connection::release() {
  close_quietly(stream_.next_layer());
  slot_.reset();
}

void Connection::drop() {
  const bool was_told = std::exchange(told_, true);
  open_ = false;
  message_timer_.cancel();
  write_timer_.cancel();
  close_timer_.cancel();
  // After on_closed the socket may be draining and closes itself.
  if (!was_told) release();
}

}  // namespace

void accept_websocket(EventLoop& loop, Socket socket, const HttpRequest& request,
                      const MessageLimits& limits, std::shared_ptr<void> slot,
                      std::function<void(std::unique_ptr<MessageSocket>)> done) {
  std::make_shared<Connection>(loop, std::move(socket), limits, std::move(slot))
      ->accept(request, std::move(done));
}

void connect_websocket(EventLoop& loop, Socket socket, const std::string& host,
                       const std::string& target, const MessageLimits& limits, Time deadline,
                       std::function<void(Result<std::unique_ptr<MessageSocket>>)> done) {
  std::make_shared<Connection>(loop, std::move(socket), limits, nullptr)
      ->connect(host, target, deadline, std::move(done));
}

}  // namespace kvasir::net
