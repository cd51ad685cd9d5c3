// The calls of the dispatcher: answers, deadlines, hedges, and what is left to compute here.
#include <algorithm>
#include <cstring>

#include "swarm/dispatcher.h"

namespace kvasir::swarm {

Step Dispatcher::step(Call& call, TimeUs now) {
  call.is_wakeup_due_ = false;
  check_deadlines(call, now);
  absorb(call, now);
  if (call.n_needed_ > 0) {
    const expert::ExpertRequest& request = call.input_.request;
    call.ids_.assign(call.pairs_.size(), expert::kNoExpert);
    call.work_ = {};
    std::map<uint16_t, size_t> rows_of;
    for (PairIndex pair = 0; pair < call.pairs_.size(); ++pair) {
      if (call.pairs_[pair].state != Call::PairState::kNeeded) continue;
      call.ids_[pair] = request.ids[pair];
      ++rows_of[request.ids[pair]];
    }
    for (const auto& [expert, rows] : rows_of) {
      if (call.input_.at_hand[expert] != 0) {
        call.work_.at_hand += LocalWork::weight(rows);
      } else {
        call.work_.on_disk += LocalWork::weight(rows);
      }
    }
    call.computing_since_ = now;
    return {Step::Kind::kCompute, kNeverUs, call.ids_};
  }
  TimeUs until = kNeverUs;
  bool is_waiting = false;
  for (const Call::Ticket& ticket : call.tickets_) {
    if (ticket.state != Call::TicketState::kOpen || ticket.kind == Call::TicketKind::kProbe)
      continue;
    const bool is_awaited =
        ticket.verify || std::any_of(ticket.pairs.begin(), ticket.pairs.end(), [&](PairIndex pair) {
          return call.pairs_[pair].state == Call::PairState::kAway;
        });
    if (!is_awaited) continue;
    is_waiting = true;
    until = std::min({until, ticket.fill_at, ticket.hedged ? kNeverUs : ticket.hedge_at});
  }
  KVASIR_CHECK(is_waiting || call.n_away_ == 0);
  if (is_waiting) return {Step::Kind::kWait, until, {}};
  end(call, now);
  return {Step::Kind::kDone, kNeverUs, {}};
}

void Dispatcher::computed(Call& call, std::vector<expert::RowFailure> failures, TimeUs now) {
  const double took = static_cast<double>(now - call.computing_since_);
  call.record_.local_us += now - call.computing_since_;
  // What is computed beside workers on the same machine says nothing of computing alone.
  if (!call.shipped_) local_cost_.on_computed(call.work_, took);
  for (expert::RowFailure& failure : failures) {
    call.row_failed_[failure.row] = 1;
    call.failures_.push_back(std::move(failure));
  }
  for (PairIndex index = 0; index < call.pairs_.size(); ++index) {
    if (call.ids_[index] == expert::kNoExpert) continue;
    Call::Pair& pair = call.pairs_[index];
    if (pair.state != Call::PairState::kNeeded) continue;
    pair.state = Call::PairState::kDone;
    --call.n_needed_;
  }
  judge_disputes(call, now);
}

void Dispatcher::judge_disputes(Call& call, TimeUs now) {
  for (Call::Dispute& dispute : std::exchange(call.disputes_, {})) {
    if (call.row_failed_[row_of(call, dispute.pair)] != 0) continue;
    const float* truth = output(call, dispute.pair);
    if (std::memcmp(truth, dispute.output.data(), dispute.output.size() * sizeof(float)) == 0)
      continue;
    const Call::Ticket& ticket = call.tickets_[dispute.ticket];
    Evidence evidence;
    evidence.ticket = ticket.number;
    evidence.compute = ticket.compute;
    evidence.expected.assign(truth, truth + routes_.n_embd);
    const auto at = std::find(ticket.pairs.begin(), ticket.pairs.end(), dispute.pair);
    evidence.pair = static_cast<uint16_t>(at - ticket.pairs.begin());
    evidence.result = wire::encode_result({ticket.compute_us, 0, ticket.outputs},
                                          static_cast<uint16_t>(ticket.pairs.size()));
    evidence.reason = "two workers gave different answers, and this one is wrong";
    convict(*ticket.identity, std::move(evidence), now);
  }
}

void Dispatcher::check_deadlines(Call& call, TimeUs now) {
  for (size_t index = 0; index < call.tickets_.size(); ++index) {
    if (call.tickets_[index].state != Call::TicketState::kOpen ||
        call.tickets_[index].kind == Call::TicketKind::kProbe)
      continue;
    if (now >= call.tickets_[index].fill_at) {
      settle(call, index, Why::kDeadline, now);
    } else if (!call.tickets_[index].hedged && now >= call.tickets_[index].hedge_at) {
      call.tickets_[index].hedged = true;
      if (call.tickets_[index].kind == Call::TicketKind::kFirst) hedge(call, index, now);
    }
  }
}

void Dispatcher::hedge(Call& call, size_t index, TimeUs now) {
  const TimeUs fill_at = call.tickets_[index].fill_at;
  const WorkerId late = call.tickets_[index].worker;
  std::map<WorkerId, std::vector<PairIndex>> again;
  Assigned assigned;
  for (PairIndex pair : call.tickets_[index].pairs) {
    if (call.pairs_[pair].state != Call::PairState::kAway) continue;
    const WorkerId other =
        choose_holder(call.input_.request.layer, expert_of(call, pair), 1, assigned, late);
    if (other == 0 || !hedge_budget_.take(1, now)) continue;
    ++assigned[other];
    again[other].push_back(pair);
  }
  for (auto& [worker, pairs] : again) {
    hedges_ += pairs.size();
    call.record_.hedges += static_cast<uint32_t>(pairs.size());
    issue(call, worker, std::move(pairs), Call::TicketKind::kHedge, fill_at, now);
  }
}

void Dispatcher::absorb(Call& call, TimeUs now) {
  // What one answer gives may be what another one waits to be compared with.
  for (bool again = true; again;) {
    again = false;
    for (size_t index = 0; index < call.tickets_.size(); ++index) {
      if (call.tickets_[index].state != Call::TicketState::kArrived ||
          !use_answer(call, index, now))
        continue;
      call.tickets_[index].state = Call::TicketState::kEnded;
      again = true;
    }
  }
}

bool Dispatcher::use_answer(Call& call, size_t index, TimeUs now) {
  Call::Ticket& ticket = call.tickets_[index];
  const bool may_be_used = ticket.kind != Call::TicketKind::kProbe && !ticket.verify;
  for (PairIndex pair : ticket.pairs) {
    const Call::PairState state = call.pairs_[pair].state;
    if (state == Call::PairState::kNeeded || (state == Call::PairState::kAway && !may_be_used))
      return false;
  }
  const size_t n_embd = routes_.n_embd;
  const size_t row_bytes = ticket.outputs.size() / ticket.pairs.size();
  size_t held_to_truth = 0;  // pairs compared with what was computed here
  for (size_t i = 0; i < ticket.pairs.size(); ++i) {
    const PairIndex at = ticket.pairs[i];
    Call::Pair& pair = call.pairs_[at];
    const ByteSpan encoded = ByteSpan(ticket.outputs).subspan(i * row_bytes, row_bytes);
    const bool is_first = pair.state == Call::PairState::kAway;
    float* row = is_first ? output(call, at) : scratch_row_.data();
    // decode_result() has checked it.
    KVASIR_CHECK(expert::decode(kernels_, options_.encoding, encoded, {row, n_embd}));
    if (is_first) {
      pair.state = Call::PairState::kDone;
      --call.n_away_;
      pair.source = static_cast<uint32_t>(index + 1);
      pair.why = ticket.kind == Call::TicketKind::kHedge ? Why::kHedge : Why::kRemote;
      continue;
    }
    if (call.row_failed_[row_of(call, at)] != 0) continue;
    const float* used = output(call, at);
    const bool is_truth = pair.source == 0 || pair.verified;
    if (is_truth) ++held_to_truth;
    if (std::memcmp(used, row, n_embd * sizeof(float)) == 0) continue;
    if (is_truth) {
      Evidence evidence;
      evidence.ticket = ticket.number;
      evidence.compute = ticket.compute;
      evidence.result = wire::encode_result({ticket.compute_us, 0, ticket.outputs},
                                            static_cast<uint16_t>(ticket.pairs.size()));
      evidence.pair = static_cast<uint16_t>(i);
      evidence.expected.assign(used, used + n_embd);
      evidence.reason = "an answer differs from what was computed here";
      if (ticket.verify) ++audits_;
      convict(*ticket.identity, std::move(evidence), now);
      return true;
    }
    ++dispute_count_;
    call.disputes_.push_back({at, index, std::vector<float>(row, row + n_embd)});
    call.disputes_.push_back({at, pair.source - 1, std::vector<float>(used, used + n_embd)});
    need(call, at, Why::kAudit);
  }
  if (ticket.identity->convicted || held_to_truth < ticket.pairs.size()) return true;
  ++ticket.identity->trusted_tickets;
  for (PairIndex at : ticket.pairs)
    ticket.identity->proven.insert(
        {static_cast<uint16_t>(call.input_.request.layer), expert_of(call, at)});
  if (!ticket.verify) {
    ++free_audits_;
    ++ticket.identity->counts.audited_free;
    return true;
  }
  ++audits_;
  ++ticket.identity->counts.audited;
  for (PairIndex at : ticket.pairs) {
    Call::Pair& pair = call.pairs_[at];
    if (pair.source != 0) continue;
    pair.source = static_cast<uint32_t>(index + 1);
    pair.verified = true;
    pair.why = ticket.kind == Call::TicketKind::kHedge ? Why::kHedge : Why::kRemote;
  }
  return true;
}

// From here on no event reaches the call: whatever comes in later finds its tickets settled.
void Dispatcher::end(Call& call, TimeUs now) {
  const expert::ExpertRequest& request = call.input_.request;
  for (Call::Ticket& ticket : call.tickets_) close_ticket(call, ticket, now);
  for (size_t row = 0; row < request.n_rows; ++row)
    if (call.row_failed_[row] != 0)
      std::fill_n(output(call, static_cast<PairIndex>(row * request.top_k)),
                  request.top_k * routes_.n_embd, 0.0F);
  count_used(call);
  ++calls_counted_;
  call.record_.total_us = now - call.record_.started_us;
  call.record_.wait_us =
      call.record_.total_us - std::min(call.record_.total_us, call.record_.local_us);
  if (options_.mode == DispatchMode::kAuto)
    governor_.on_call(call.alone_us_, static_cast<double>(call.record_.total_us), call.shipped_);
  calls_.erase(&call);
  call.has_ended_ = true;
}

std::vector<expert::RowFailure> Dispatcher::finish(std::unique_ptr<Call> call, CallRecord* record) {
  KVASIR_CHECK(call->has_ended_);
  if (record != nullptr) *record = call->record_;
  std::vector<expert::RowFailure> failures = std::move(call->failures_);
  std::stable_sort(failures.begin(), failures.end(),
                   [](const auto& a, const auto& b) { return a.row < b.row; });
  failures.erase(std::unique(failures.begin(), failures.end(),
                             [](const auto& a, const auto& b) { return a.row == b.row; }),
                 failures.end());
  return failures;
}

}  // namespace kvasir::swarm
