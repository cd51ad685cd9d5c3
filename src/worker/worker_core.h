// A worker's side of the work: COMPUTE and CANCEL in, RESULT, BUSY and FAILED out; READY and DRAIN
// say what it holds. A state machine without I/O for one session: the caller passes frames, times
// and its credit, computes when has_work() and sends what next_frame() gives.
//
//   ticket := refused (BUSY, FAILED)
//           | waits -> cancelled
//                    | computed -> FAILED
//                                | answer waits for credit -> RESULT | cancelled | FAILED deadline
//
// Everything that waits is bounded: tickets and answers by limits, refusals by credit, since a
// COMPUTE counts as dealt with only when its answer has left. One thread.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "expert/held_experts.h"
#include "wire/coverage_messages.h"
#include "wire/handshake_messages.h"
#include "wire/session.h"
#include "worker/mischief.h"
#include "worker/ticket_function.h"

namespace kvasir::worker {

using wire::Time;

struct CoreConfig {
  wire::Capabilities capabilities;  // as in HELLO
  uint16_t rows_max = 1;            // of one COMPUTE, as in WELCOME

  // Tickets that wait. Fewer: the worker idles for a round trip when several arrive together. More:
  // they wait here for longer than the other end would.
  size_t tickets_max = 64;
  // Bodies of tickets that wait: as much as credit ever allows.
  size_t queue_bytes_max = size_t{4} << 20;
  // Answers promised beyond the credit there is. Fewer: idle while the other end grants more. More:
  // answers that come late.
  size_t answer_bytes_max = size_t{1} << 20;

  std::function<uint64_t()> clock_us;  // measures computing; null: no time passes
  Mischief mischief;
};

struct CoreStats {
  uint64_t tickets = 0;  // COMPUTE frames
  uint64_t results = 0, pairs = 0, compute_us = 0;
  uint64_t cancelled = 0;
  std::array<uint64_t, 5> busy{};    // by BusyReason
  std::array<uint64_t, 8> failed{};  // by FailReason
  uint64_t notices_dropped = 0;      // READY that nobody took
  uint64_t lies = 0;                 // see Mischief

  CoreStats& operator+=(const CoreStats& other);
};

struct OutgoingFrame {
  wire::FrameType type = wire::FrameType::kResult;
  uint64_t ticket = 0;
  std::vector<std::byte> body;
  // Pass to Session::consumed() once the frame has been sent.
  size_t consumed_bytes = 0;
};

class WorkerCore {
 public:
  // `held` has experts. All outlive this.
  WorkerCore(CoreConfig config, const expert::HeldExperts& held, TicketFunction& function);

  // A frame of an open session; bytes are copied. credit_left: Session::credit_left(). Link frames
  // and those of relays are not for this class. kCorrupt for a body that breaks the protocol: the
  // other end's fault, and the end of the session.
  Result<void> on_frame(const wire::FrameArrived& frame, uint64_t credit_left, Time now);
  // Answers that waited too long for credit.
  void on_timer(Time now);
  Time wake_at() const;

  bool has_work() const { return !queue_.empty(); }
  // Computes the next ticket, or says that its deadline has passed.
  void run_next(Time now);

  // What to send now: control frames first, then answers as far as the credit reaches.
  std::optional<OutgoingFrame> next_frame(uint64_t credit_left);
  // An answer that only credit keeps from leaving; null if there is none. After the control frames.
  const OutgoingFrame* blocked(uint64_t credit_left) const;
  // Bytes of COMPUTE frames that ended without an answer since the last call, for consumed().
  size_t take_consumed_bytes() { return std::exchange(silently_consumed_, 0); }

  // Says so, refuses new tickets and finishes the others.
  void drain();
  // Nothing waits any more. What next_frame() gave may still be on its way.
  bool is_drained() const;

  const CoreStats& stats() const { return stats_; }

 private:
  struct Ticket {
    uint64_t number = 0;
    size_t wire_bytes = 0;
    std::vector<std::byte> body;
    wire::Compute compute;  // its rows point into `body`
    Time deadline = 0;
    size_t answer_bytes = 0;  // of its RESULT on the wire
  };
  struct Answer {
    OutgoingFrame frame;
    Time deadline = 0;
  };

  void on_compute(const wire::FrameArrived& frame, uint64_t credit_left, Time now);
  void on_cancel(uint64_t ticket);
  void on_lease(const std::vector<wire::LeaseTerms>& terms);
  bool names_unsupported(ByteSpan body) const;
  std::optional<wire::BusyReason> reason_to_be_busy(const Ticket& ticket,
                                                    uint64_t credit_left) const;
  Ticket take_next();
  void answer(const Ticket& ticket, const std::vector<std::byte>& outputs, uint64_t compute_us);
  void refuse(uint64_t ticket, size_t wire_bytes, wire::BusyReason reason);
  void fail(uint64_t ticket, size_t wire_bytes, TicketProblem problem);
  void announce(wire::FrameType type, std::span<const wire::LeasedUnit> units);

  const CoreConfig config_;
  const expert::HeldExperts& held_;
  TicketFunction& function_;
  const wire::ModelShape shape_;
  wire::Jitter random_;

  wire::TicketOrder order_;
  std::deque<Ticket> queue_;
  size_t queue_bytes_ = 0;
  size_t promised_bytes_ = 0;  // answers of queue_ and answers_, on the wire
  std::deque<OutgoingFrame> notices_, refusals_;
  std::deque<Answer> answers_;
  size_t silently_consumed_ = 0;
  bool draining_ = false;
  CoreStats stats_;
  std::vector<std::byte> outputs_;
};

// The units that are held, as READY lists them.
std::vector<wire::LeasedUnit> held_units(const expert::HeldExperts& held);

}  // namespace kvasir::worker
