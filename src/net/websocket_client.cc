#include "net/websocket_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>

#include "net/asio_impl.h"
#include "net/message_socket_impl.h"

namespace kvasir::net {
namespace {

using asio::ip::tcp;
using Done = std::function<void(Result<std::unique_ptr<MessageSocket>>)>;

// One dialing, alive while an operation of it is under way.
class Dialing : public std::enable_shared_from_this<Dialing> {
 public:
  Dialing(EventLoop& loop, Url url, const DialOptions& options, Done done)
      : loop_(loop),
        url_(std::move(url)),
        limits_(options.limits),
        deadline_(EventLoop::now() + options.within_ms),
        done_(std::move(done)),
        resolver_(loop.impl().context),
        socket_(loop.impl().context),
        timer_(loop) {}

  void start() {
    timer_.at(deadline_, [this] {
      late_ = true;
      resolver_.cancel();
      close_quietly(socket_);
    });
    ErrorCode not_numeric;
    const auto address = asio::ip::make_address(url_.host, not_numeric);
    if (!not_numeric) {
      socket_.async_connect(
          tcp::endpoint(address, url_.port),
          [self = shared_from_this()](ErrorCode error) { self->on_connected(error); });
      return;
    }
    resolver_.async_resolve(url_.host, std::to_string(url_.port), tcp::resolver::numeric_service,
                            [self = shared_from_this()](ErrorCode error, const auto& found) {
                              if (error || self->late_) {
                                self->fail(error);
                                return;
                              }
                              asio::async_connect(self->socket_, found,
                                                  [self](ErrorCode failed, const tcp::endpoint&) {
                                                    self->on_connected(failed);
                                                  });
                            });
  }

 private:
  void on_connected(ErrorCode error) {
    timer_.cancel();
    if (error || late_) {
      fail(error);
      return;
    }
    const std::string host = url_.host.find(':') == std::string::npos
                                 ? fmt::format("{}:{}", url_.host, url_.port)
                                 : fmt::format("[{}]:{}", url_.host, url_.port);
    connect_websocket(loop_, std::move(socket_), host, url_.target, limits_, deadline_,
                      std::move(done_));
  }

  void fail(ErrorCode error) {
    timer_.cancel();
    done_(late_ ? Error::io("{}: no connection in time", url_text(url_))
                : Error::io("{}: {}", url_text(url_), error.message())
                      .with_hint("check that the server runs and that the address is right"));
  }

  EventLoop& loop_;
  const Url url_;
  const MessageLimits limits_;
  const Time deadline_;
  Done done_;
  asio::ip::basic_resolver<tcp, asio::io_context::executor_type> resolver_;
  Socket socket_;
  Timer timer_;
  bool late_ = false;
};

}  // namespace

void dial(EventLoop& loop, const Url& url, const DialOptions& options, Done done) {
  loop.post([&loop, url, options, done = std::move(done)] {
    if (url.scheme == "wss") {
      done(Error::unsupported("{}: TLS is not built in", url_text(url)).with_hint("use ws://"));
    } else if (url.scheme != "ws") {
      done(Error::unsupported("{}: no WebSocket scheme", url_text(url)).with_hint("use ws://"));
    } else {
      std::make_shared<Dialing>(loop, url, options, done)->start();
    }
  });
}

}  // namespace kvasir::net
