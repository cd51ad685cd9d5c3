#include "worker/worker_core.h"

#include <algorithm>
#include <utility>

#include "wire/frame.h"

namespace kvasir::worker {
namespace {

using wire::BusyReason;
using wire::FailReason;
using wire::FrameType;

// READY and DRAIN frames that wait to be sent: those of the largest model there is, and room for
// what leases cause. Each has up to 8 KiB.
constexpr size_t kNoticesMax = 64;
// Where COMPUTE says encoding and row format, and how long its head is.
constexpr size_t kEncodingAt = 2, kRowFormatAt = 3, kComputeHeadBytes = 12;
// What a RESULT has beside its outputs.
constexpr size_t kResultHeadBytes = 8;

// Layers that are not held are refused in any case, so the model's true number is of no use.
wire::ModelShape shape_of(const expert::HeldExperts& held) {
  const std::vector<uint32_t> layers = held.layers();
  KVASIR_CHECK(!layers.empty() && layers.back() < UINT16_MAX && held.n_experts() <= UINT16_MAX);
  return {static_cast<uint16_t>(layers.back() + 1), static_cast<uint16_t>(held.n_experts()),
          held.n_embd()};
}

// An unknown number counts as one that HELLO did not name.
bool is_named(uint8_t mask, std::byte code) {
  return std::to_integer<unsigned>(code) < 8 && (mask >> std::to_integer<unsigned>(code) & 1U) != 0;
}

}  // namespace

std::vector<wire::LeasedUnit> held_units(const expert::HeldExperts& held) {
  std::vector<wire::LeasedUnit> units;
  for (const gguf::UnitId& id : held.units()) {
    const gguf::ExpertRange experts =
        gguf::group_experts(id.group, held.group_size(), held.n_experts());
    units.push_back({{static_cast<uint16_t>(id.layer), static_cast<uint16_t>(experts.begin),
                      static_cast<uint16_t>(experts.end)},
                     0});
  }
  return units;
}

CoreStats& CoreStats::operator+=(const CoreStats& other) {
  tickets += other.tickets;
  results += other.results;
  pairs += other.pairs;
  compute_us += other.compute_us;
  cancelled += other.cancelled;
  for (size_t i = 0; i < busy.size(); ++i) busy[i] += other.busy[i];
  for (size_t i = 0; i < failed.size(); ++i) failed[i] += other.failed[i];
  notices_dropped += other.notices_dropped;
  lies += other.lies;
  return *this;
}

WorkerCore::WorkerCore(CoreConfig config, const expert::HeldExperts& held, TicketFunction& function)
    : config_(std::move(config)),
      held_(held),
      function_(function),
      shape_(shape_of(held)),
      random_(config_.mischief.seed) {
  announce(FrameType::kReady, held_units(held_));
}

void WorkerCore::announce(FrameType type, std::span<const wire::LeasedUnit> units) {
  for (size_t begin = 0; begin < units.size(); begin += wire::kUnitsMax) {
    if (notices_.size() >= kNoticesMax) {
      ++stats_.notices_dropped;
      return;
    }
    const auto piece = units.subspan(begin, std::min(wire::kUnitsMax, units.size() - begin));
    notices_.push_back({type, 0, wire::encode_leased_units({piece.begin(), piece.end()}), 0});
  }
}

Result<void> WorkerCore::on_frame(const wire::FrameArrived& frame, uint64_t credit_left, Time now) {
  switch (frame.head.type) {
    case FrameType::kCompute:
      on_compute(frame, credit_left, now);
      return {};
    case FrameType::kCancel:
      KVASIR_TRY_VOID(wire::decode_cancel(frame.body));
      on_cancel(frame.head.ticket);
      return {};
    case FrameType::kLease: {
      KVASIR_TRY(const auto terms, wire::decode_lease_terms(frame.body));
      on_lease(terms);
      return {};
    }
    case FrameType::kOffer: {
      // Units are chosen when the worker starts.
      auto terms = wire::decode_lease_terms(frame.body);
      if (!terms) return std::move(terms.error());
      return {};
    }
    case FrameType::kDrain:
    case FrameType::kRevoke: {
      // The other end sends no more tickets for these units, and that is all there is to it.
      auto units = wire::decode_leased_units(frame.body);
      if (!units) return std::move(units.error());
      return {};
    }
    default:
      return Error::corrupt("a frame of type {:#04x} is not for a worker",
                            static_cast<unsigned>(frame.head.type));
  }
}

void WorkerCore::on_lease(const std::vector<wire::LeaseTerms>& terms) {
  std::vector<wire::LeasedUnit> ready;
  for (const wire::LeaseTerms& term : terms) {
    bool held = true;
    for (uint16_t e = term.unit.expert_begin; held && e < term.unit.expert_end; ++e)
      held = held_.find(term.unit.layer, e).has_value();
    if (held) ready.push_back({term.unit, term.epoch});
  }
  if (!draining_) announce(FrameType::kReady, ready);
}

bool WorkerCore::names_unsupported(ByteSpan body) const {
  return body.size() >= kComputeHeadBytes &&
         (!is_named(config_.capabilities.encodings, body[kEncodingAt]) ||
          !is_named(config_.capabilities.row_formats, body[kRowFormatAt]));
}

void WorkerCore::on_compute(const wire::FrameArrived& frame, uint64_t credit_left, Time now) {
  ++stats_.tickets;
  Ticket ticket;
  ticket.number = frame.head.ticket;
  ticket.wire_bytes = frame.wire_bytes;
  if (!order_.accept(ticket.number)) {
    fail(ticket.number, ticket.wire_bytes, {FailReason::kDuplicateTicket});
    return;
  }
  if (names_unsupported(frame.body)) {
    fail(ticket.number, ticket.wire_bytes, {FailReason::kUnsupported});
    return;
  }
  ticket.body.assign(frame.body.begin(), frame.body.end());
  auto compute = wire::decode_compute(ticket.body, shape_, config_.rows_max);
  if (!compute) {
    const bool elsewhere = compute.error().kind == ErrorKind::kInvalid;
    fail(ticket.number, ticket.wire_bytes,
         {elsewhere ? FailReason::kNotHeld : FailReason::kMalformed});
    return;
  }
  ticket.compute = std::move(*compute);
  ticket.deadline = now + ticket.compute.deadline_ms;
  ticket.answer_bytes = wire::frame_bytes(
      kResultHeadBytes +
          ticket.compute.n_pairs() * wire::row_bytes(ticket.compute.encoding, held_.n_embd()),
      true);
  if (const auto problem = function_.check(ticket.compute)) {
    fail(ticket.number, ticket.wire_bytes, *problem);
  } else if (const auto reason = reason_to_be_busy(ticket, credit_left)) {
    refuse(ticket.number, ticket.wire_bytes, *reason);
  } else {
    queue_bytes_ += ticket.body.size();
    promised_bytes_ += ticket.answer_bytes;
    queue_.push_back(std::move(ticket));
  }
}

std::optional<BusyReason> WorkerCore::reason_to_be_busy(const Ticket& ticket,
                                                        uint64_t credit_left) const {
  if (draining_) return BusyReason::kDraining;
  if (queue_.size() >= config_.tickets_max ||
      queue_bytes_ + ticket.body.size() > config_.queue_bytes_max)
    return BusyReason::kQueueFull;
  if (promised_bytes_ + ticket.answer_bytes > credit_left + config_.answer_bytes_max)
    return BusyReason::kNoCredit;
  return std::nullopt;
}

void WorkerCore::on_cancel(uint64_t number) {
  const auto waits = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Ticket& ticket) { return ticket.number == number; });
  if (waits != queue_.end()) {
    ++stats_.cancelled;
    silently_consumed_ += waits->wire_bytes;
    queue_bytes_ -= waits->body.size();
    promised_bytes_ -= waits->answer_bytes;
    queue_.erase(waits);
    return;
  }
  const auto computed = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& answer) {
    return answer.frame.ticket == number;
  });
  if (computed == answers_.end()) return;
  ++stats_.cancelled;
  silently_consumed_ += computed->frame.consumed_bytes;
  promised_bytes_ -= wire::frame_bytes(computed->frame.body.size(), true);
  answers_.erase(computed);
}

