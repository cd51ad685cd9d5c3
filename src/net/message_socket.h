// A WebSocket connection as its users see it: binary messages in, binary messages out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir::net {

struct MessageEvents {
  // A whole message, valid (and to be changed freely) during the call.
  std::function<void(std::span<std::byte> message)> on_message;
  // The message given to write() has been handed to the system; the next one may be written.
  std::function<void()> on_writable;
  // Once, and nothing after it. The WebSocket close code of the other end, or 0.
  std::function<void(uint16_t close_code, std::string_view reason)> on_closed;
};

// The loop's thread only. Destroying it drops the connection, without further events; this may be
// done from within any of its events.
class MessageSocket {
 public:
  virtual ~MessageSocket() = default;
  // Begins to read. Once, right after the connection was handed over.
  virtual void start(MessageEvents events) = 0;
  // One message at a time: only while can_write().
  virtual bool can_write() const = 0;
  virtual void write(std::vector<std::byte> message) = 0;
  // Sends what was written, then a close frame; waits some seconds for the other end's, then drops
  // the connection. on_closed follows. Writing is over.
  virtual void close(uint16_t code, std::string_view reason) = 0;
  virtual const std::string& remote_address() const = 0;  // "127.0.0.1:40312"
};

struct MessageLimits {
  size_t message_bytes = size_t{256} * 1024;  // of one message; more closes with 1009
  // A message that has begun must have come within so long.
  uint64_t message_within_ms = 20'000;
  // The system must have taken a message that is written within so long; else the connection drops.
  uint64_t write_within_ms = 30'000;
};

}  // namespace kvasir::net
