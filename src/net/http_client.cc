#include "net/http_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <optional>

#include "net/asio_impl.h"

namespace kvasir::net {
namespace {

namespace http = boost::beast::http;
using asio::ip::tcp;

// One blocking call: each step runs its own operation on a loop of its own, up to the deadline.
class Call {
 public:
  Call(const Url& url, const HttpCall& call) : url_(url), call_(call), socket_(context_) {}

  Result<HttpResponse> run() {
    KVASIR_TRY_VOID(connect());
    KVASIR_TRY_VOID(send());
    return receive();
  }

 private:
  // Whether what was started has ended in time, and well.
  Result<void> wait(const std::optional<ErrorCode>& outcome, std::string_view doing) {
    context_.restart();
    while (!outcome && context_.run_one_until(deadline_) > 0) {
    }
    if (!outcome) {
      late_ = true;
      close_quietly(socket_);
      return Error::io("{}: {} took longer than {} ms", url_text(url_), doing, call_.within_ms);
    }
    if (*outcome) return Error::io("{}: {}: {}", url_text(url_), doing, outcome->message());
    return {};
  }

  Result<void> connect() {
    std::optional<ErrorCode> outcome;
    asio::ip::basic_resolver<tcp, asio::io_context::executor_type> resolver(context_);
    resolver.async_resolve(url_.host, std::to_string(url_.port), tcp::resolver::numeric_service,
                           [&](ErrorCode error, const auto& found) {
                             if (error || late_) {
                               outcome = error;
                               return;
                             }
                             asio::async_connect(
                                 socket_, found,
                                 [&](ErrorCode failed, const tcp::endpoint&) { outcome = failed; });
                           });
    auto result = wait(outcome, "connecting");
    if (!outcome) finish_cancelled();
    return result;
  }

  Result<void> send() {
    std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n",
                                   call_.method, url_.target, url_.host, url_.port);
    if (url_.host.find(':') != std::string::npos)
      text = fmt::format("{} {} HTTP/1.1\r\nHost: [{}]:{}\r\nConnection: close\r\n", call_.method,
                         url_.target, url_.host, url_.port);
    for (const auto& [name, value] : call_.headers) text += fmt::format("{}: {}\r\n", name, value);
    if (!call_.body.empty() || call_.method == "POST" || call_.method == "PUT")
      text += fmt::format("Content-Length: {}\r\n", call_.body.size());
    text += "\r\n" + call_.body;

    std::optional<ErrorCode> outcome;
    asio::async_write(socket_, asio::buffer(text),
                      [&](ErrorCode error, size_t) { outcome = error; });
    auto result = wait(outcome, "sending");
    if (!outcome) {
      finish_cancelled();
      return result;
    }
    // A server that refuses does not read on, but says why.
    return {};
  }

  Result<HttpResponse> receive() {
    http::response_parser<http::string_body> parser;
    parser.eager(true);
    parser.body_limit(call_.body_bytes_max);
    parser.skip(call_.method == "HEAD");
    std::string bytes;
    std::array<char, 16 * 1024> piece;
    while (!parser.is_done()) {
      std::optional<ErrorCode> outcome;
      size_t count = 0;
      socket_.async_read_some(asio::buffer(piece), [&](ErrorCode error, size_t n) {
        count = n;
        outcome = error;
      });
      auto waited = wait(outcome, "waiting for the answer");
      if (!outcome) finish_cancelled();
      ErrorCode error;
      if (outcome == asio::error::eof) {
        if (!parser.got_some()) return Error::io("{}: closed without an answer", url_text(url_));
        parser.put_eof(error);
        if (error)
          return Error::corrupt("{}: the answer ends too early: {}", url_text(url_),
                                error.message());
        break;
      }
      if (!waited) return std::move(waited.error());
      bytes.append(piece.data(), count);
      KVASIR_TRY_VOID(parse(parser, bytes));
    }
    return take(parser);
  }

  Result<void> parse(http::response_parser<http::string_body>& parser, std::string& bytes) {
    while (!bytes.empty() && !parser.is_done()) {
      ErrorCode error;
      const size_t used = parser.put(asio::buffer(bytes), error);
      bytes.erase(0, used);
      if (error == http::error::body_limit)
        return Error::limit("{}: the answer is longer than {} bytes", url_text(url_),
                            call_.body_bytes_max);
      if (error && error != http::error::need_more)
        return Error::corrupt("{}: the answer is no HTTP: {}", url_text(url_), error.message());
      if (used == 0) break;
    }
    return {};
  }

  static HttpResponse take(http::response_parser<http::string_body>& parser) {
    HttpResponse response;
    response.status = static_cast<int>(parser.get().result_int());
    for (const auto& field : parser.get())
      response.headers.emplace_back(
          std::string(field.name_string().data(), field.name_string().size()),
          std::string(field.value().data(), field.value().size()));
    response.body = std::move(parser.get().body());
    return response;
  }

  // An operation that was not awaited refers to variables of its step.
  void finish_cancelled() {
    context_.restart();
    context_.run();
  }

  const Url url_;
  const HttpCall call_;
  const std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(call_.within_ms);
  asio::io_context context_{1};
  Socket socket_;
  bool late_ = false;
};

}  // namespace

Result<HttpResponse> fetch(const Url& url, const HttpCall& call) {
  if (url.scheme == "https")
    return Error::unsupported("{}: TLS is not built in", url_text(url)).with_hint("use http://");
  if (url.scheme != "http") return Error::invalid("{}: no HTTP scheme", url_text(url));
  return Call(url, call).run();
}

}  // namespace kvasir::net
