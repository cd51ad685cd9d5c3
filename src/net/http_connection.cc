#include "net/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <ctime>

#include "net/message_socket_impl.h"

namespace kvasir::net {
namespace {

constexpr Time kLingerMs = 2'000;

// "Sun, 06 Nov 1994 08:49:37 GMT", in English wherever this runs.
std::string http_date() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm at{};
  gmtime_r(&now, &at);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[at.tm_wday], at.tm_mday,
                     kMonths[at.tm_mon], at.tm_year + 1900, at.tm_hour, at.tm_min, at.tm_sec);
}

// A header made of someone's words must not begin another one.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (c == '\r' || c == '\n' || c == '\0') c = ' ';
  return line;
}

std::string_view status_text(int status) {
  const auto text = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  return {text.data(), text.size()};
}

// What a caller who knows the length of a stream says.
std::optional<uint64_t> content_length(const HttpHeaders& headers) {
  for (const auto& [name, value] : headers) {
    if (!boost::beast::iequals(name, "Content-Length")) continue;
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    KVASIR_CHECK(error == std::errc() && end == value.data() + value.size());
    return length;
  }
  return std::nullopt;
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace

class HttpConnection::Exchange final : public HttpExchange,
                                       public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<HttpConnection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}
  ~Exchange() override {
    if (state_ == State::kNew) {
      respond({500, {{"Content-Type", "text/plain"}}, "the request was dropped\n"});
    } else if (state_ == State::kStreaming && !gone_) {
      // Cut: the client must not take a part for the whole.
      connection_->drop();
    }
    if (connection_->exchange_ == this) connection_->exchange_ = nullptr;
  }

  const HttpRequest& request() const override { return request_; }

  void respond(HttpResponse response) override {
    KVASIR_CHECK(state_ == State::kNew);
    state_ = State::kComplete;
    if (gone_) return;
    HttpConnection& c = *connection_;
    c.append_head(response.status, response.headers,
                  has_no_body(response.status)
                      ? std::string()
                      : fmt::format("Content-Length: {}\r\n", response.body.size()));
    if (request_.method != "HEAD" && !has_no_body(response.status)) c.waiting_ += response.body;
    c.answer_complete();
  }

  void start(int status, HttpHeaders headers) override {
    KVASIR_CHECK(state_ == State::kNew);
    state_ = State::kStreaming;
    if (gone_) return;
    HttpConnection& c = *connection_;
    silent_ = request_.method == "HEAD" || has_no_body(status);
    length_left_ = content_length(headers);
    chunked_ = c.reader_.is_http_1_1() && !length_left_ && !has_no_body(status);
    // An older client knows the end by the end of the connection.
    if (!chunked_ && !length_left_ && !silent_) c.last_ = true;
    c.append_head(status, headers, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
    c.flush();
  }

  void write(std::string_view bytes) override {
    KVASIR_CHECK(state_ == State::kStreaming);
    if (gone_ || silent_ || bytes.empty()) return;
    HttpConnection& c = *connection_;
    if (length_left_) {
      KVASIR_CHECK(bytes.size() <= *length_left_);
      *length_left_ -= bytes.size();
    }
    if (chunked_) c.waiting_ += fmt::format("{:x}\r\n", bytes.size());
    c.waiting_ += bytes;
    if (chunked_) c.waiting_ += "\r\n";
    if (c.unsent_bytes() > c.server_->limits.unsent_bytes)
      c.drop();
    else
      c.flush();
  }

  void finish() override {
    KVASIR_CHECK(state_ == State::kStreaming);
    state_ = State::kComplete;
    if (gone_) return;
    if (!silent_ && length_left_.value_or(0) > 0) {
      connection_->drop();
      return;
    }
    if (chunked_ && !silent_) connection_->waiting_ += "0\r\n\r\n";
    connection_->answer_complete();
  }

  size_t unsent_bytes() const override { return gone_ ? 0 : connection_->unsent_bytes(); }

  void when_sent(std::function<void()> callback) override {
    if (gone_) return;
    if (connection_->unsent_bytes() > 0)
      connection_->when_sent_ = std::move(callback);
    else
      connection_->server_->loop.post(std::move(callback));
  }

  void on_gone(std::function<void()> callback) override {
    on_gone_ = std::move(callback);
    if (gone_) tell_gone();
  }
  bool gone() const override { return gone_; }

  void upgrade(const MessageLimits& limits, UpgradeDone done) override {
    KVASIR_CHECK(state_ == State::kNew && request_.wants_upgrade);
    state_ = State::kComplete;
    connection_->upgrade(request_, limits, std::move(done));
  }

  // From the connection. Tells it soon rather than now: who finds out may be in the middle of
  // writing.
  void went_away() {
    gone_ = true;
    tell_gone();
  }

 private:
  enum class State : uint8_t { kNew, kStreaming, kComplete };

  void tell_gone() {
    connection_->server_->loop.post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || self->state_ == State::kComplete || self->connection_->server_->gone) return;
      if (const auto callback = std::exchange(self->on_gone_, nullptr)) callback();
    });
  }

  const std::shared_ptr<HttpConnection> connection_;
  const HttpRequest request_;
  State state_ = State::kNew;
  bool gone_ = false;
  bool chunked_ = false, silent_ = false;
  std::optional<uint64_t> length_left_;  // to write, if the headers named a length
  std::function<void()> on_gone_;
};

