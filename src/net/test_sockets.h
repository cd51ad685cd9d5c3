// For tests of sockets: waiting with a deadline, and a TCP client that may say anything.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <string>

#include "net/event_loop.h"

namespace kvasir::net {

// Only a broken test waits so long.
inline constexpr std::chrono::seconds kPatience{20};

// What one thread tells another.
template <typename T>
class Mailbox {
 public:
  void put(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    filled_.notify_all();
  }
  std::optional<T> take() {
    std::unique_lock lock(mutex_);
    if (!filled_.wait_for(lock, kPatience, [&] { return !values_.empty(); })) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<T> values_;
};

// Runs `work` on the loop's thread and waits for its result.
template <typename Work>
auto on_loop(EventLoop& loop, Work work) {
  using Value = decltype(work());
  std::promise<Value> promise;
  auto future = promise.get_future();
  loop.post([&] {
    if constexpr (std::is_void_v<Value>) {
      work();
      promise.set_value();
    } else {
      promise.set_value(work());
    }
  });
  if (future.wait_for(kPatience) != std::future_status::ready) {
    ADD_FAILURE() << "the loop does not run";
    std::abort();
  }
  return future.get();
}

// Asks the loop again and again until it says yes.
template <typename Condition>
bool eventually(EventLoop& loop, Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < give_up)
    if (on_loop(loop, condition)) return true;
  return false;
}

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer_bytes > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                   sizeof receive_buffer_bytes);
    const int yes = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  // False once the other end has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads until `end` has come; "" if the connection ends before. What follows stays.
  std::string read_to(std::string_view end) {
    while (true) {
      const size_t at = received_.find(end);
      if (at != std::string::npos) {
        std::string text = received_.substr(0, at + end.size());
        received_.erase(0, text.size());
        return text;
      }
      if (!receive()) return {};
    }
  }
  // "" if the connection ends before.
  std::string read_bytes(size_t bytes) {
    while (received_.size() < bytes)
      if (!receive()) return {};
    std::string text = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return text;
  }
  // Everything until the other end closes.
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }
  // An answer with a Content-Length: head and body.
  std::string read_response() {
    std::string head = read_to("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    const size_t bytes = std::stoul(head.substr(at + 16));
    return bytes == 0 ? head : head + read_bytes(bytes);
  }

  void end_of_input() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // As if the machine had crashed: no farewell.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  int fd() const { return socket_; }

 private:
  bool receive() {
    pollfd ready{socket_, POLLIN, 0};
    const auto patience_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
    if (::poll(&ready, 1, static_cast<int>(patience_ms)) <= 0) {
      ADD_FAILURE() << "nothing came from the server";
      return false;
    }
    char piece[65536];
    const ssize_t n = ::recv(socket_, piece, sizeof piece, 0);
    if (n <= 0) return false;
    received_.append(piece, static_cast<size_t>(n));
    return true;
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

}  // namespace kvasir::net
