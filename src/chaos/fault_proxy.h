// A TCP proxy between one worker and the backbone that hurts what passes: damages messages, puts
// messages in, cuts connections. One thread; everything happens in PollSet actions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "chaos/poll_set.h"
#include "chaos/websocket_tap.h"

namespace kvasir::chaos {

class FaultProxy {
 public:
  // Listens on a free port of 127.0.0.1.
  static Result<std::unique_ptr<FaultProxy>> listen(uint16_t backbone_port, uint64_t seed);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  uint16_t port() const { return port_; }
  void add_to(PollSet& polled);

  // Of the messages, both ways, from now on.
  void set_corrupt(double share) { corrupt_ = share; }
  // The two return whether there was a connection to do it to. A cut is a reset or an end, also in
  // the middle of a message.
  bool cut();
  enum class Towards : uint8_t { kBackbone, kWorker };
  bool inject(Towards towards);

  uint64_t corrupted() const;
  uint64_t messages() const;            // both ways
  uint64_t messages_to_worker() const;  // to see when it gets something to do

 private:
  struct Flow;
  struct Link;
  FaultProxy(int listener, uint16_t port, uint16_t backbone_port, uint64_t seed);
  void accept_all();
  void forget_closed();

  const int listener_;
  const uint16_t port_, backbone_port_;
  wire::Jitter random_;
  double corrupt_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t corrupted_before_ = 0, messages_before_ = 0, to_worker_before_ = 0;  // of closed links
};

}  // namespace kvasir::chaos
