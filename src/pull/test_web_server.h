// For tests: a web server that may break every promise. Raw sockets, one thread per connection, on
// 127.0.0.1.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "pull/transfer.h"

namespace kvasir::pull {

struct TestRequest {
  std::string target;  // path and query
  std::string head;    // all lines, as sent
  std::optional<ByteRange> range;

  // Empty if there is none. `name` in the case in which it is sent.
  std::string header(const std::string& name) const {
    const size_t at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

struct TestReply {
  int status = 200;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  bool add_length = true;                // Content-Length of the body
  std::optional<size_t> cut_after;       // bytes of the body, then the connection is closed
  std::function<void()> before_body;     // waits, for example
  size_t piece_bytes = size_t{1} << 16;  // of one write
};

class TestWebServer {
 public:
  using Handler = std::function<TestReply(const TestRequest&)>;

  explicit TestWebServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KVASIR_CHECK(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    KVASIR_CHECK(::listen(listener_, 64) == 0);
    socklen_t length = sizeof address;
    KVASIR_CHECK(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TestWebServer() {
    ending_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (int descriptor : open_) ::shutdown(descriptor, SHUT_RDWR);
    }
    for (std::thread& thread : connections_) thread.join();
  }
  TestWebServer(const TestWebServer&) = delete;
  TestWebServer& operator=(const TestWebServer&) = delete;

  uint16_t port() const { return port_; }
  std::string url(const std::string& target = "") const {
    return fmt::format("http://127.0.0.1:{}{}", port_, target);
  }
  bool ending() const { return ending_; }
  std::vector<TestRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void forget_requests() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
  }
  // Bytes that were asked for by ranges longer than one byte.
  uint64_t bytes_asked() const {
    uint64_t sum = 0;
    for (const TestRequest& request : requests())
      if (request.range && request.range->bytes() > 1) sum += request.range->bytes();
    return sum;
  }

 private:
  void accept_all() {
    while (!ending_) {
      const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) continue;
      const std::lock_guard lock(mutex_);
      open_.push_back(descriptor);
      connections_.emplace_back([this, descriptor] { serve(descriptor); });
    }
  }

  void serve(int descriptor) {
    std::string received;
    while (auto request = next_request(descriptor, received)) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(*request);
      }
      if (!answer(descriptor, handler_(*request))) break;
    }
    const std::lock_guard lock(mutex_);
    open_.remove(descriptor);
    ::close(descriptor);
  }

  static std::optional<TestRequest> next_request(int descriptor, std::string& received) {
    size_t end;
    while ((end = received.find("\r\n\r\n")) == std::string::npos) {
      char piece[4096];
      const ssize_t count = ::recv(descriptor, piece, sizeof piece, 0);
      if (count <= 0) return std::nullopt;
      received.append(piece, static_cast<size_t>(count));
    }
    TestRequest request;
    request.head = received.substr(0, end + 2);
    received.erase(0, end + 4);
    const size_t target = request.head.find(' ') + 1;
    request.target = request.head.substr(target, request.head.find(' ', target) - target);
    const std::string range = request.header("Range");
    if (range.starts_with("bytes=")) {
      ByteRange parsed;
      const char* last = range.data() + range.size();
      const auto first = std::from_chars(range.data() + 6, last, parsed.begin);
      std::from_chars(first.ptr + 1, last, parsed.end);
      ++parsed.end;
      request.range = parsed;
    }
    return request;
  }

  static bool send_all(int descriptor, std::string_view bytes, size_t piece_bytes) {
    while (!bytes.empty()) {
      const ssize_t count =
          ::send(descriptor, bytes.data(), std::min(bytes.size(), piece_bytes), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // False: the connection ends.
  static bool answer(int descriptor, const TestReply& reply) {
    std::string head = fmt::format("HTTP/1.1 {} Whatever\r\n", reply.status);
    for (const std::string& header : reply.headers) head += header + "\r\n";
    if (reply.add_length) head += fmt::format("Content-Length: {}\r\n", reply.body.size());
    if (!send_all(descriptor, head + "\r\n", head.size() + 2)) return false;
    if (reply.before_body) reply.before_body();
    const std::string_view body = reply.body;
    const size_t bytes = std::min(reply.cut_after.value_or(body.size()), body.size());
    return send_all(descriptor, body.substr(0, bytes), reply.piece_bytes) && reply.add_length &&
           !reply.cut_after;
  }

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> ending_ = false;
  mutable std::mutex mutex_;
  std::list<int> open_;
  std::list<std::thread> connections_;
  std::vector<TestRequest> requests_;
  std::thread acceptor_;
};

// What an honest server answers for a file.
inline TestReply file_reply(const std::string& bytes, const TestRequest& request,
                            const std::string& etag = "\"one\"") {
  TestReply reply;
  reply.headers = {"ETag: " + etag, "Accept-Ranges: bytes"};
  const std::string if_range = request.header("If-Range");
  if (!request.range || (!if_range.empty() && if_range != etag)) {
    reply.body = bytes;
    return reply;
  }
  if (request.range->begin >= bytes.size()) {
    reply.status = 416;
    reply.headers.push_back(fmt::format("Content-Range: bytes */{}", bytes.size()));
    return reply;
  }
  const uint64_t end = std::min<uint64_t>(request.range->end, bytes.size());
  reply.status = 206;
  reply.body = bytes.substr(request.range->begin, end - request.range->begin);
  reply.headers.push_back(
      fmt::format("Content-Range: bytes {}-{}/{}", request.range->begin, end - 1, bytes.size()));
  return reply;
}

// Bytes that are nowhere the same.
inline std::string test_bytes(size_t count, uint32_t seed = 1) {
  std::string bytes(count, '\0');
  uint32_t state = seed;
  for (char& c : bytes) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace kvasir::pull