HttpConnection::HttpConnection(std::shared_ptr<HttpServerState> server, Socket socket)
    : server_(std::move(server)),
      slot_(std::make_shared<SocketSlot>(server_->sockets)),
      socket_(std::move(socket)),
      remote_address_(remote_address_text(socket_)),
      reader_(server_->limits),
      phase_timer_(server_->loop),
      write_timer_(server_->loop) {
  server_->connections.insert(this);
  without_request_ = server_->without_request.insert(server_->without_request.end(), this);
}

HttpConnection::~HttpConnection() {
  had_request();
  server_->connections.erase(this);
}

void HttpConnection::start() {
  set_no_delay(socket_);
  phase_timer_.at(EventLoop::now() + server_->limits.request_within_ms, [this] { refuse(408); });
  read();
}

void HttpConnection::had_request() {
  if (!std::exchange(had_request_, true)) server_->without_request.erase(without_request_);
}

void HttpConnection::drop() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();
  const Phase before = std::exchange(phase_, Phase::kClosed);
  phase_timer_.cancel();
  write_timer_.cancel();
  close_quietly(socket_);
  had_request();
  slot_.reset();
  server_->connections.erase(this);
  const auto unsent = std::exchange(when_sent_, nullptr);
  if (Exchange* exchange = std::exchange(exchange_, nullptr)) exchange->went_away();
  if (server_->gone) return;
  if (before == Phase::kUpgrading)
    server_->loop.post([done = std::move(upgrade_done_)] { done(nullptr); });
}

void HttpConnection::finish_up() {
  last_ = true;
  if (phase_ == Phase::kReading && step_ == HttpReader::Step::kIdle && had_request_) linger();
}

// Reads all the time, also while an answer is prepared: that is how one learns that nobody waits
// for it any more.
void HttpConnection::read() {
  if (reading_ || input_ended_ || phase_ == Phase::kClosed || phase_ == Phase::kUpgrading) return;
  if (phase_ == Phase::kLingering) reader_.discard();
  const std::span<char> space = reader_.space();
  if (space.empty()) return;  // the next requests wait here for their turn
  reading_ = true;
  socket_.async_read_some(asio::buffer(space.data(), space.size()),
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            self->reading_ = false;
                            self->on_read(error, bytes);
                          });
}

void HttpConnection::on_read(ErrorCode error, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  reader_.added(bytes);
  if (phase_ == Phase::kUpgrading) {
    if (error && error != asio::error::operation_aborted)
      drop();
    else
      continue_upgrade();
    return;
  }
  if (error) {
    on_end_of_input();
    return;
  }
  process();
  read();
}

void HttpConnection::on_end_of_input() {
  input_ended_ = true;
  // Some clients say that they will ask no more and still want to hear the answer; one that is not
  // ready yet nobody may be waiting for.
  if (phase_ != Phase::kAnswering || !answered_) drop();
}

void HttpConnection::process() {
  if (phase_ != Phase::kReading) return;
  const HttpReader::Step before = std::exchange(step_, reader_.advance());
  const Time now = EventLoop::now();
  switch (step_) {
    case HttpReader::Step::kIdle:
      break;
    case HttpReader::Step::kHead:
      // The first one's time runs since the connection was accepted.
      if (before == HttpReader::Step::kIdle && had_request_)
        phase_timer_.at(now + server_->limits.request_within_ms, [this] { refuse(408); });
      break;
    case HttpReader::Step::kBody:
      if (before == HttpReader::Step::kBody) break;
      had_request();
      phase_timer_.at(now + server_->limits.body_within_ms, [this] { refuse(408); });
      if (reader_.expects_continue()) {
        waiting_ += "HTTP/1.1 100 Continue\r\n\r\n";
        flush();
      }
      break;
    case HttpReader::Step::kRequest:
      had_request();
      begin_exchange();
      break;
    case HttpReader::Step::kBad:
      refuse(reader_.status());
      break;
  }
}

void HttpConnection::begin_exchange() {
  phase_ = Phase::kAnswering;
  step_ = HttpReader::Step::kIdle;
  phase_timer_.cancel();
  answered_ = false;
  last_ = last_ || !reader_.keep_alive();
  HttpRequest request = reader_.take();
  request.remote_address = remote_address_;
  auto exchange = std::make_shared<Exchange>(shared_from_this(), std::move(request));
  exchange_ = exchange.get();
  server_->handler(std::move(exchange));
}

