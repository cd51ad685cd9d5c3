#include "net/http_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <string_view>

namespace kvasir::net {
namespace {

namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

// Beside a head: what comes with it of a body or of the next request.
constexpr size_t kBeyondHeadBytes = size_t{8} * 1024;
// Bytes of a head that are its line ends and are never part of a header.
constexpr std::string_view kHeadEnd = "\r\n\r\n";

std::string_view text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_but_for_case(key, name)) return value;
  return {};
}

struct HttpReader::Parser {
  http::request_parser<http::string_body> request;
};

HttpReader::HttpReader(const HttpLimits& limits)
    : limits_(limits), buffer_(limits.header_bytes + kBeyondHeadBytes) {}
HttpReader::~HttpReader() = default;

std::span<char> HttpReader::space() {
  if (begin_ > 0) {
    std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void HttpReader::added(size_t bytes) {
  end_ += bytes;
}

HttpReader::Step HttpReader::bad(int status) {
  status_ = status;
  keep_alive_ = false;
  parser_.reset();
  discard();
  return Step::kBad;
}

HttpReader::Step HttpReader::advance() {
  return parser_ ? read_body() : read_head();
}

HttpReader::Step HttpReader::read_head() {
  // Some clients end a body with one line end too many.
  while (begin_ < end_ && searched_ == 0 && (buffer_[begin_] == '\r' || buffer_[begin_] == '\n'))
    ++begin_;
  const std::string_view bytes(buffer_.data() + begin_, end_ - begin_);
  if (bytes.empty()) return Step::kIdle;
  // A TLS greeting, say: no use to wait for the end of its head.
  if (bytes.front() < 'A' || bytes.front() > 'Z') return bad(400);

  const size_t at = bytes.find(kHeadEnd, searched_);
  const size_t head_bytes = at == std::string_view::npos ? bytes.size() : at + kHeadEnd.size();
  if (head_bytes > limits_.header_bytes) return bad(431);
  if (at == std::string_view::npos) {
    searched_ = bytes.size() < kHeadEnd.size() ? 0 : bytes.size() - kHeadEnd.size() + 1;
    return Step::kHead;
  }
  searched_ = 0;
  // A header that goes on in the next line: two readers may not agree where it ends.
  const std::string_view head = bytes.substr(0, head_bytes);
  if (head.find("\r\n ") != std::string_view::npos || head.find("\r\n\t") != std::string_view::npos)
    return bad(400);

  parser_ = std::make_unique<Parser>();
  http::request_parser<http::string_body>& parser = parser_->request;
  parser.eager(true);
  parser.header_limit(static_cast<uint32_t>(limits_.header_bytes + 1));
  parser.body_limit(limits_.body_bytes);
  ErrorCode error;
  const size_t used = parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (error == http::error::body_limit) return bad(413);
  if (error == http::error::bad_version) return bad(505);
  if ((error && error != http::error::need_more) || !parser.is_header_done() || used != head_bytes)
    return bad(400);
  begin_ += head_bytes;
  if (const int status = check_head()) return bad(status);
  return read_body();
}

int HttpReader::check_head() {
  const auto& parser = parser_->request;
  const auto& message = parser.get();
  request_ = {};
  keep_alive_ = message.keep_alive() && message.version() >= 11;
  is_http_1_1_ = message.version() >= 11;
  expects_continue_ = false;

  size_t hosts = 0, lengths = 0, codings = 0;
  for (const auto& field : message) {
    const std::string_view value = text_of(field.value());
    if (field.name() == http::field::host) ++hosts;
    if (field.name() == http::field::content_length) {
      ++lengths;
      if (value.empty() || value.find_first_not_of("0123456789") != std::string_view::npos)
        return 400;
    }
    if (field.name() == http::field::transfer_encoding) {
      ++codings;
      if (!equal_but_for_case(value, "chunked")) return 501;
    }
    if (field.name() == http::field::expect) {
      if (!equal_but_for_case(value, "100-continue")) return 417;
      expects_continue_ = is_http_1_1_;
    }
    if (request_.headers.size() == limits_.headers) return 431;
    request_.headers.emplace_back(text_of(field.name_string()), value);
  }
  // Who sends both lengths hopes that a proxy believed the other one.
  if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) return 400;
  if (codings > 0 && !is_http_1_1_) return 400;
  if (hosts > 1 || (hosts == 0 && is_http_1_1_)) return 400;

  request_.method = text_of(message.method_string());
  std::string_view target = text_of(message.target());
  // As proxies send it: "http://host/path".
  if (equal_but_for_case(target.substr(0, 7), "http://")) {
    const size_t path = target.find('/', 7);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  if (target.empty() || (target.front() != '/' && target != "*")) return 400;
  const size_t query = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, query);
  if (query < target.size()) request_.query = target.substr(query + 1);
  request_.wants_upgrade = boost::beast::websocket::is_upgrade(message) && lengths + codings == 0;
  return 0;
}

HttpReader::Step HttpReader::read_body() {
  auto& parser = parser_->request;
  while (!parser.is_done()) {
    if (begin_ == end_) return Step::kBody;
    ErrorCode error;
    const size_t used =
        parser.put(boost::asio::buffer(buffer_.data() + begin_, end_ - begin_), error);
    begin_ += used;
    if (error == http::error::body_limit) return bad(413);
    if (error && error != http::error::need_more) return bad(400);
    if (used == 0 && !parser.is_done()) {
      // The line of a chunk, or what follows the last one, is longer than any honest one.
      if (buffered_bytes() >= limits_.header_bytes) return bad(400);
      return Step::kBody;
    }
  }
  return Step::kRequest;
}

HttpRequest HttpReader::take() {
  request_.body = std::move(parser_->request.get().body());
  parser_.reset();
  return std::move(request_);
}

}  // namespace kvasir::net