WorkerCore::Ticket WorkerCore::take_next() {
  auto next = queue_.begin();
  if (config_.mischief.reorder) next += static_cast<ptrdiff_t>(random_.below(queue_.size()));
  Ticket ticket = std::move(*next);
  queue_.erase(next);
  queue_bytes_ -= ticket.body.size();
  return ticket;
}

void WorkerCore::run_next(Time now) {
  if (queue_.empty()) return;
  const Ticket ticket = take_next();
  std::optional<TicketProblem> problem;
  const uint64_t begin_us = config_.clock_us ? config_.clock_us() : 0;
  if (now >= ticket.deadline)
    problem = {FailReason::kDeadline};
  else
    problem = function_.run(ticket.compute, outputs_);
  if (problem) {
    promised_bytes_ -= ticket.answer_bytes;
    fail(ticket.number, ticket.wire_bytes, *problem);
    return;
  }
  answer(ticket, outputs_, config_.clock_us ? config_.clock_us() - begin_us : 0);
}

void WorkerCore::answer(const Ticket& ticket, const std::vector<std::byte>& outputs,
                        uint64_t compute_us) {
  const auto n_pairs = static_cast<uint16_t>(ticket.compute.n_pairs());
  wire::ComputeResult result;
  result.compute_us = static_cast<uint32_t>(std::min<uint64_t>(compute_us, UINT32_MAX));
  result.queue_depth = static_cast<uint16_t>(std::min<size_t>(queue_.size(), UINT16_MAX));
  result.outputs = outputs;
  Answer answer;
  answer.deadline = ticket.deadline;
  answer.frame = {FrameType::kResult, ticket.number, wire::encode_result(result, n_pairs),
                  ticket.wire_bytes};
  // In steps of 2^-32, so that a share of 1 means every ticket.
  constexpr uint64_t kAll = uint64_t{1} << 32;
  if (config_.mischief.lie_share > 0 &&
      static_cast<double>(random_.below(kAll)) <
          config_.mischief.lie_share * static_cast<double>(kAll) &&
      lie(std::span(answer.frame.body).subspan(kResultHeadBytes), ticket.compute.encoding,
          held_.n_embd(), random_))
    ++stats_.lies;
  ++stats_.results;
  stats_.pairs += n_pairs;
  stats_.compute_us += compute_us;
  answers_.push_back(std::move(answer));
}