// Answers on the server's own behalf and closes.
void HttpConnection::refuse(int status) {
  const bool silent = step_ == HttpReader::Step::kIdle && reader_.buffered_bytes() == 0;
  if (silent) {
    drop();  // not a byte was asked
    return;
  }
  const auto self = shared_from_this();
  had_request();
  phase_timer_.cancel();
  phase_ = Phase::kAnswering;
  last_ = true;
  const HttpResponse page = server_->refusal
                                ? server_->refusal(status, reader_.path())
                                : HttpResponse{status,
                                               {{"Content-Type", "text/plain"}},
                                               fmt::format("{} {}\n", status, status_text(status))};
  append_head(page.status, page.headers, fmt::format("Content-Length: {}\r\n", page.body.size()));
  waiting_ += page.body;
  answer_complete();
}

void HttpConnection::append_head(int status, const HttpHeaders& headers, std::string_view framing) {
  if (server_->stopping) last_ = true;
  waiting_ +=
      fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, status_text(status), http_date());
  for (const auto& [name, value] : headers)
    waiting_ += fmt::format("{}: {}\r\n", one_line(name), one_line(value));
  waiting_ += framing;
  waiting_ += last_ ? "Connection: close\r\n\r\n" : "\r\n";
}

void HttpConnection::answer_complete() {
  answered_ = true;
  flush();
}

void HttpConnection::flush() {
  if (!sending_.empty() || waiting_.empty()) return;
  std::swap(sending_, waiting_);
  sent_ = 0;
  write_some();
}

void HttpConnection::write_some() {
  write_timer_.at(EventLoop::now() + server_->limits.unsent_within_ms, [this] { drop(); });
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [self = shared_from_this()](ErrorCode error, size_t bytes) {
                             self->on_written(error, bytes);
                           });
}

void HttpConnection::on_written(ErrorCode error, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error) {
    drop();
    return;
  }
  sent_ += bytes;
  if (sent_ < sending_.size()) {
    write_some();
    return;
  }
  write_timer_.cancel();
  sending_.clear();
  sent_ = 0;
  flush();
  if (sending_.empty()) on_all_sent();
}

void HttpConnection::on_all_sent() {
  if (const auto callback = std::exchange(when_sent_, nullptr)) {
    callback();
    if (!sending_.empty() || phase_ == Phase::kClosed) return;
  }
  if (phase_ != Phase::kAnswering || !answered_) return;
  exchange_ = nullptr;
  if (last_ || server_->stopping) {
    linger();
    return;
  }
  phase_ = Phase::kReading;
  // A large answer's memory is not kept for the next one.
  sending_ = {};
  phase_timer_.at(EventLoop::now() + server_->limits.idle_ms, [this] { refuse(408); });
  process();
  if (input_ended_ && phase_ == Phase::kReading)
    drop();
  else
    read();
}

// Closing a socket with unread bytes resets the connection, and the client may lose the answer by
// that. So what still comes is read and forgotten, for a while.
void HttpConnection::linger() {
  phase_ = Phase::kLingering;
  ErrorCode error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error || input_ended_) {
    drop();
    return;
  }
  phase_timer_.at(EventLoop::now() + kLingerMs, [this] { drop(); });
  read();
}

void HttpConnection::upgrade(const HttpRequest& request, const MessageLimits& limits,
                             UpgradeDone done) {
  if (phase_ == Phase::kClosed) {
    server_->loop.post([done = std::move(done)] { done(nullptr); });
    return;
  }
  phase_ = Phase::kUpgrading;
  upgrade_request_ = request;
  upgrade_limits_ = limits;
  upgrade_done_ = std::move(done);
  // The read that is under way must not take the first frames. Always through the loop, so that
  // `done` is never called from within upgrade().
  if (reading_) {
    ErrorCode ignored;
    socket_.cancel(ignored);
  } else {
    server_->loop.post([self = shared_from_this()] {
      if (self->phase_ == Phase::kUpgrading) self->continue_upgrade();
    });
  }
}

void HttpConnection::continue_upgrade() {
  // A client that sends frames before it knows that they are welcome is none of ours.
  if (reader_.buffered_bytes() > 0) {
    drop();
    return;
  }
  phase_ = Phase::kClosed;
  server_->connections.erase(this);
  accept_websocket(server_->loop, std::move(socket_), upgrade_request_, upgrade_limits_,
                   std::move(slot_),
                   [server = std::weak_ptr(server_),
                    done = std::move(upgrade_done_)](std::unique_ptr<MessageSocket> accepted) {
                     const auto alive = server.lock();
                     if (alive && !alive->gone) done(std::move(accepted));
                   });
}

}  // namespace kvasir::net
