// Dials WebSocket servers.
#pragma once

#include <memory>
#include <string>

#include "net/event_loop.h"
#include "net/message_socket.h"
#include "net/url.h"

namespace kvasir::net {

struct DialOptions {
  uint64_t within_ms = 10'000;  // from name resolution to the end of the upgrade
  MessageLimits limits;
};

// Calls `done` once, on the loop's thread. kIo if the server cannot be reached, kCorrupt if what
// answers is no WebSocket server, kUnsupported for a scheme that is not ws (or wss).
// Thread-safe: may be called from any thread.
void dial(EventLoop& loop, const Url& url, const DialOptions& options,
          std::function<void(Result<std::unique_ptr<MessageSocket>>)> done);

}  // namespace kvasir::net
