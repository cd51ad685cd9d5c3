// HTTP by hand, for tests: whole answers, streams that are read piece by piece, and requests that
// no decent client sends.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::testing {

using Json = nlohmann::ordered_json;

// One connection to 127.0.0.1. One thread.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawConnection() { close(); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool is_connected() const { return is_connected_; }
  // False if the other end does not take it.
  bool send(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const ssize_t count = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return false;
      at += static_cast<size_t>(count);
    }
    return true;
  }
  // Reads until `text` has come: false at the end of the connection or the deadline.
  bool read_until(const std::string& text) {
    while (received_.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  // Everything until the other end closes.
  const std::string& read_all() {
    while (read_some()) {
    }
    return received_;
  }
  bool ended() const { return ended_; }
  const std::string& received() const { return received_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  bool read_some() {
    pollfd polled = {socket_, POLLIN, 0};
    if (ended_ || ::poll(&polled, 1, 60'000) != 1) return false;
    char piece[16'384];
    const ssize_t count = ::recv(socket_, piece, sizeof piece, 0);
    if (count <= 0) {
      ended_ = true;
      return false;
    }
    received_.append(piece, static_cast<size_t>(count));
    return true;
  }

  int socket_;
  bool is_connected_ = false, ended_ = false;
  std::string received_;
};

struct RawAnswer {
  int status = 0;
  std::string head, body;

  Json json() const { return Json::parse(body, nullptr, false); }
  // The value of a header, named in lower case; empty if there is none.
  std::string header(const std::string& name) const {
    std::string lower;
    for (const char c : head) lower += static_cast<char>(std::tolower(c));
    const size_t at = lower.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

inline std::string request_text(const std::string& method, const std::string& path,
                                const std::string& body = "", const std::string& headers = "") {
  std::string text = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n" + headers;
  if (headers.find("Host: ") == std::string::npos) text += "Host: localhost\r\n";
  if (method == "POST") {
    if (headers.find("Content-Type: ") == std::string::npos)
      text += "Content-Type: application/json\r\n";
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + body;
}

inline RawAnswer parse_answer(const std::string& text) {
  RawAnswer answer;
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = text.substr(0, end + 2);
  answer.status = std::atoi(text.c_str() + 9);
  const std::string rest = text.substr(end + 4);
  if (answer.header("transfer-encoding") != "chunked") {
    answer.body = rest;
    return answer;
  }
  for (size_t at = 0; at < rest.size();) {
    const size_t size = std::strtoul(rest.c_str() + at, nullptr, 16);
    at = rest.find("\r\n", at);
    if (at == std::string::npos || size == 0) break;
    answer.body += rest.substr(at + 2, size);
    at += 2 + size + 2;
  }
  return answer;
}

inline RawAnswer ask(uint16_t port, const std::string& method, const std::string& path,
                     const std::string& body = "", const std::string& headers = "") {
  RawConnection connection(port);
  if (!connection.is_connected() || !connection.send(request_text(method, path, body, headers)))
    return {};
  return parse_answer(connection.read_all());
}

// The JSON of every event of a stream, in order; [DONE] is none.
inline std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    if (at != 0 && body[at - 1] != '\n') {
      ++at;
      continue;
    }
    const size_t end = body.find('\n', at);
    const std::string text = body.substr(at + 6, end - at - 6);
    if (text != "[DONE]") events.push_back(Json::parse(text, nullptr, false));
    at = end;
  }
  return events;
}

}  // namespace kvasir::testing
