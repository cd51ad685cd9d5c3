// Moves messages between a wire::Session and a MessageSocket, and wakes the session in time.
#pragma once

#include <functional>
#include <memory>

#include "net/event_loop.h"
#include "net/message_socket.h"
#include "wire/session.h"

namespace kvasir::net {

// The loop's thread only. Destroying it drops the connection without further events, which may be
// done from within on_event. Once the session is closed, what it still has to say (a refusal, the
// close code) leaves in the background nevertheless, within some seconds.
class SessionDriver {
 public:
  // The session's events, in order; spans in them are valid during the call. After SessionClosed
  // there is nothing more.
  using Handler = std::function<void(wire::SessionEvent&)>;

  SessionDriver(EventLoop& loop, std::unique_ptr<MessageSocket> socket,
                std::unique_ptr<wire::Session> session, Handler on_event);
  ~SessionDriver();

  wire::Session& session();
  // The connection has ended; after Session::close(): its last words have left, too.
  bool is_gone() const;
  // Writes what the session has to say now. To be called after session().send(), consumed(),
  // close(), admit(), refuse() from outside on_event.
  void pump();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kvasir::net
