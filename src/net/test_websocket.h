// For tests of WebSocket connections: a server that upgrades whoever asks, and a client that may
// send any frames.
#pragma once

#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/message_socket.h"
#include "net/test_sockets.h"
#include "net/websocket_client.h"

namespace kvasir::net {

// What happened on a connection, as text: "message 3", "writable", "closed 4000 why".
struct Heard {
  std::string what;
  std::vector<std::byte> message;
};

// A connection whose events go to a mailbox. Everything on the loop's thread but `heard`.
struct Listening {
  void listen(std::unique_ptr<MessageSocket> s) {
    socket = std::move(s);
    MessageEvents events;
    events.on_message = [this](std::span<std::byte> m) {
      heard.put({"message", {m.begin(), m.end()}});
      if (on_message) on_message(m);
    };
    events.on_writable = [this] { heard.put({"writable", {}}); };
    events.on_closed = [this](uint16_t code, std::string_view reason) {
      heard.put({code == 0 ? "closed 0" : fmt::format("closed {} {}", code, reason), {}});
    };
    socket->start(std::move(events));
  }

  std::unique_ptr<MessageSocket> socket;
  std::function<void(std::span<std::byte>)> on_message;
  Mailbox<Heard> heard;
};

class WebSocketSite {
 public:
  explicit WebSocketSite(const MessageLimits& limits = {}) {
    on_loop(loop(), [&] {
      auto made = HttpServer::listen(
          loop(), "127.0.0.1", 0, {}, [this, limits](std::shared_ptr<HttpExchange> exchange) {
            if (!exchange->request().wants_upgrade) {
              exchange->respond({404, {}, "no"});
              return;
            }
            exchange->upgrade(limits, [this](std::unique_ptr<MessageSocket> socket) {
              sockets.put(std::move(socket));
            });
          });
      ASSERT_TRUE(made) << made.error().message;
      server = std::move(*made);
    });
    port = server->port();
  }
  ~WebSocketSite() {
    on_loop(loop(), [&] {
      server.reset();
      while (sockets.size() > 0) sockets.take();
    });
  }
  EventLoop& loop() { return thread_.loop(); }
  Url url() const { return {"ws", "127.0.0.1", port, "/swarm"}; }
  bool eventually_connections(size_t n) {
    return eventually(loop(), [&] { return server->connections() == n; });
  }

  Mailbox<std::unique_ptr<MessageSocket>> sockets;
  std::unique_ptr<HttpServer> server;
  uint16_t port = 0;

 private:
  LoopThread thread_;
};

// Dials and waits.
inline Result<std::unique_ptr<MessageSocket>> dial_and_wait(EventLoop& loop, const Url& url,
                                                            const DialOptions& options = {}) {
  Mailbox<Result<std::unique_ptr<MessageSocket>>> results;
  dial(loop, url, options, [&](auto result) { results.put(std::move(result)); });
  auto result = results.take();
  if (!result) return Error::io("dial never called back");
  return std::move(*result);
}

// Opcodes.
inline constexpr unsigned kContinuation = 0, kText = 1, kBinary = 2, kCloseFrame = 8,
                          kPingFrame = 9, kPongFrame = 10;
enum class Fin : uint8_t { kNo, kYes };
enum class Mask : uint8_t { kNo, kYes };

inline std::string frame_head(unsigned opcode, uint64_t bytes, Fin fin = Fin::kYes,
                              Mask mask = Mask::kYes) {
  std::string head(1, static_cast<char>(opcode | (fin == Fin::kYes ? 0x80U : 0U)));
  const unsigned masked = mask == Mask::kYes ? 0x80U : 0U;
  const auto put = [&](unsigned length, int extra_bytes) {
    head += static_cast<char>(length | masked);
    for (int i = extra_bytes - 1; i >= 0; --i) head += static_cast<char>(bytes >> (8 * i) & 0xFF);
  };
  if (bytes < 126)
    put(static_cast<unsigned>(bytes), 0);
  else if (bytes < 65536)
    put(126, 2);
  else
    put(127, 8);
  // A mask of zeros changes nothing.
  if (mask == Mask::kYes) head.append(4, '\0');
  return head;
}

inline std::string frame(unsigned opcode, const std::string& payload, Fin fin = Fin::kYes) {
  return frame_head(opcode, payload.size(), fin) + payload;
}

class RawWebSocket : public RawClient {
 public:
  explicit RawWebSocket(uint16_t port, int receive_buffer_bytes = 0)
      : RawClient(port, receive_buffer_bytes) {
    send(
        "GET /swarm HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n");
    answer = read_to("\r\n\r\n");
  }
  // The next frame of less than 126 bytes: opcode and payload.
  std::pair<unsigned, std::string> read_frame() {
    const std::string head = read_bytes(2);
    if (head.empty()) return {};
    return {static_cast<unsigned>(head[0]) & 0xFU, read_bytes(static_cast<size_t>(head[1]))};
  }
  // The code of the next frame, which must be a close frame; 0 if the connection ends without.
  int read_close_code() {
    const auto [opcode, payload] = read_frame();
    if (opcode != kCloseFrame || payload.size() < 2) return 0;
    return static_cast<uint8_t>(payload[0]) << 8 | static_cast<uint8_t>(payload[1]);
  }

  std::string answer;  // the head
};

}  // namespace kvasir::net
