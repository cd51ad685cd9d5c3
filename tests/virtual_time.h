// A clock that a test moves, and a path between two ends of a connection that loses, delays,
// repeats, reorders and damages what it carries.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "swarm/types.h"
#include "wire/session.h"

namespace kvasir::testing {

using swarm::TimeUs;
using Chance = std::mt19937_64;

// True in `share` of all cases.
inline bool happens(Chance& chance, double share) {
  return static_cast<double>(chance() >> 11) * 0x1p-53 < share;
}

// Events in the order of their times; those of one time in the order in which they were planned.
class VirtualClock {
 public:
  TimeUs now() const { return now_; }
  wire::Time now_ms() const { return now_ / 1000; }
  void at(TimeUs when, std::function<void()> what) {
    events_.emplace(std::pair(std::max(when, now_), ++planned_), std::move(what));
  }
  void after(TimeUs span, std::function<void()> what) { at(now_ + span, std::move(what)); }
  // The next event; false if there is none.
  bool step() {
    if (events_.empty()) return false;
    auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
  }
  size_t events() const { return planned_; }

 private:
  TimeUs now_ = 1'000'000;
  size_t planned_ = 0;
  std::map<std::pair<TimeUs, size_t>, std::function<void()>> events_;
};

struct PathFaults {
  TimeUs delay_us = 1'000, delay_spread_us = 0;
  double loss = 0, repeat = 0, damage = 0;
  bool keeps_order = true;
};

// One direction of a connection.
class VirtualPath {
 public:
  using Deliver = std::function<void(std::vector<std::byte> message)>;
  VirtualPath(VirtualClock& clock, Chance& chance, PathFaults faults, Deliver deliver)
      : clock_(clock), chance_(chance), faults_(faults), deliver_(std::move(deliver)) {}

  void send(std::vector<std::byte> message) {
    if (happens(chance_, faults_.loss)) return;
    const int copies = happens(chance_, faults_.repeat) ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      std::vector<std::byte> carried = message;
      if (happens(chance_, faults_.damage))
        carried[chance_() % carried.size()] ^= static_cast<std::byte>(1U << (chance_() % 8));
      TimeUs at = clock_.now() + faults_.delay_us;
      if (faults_.delay_spread_us > 0) at += chance_() % faults_.delay_spread_us;
      if (faults_.keeps_order) at = last_ = std::max(last_, at);
      clock_.at(at, [this, carried = std::move(carried), alive = std::weak_ptr<int>(alive_)] {
        if (!alive.expired()) deliver_(carried);
      });
    }
  }

 private:
  VirtualClock& clock_;
  Chance& chance_;
  const PathFaults faults_;
  const Deliver deliver_;
  TimeUs last_ = 0;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace kvasir::testing
