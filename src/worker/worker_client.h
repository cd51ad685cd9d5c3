// Keeps a worker connected to one server and serves it: dials, meets, computes, dials again. One
// event loop runs everything; a ticket is computed between two of its events, so that pings are
// answered while others wait.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crypto/identity.h"
#include "net/event_loop.h"
#include "net/session_driver.h"
#include "net/url.h"
#include "wire/client_session.h"
#include "wire/reconnect.h"
#include "worker/worker_core.h"

namespace kvasir::worker {

enum class Redial : uint8_t { kAlways, kNever };

struct ClientSetup {
  net::Url url;
  wire::ClientConfig session;  // the jitter and the resume id are filled in
  Redial redial = Redial::kAlways;
  Mischief mischief;
  uint64_t seed = 0;  // of the jitter
};

// Why a worker does not go on.
enum class WorkerEnd : uint8_t {
  kDrained,      // it was told to stop, or (Redial::kNever) the server said goodbye
  kUnreachable,  // Redial::kNever: nothing answers
  kLost,         // Redial::kNever: the connection ended
  kRefused,      // a person has to change something first
};

// The loop's thread only.
class WorkerClient {
 public:
  struct Watcher {
    std::function<void(std::string_view line)> note;    // what happened, for a person
    std::function<void(const Error& problem)> trouble;  // the same, with a hint
    std::function<void(WorkerEnd end)> end;  // once, the last; may not destroy the client
  };

  // The references outlive this.
  WorkerClient(net::EventLoop& loop, ClientSetup setup, const crypto::Identity& identity,
               const expert::HeldExperts& held, TicketFunction& function, Watcher watcher);
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  void start();
  // Takes no new tickets, finishes the open ones, says goodbye. Ends within some seconds.
  void drain();
  // Of all sessions so far.
  CoreStats stats() const;

 private:
  void dial();
  void on_dialled(Result<std::unique_ptr<net::MessageSocket>> socket);
  void on_event(wire::SessionEvent& event);
  void on_open(const wire::SessionOpen& open);
  void on_frame(const wire::FrameArrived& frame);
  void on_closed(const wire::SessionClosed& closed);
  void dial_again(wire::CloseCode code, Error problem);
  void work();
  // Whatever can leave now, and when to look again.
  void flush();
  bool send(OutgoingFrame frame);
  void note_stall();
  void plan();
  void check_drained();
  void check_gone();
  void finish(WorkerEnd end);
  // A callback that is dropped with this.
  std::function<void()> guarded(void (WorkerClient::*method)());

  net::EventLoop& loop_;
  ClientSetup setup_;
  const crypto::Identity& identity_;
  const expert::HeldExperts& held_;
  TicketFunction& function_;
  const Watcher watcher_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);

  wire::Reconnect reconnect_;
  net::Timer redial_timer_, core_timer_, drain_timer_;
  std::unique_ptr<net::SessionDriver> driver_;
  std::optional<WorkerCore> core_;       // while the session is open
  std::optional<OutgoingFrame> unsent_;  // a control frame that the session had no room for
  std::optional<uint64_t> stalled_at_credit_;
  bool work_posted_ = false;
  bool draining_ = false, ended_ = false;
  net::Time drain_until_ = net::kNever;
  CoreStats stats_;  // of sessions that ended
};

}  // namespace kvasir::worker
