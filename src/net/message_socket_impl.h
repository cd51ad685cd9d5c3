// How WebSocket connections come to be, from a TCP connection. Only for net/*.cc; all templates of
// Beast's WebSocket are instantiated in message_socket.cc alone, because they compile slowly.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "net/asio_impl.h"
#include "net/http_server.h"
#include "net/message_socket.h"

namespace kvasir::net {

// Answers an upgrade. `slot` lives as long as the connection. `done` gets null if the request was
// wrong or the client went away.
void accept_websocket(EventLoop& loop, Socket socket, const HttpRequest& request,
                      const MessageLimits& limits, std::shared_ptr<void> slot,
                      std::function<void(std::unique_ptr<MessageSocket>)> done);

// Asks for an upgrade. kCorrupt if the answer is none, kIo if there is none; in time at `deadline`.
void connect_websocket(EventLoop& loop, Socket socket, const std::string& host,
                       const std::string& target, const MessageLimits& limits, Time deadline,
                       std::function<void(Result<std::unique_ptr<MessageSocket>>)> done);

}  // namespace kvasir::net