void WorkerCore::refuse(uint64_t ticket, size_t wire_bytes, BusyReason reason) {
  ++stats_.busy[static_cast<size_t>(reason)];
  refusals_.push_back({FrameType::kBusy, ticket, wire::encode_busy({reason, 0}), wire_bytes});
}

void WorkerCore::fail(uint64_t ticket, size_t wire_bytes, TicketProblem problem) {
  ++stats_.failed[static_cast<size_t>(problem.reason)];
  refusals_.push_back({FrameType::kFailed, ticket,
                       wire::encode_failed({problem.reason, problem.pair}), wire_bytes});
}

void WorkerCore::on_timer(Time now) {
  for (auto answer = answers_.begin(); answer != answers_.end();) {
    if (now < answer->deadline) {
      ++answer;
      continue;
    }
    promised_bytes_ -= wire::frame_bytes(answer->frame.body.size(), true);
    fail(answer->frame.ticket, answer->frame.consumed_bytes, {FailReason::kDeadline});
    answer = answers_.erase(answer);
  }
}

Time WorkerCore::wake_at() const {
  Time at = wire::kNever;
  for (const Answer& answer : answers_) at = std::min(at, answer.deadline);
  return at;
}

std::optional<OutgoingFrame> WorkerCore::next_frame(uint64_t credit_left) {
  for (auto* queue : {&notices_, &refusals_}) {
    if (queue->empty()) continue;
    OutgoingFrame frame = std::move(queue->front());
    queue->pop_front();
    return frame;
  }
  if (answers_.empty()) return std::nullopt;
  const size_t bytes = wire::frame_bytes(answers_.front().frame.body.size(), true);
  if (bytes > credit_left) return std::nullopt;
  OutgoingFrame frame = std::move(answers_.front().frame);
  answers_.pop_front();
  promised_bytes_ -= bytes;
  return frame;
}

const OutgoingFrame* WorkerCore::blocked(uint64_t credit_left) const {
  if (answers_.empty()) return nullptr;
  const OutgoingFrame& frame = answers_.front().frame;
  return wire::frame_bytes(frame.body.size(), true) > credit_left ? &frame : nullptr;
}

void WorkerCore::drain() {
  if (draining_) return;
  draining_ = true;
  announce(FrameType::kDrain, held_units(held_));
}

bool WorkerCore::is_drained() const {
  return draining_ && queue_.empty() && answers_.empty() && refusals_.empty() && notices_.empty();
}

}  // namespace kvasir::worker
