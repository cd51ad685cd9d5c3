// The plans of the dispatcher: which experts of a call go to which worker, and in which tickets.
#include <algorithm>
#include <numeric>

#include "swarm/dispatcher.h"

namespace kvasir::swarm {
namespace {

// When a ticket is late. An answer sooner than the floor is no news.
constexpr TimeUs kHedgeFloorUs = 1'000;
constexpr TimeUs kFillFloorAutoUs = 1'000;
constexpr TimeUs kFillFloorAlwaysUs = 200'000;
constexpr TimeUs kFillMaxUs = 5 * kSecondUs;
constexpr double kHedgeQuantile = 0.75, kFillQuantile = 0.9;
// Behind this nobody waits for a probe.
constexpr TimeUs kProbeForUs = 10 * kSecondUs;
// How often workers are probed: until they are known, when their times may have become old, and
// those that fell silent, the latter ever more seldom.
constexpr TimeUs kProbeUnknownUs = 20'000;
constexpr TimeUs kProbeKnownUs = 2 * kSecondUs;
constexpr TimeUs kProbeSuspectUs = 100'000, kProbeSuspectMaxUs = 3'200'000;
// A plan that saves less is not worth its risk.
constexpr double kPlanGain = 0.97;

}  // namespace

bool Dispatcher::is_fit(const Worker& worker, uint32_t layer) const {
  return !worker.draining && !worker.suspect &&
         worker.info.capabilities.has(routes_.layers[layer].row_format) &&
         worker.info.capabilities.has(encoding_);
}

WorkerId Dispatcher::choose_holder(uint32_t layer, uint16_t expert, size_t pairs,
                                   const Assigned& assigned, WorkerId except) {
  std::vector<WorkerId> fit;
  for (WorkerId id : coverage_.holders(layer, expert)) {
    const Worker* worker = find(id);
    if (worker != nullptr && id != except && is_fit(*worker, layer)) fit.push_back(id);
  }
  if (fit.empty()) return 0;
  const auto expected_us = [&](WorkerId id) {
    const Worker& worker = *find(id);
    const auto more = assigned.find(id);
    const size_t ahead = worker.open_pairs + (more == assigned.end() ? 0 : more->second);
    return worker.latency.expected_us(pairs, ahead);
  };
  // The power of two choices: nearly as good as the best of all, and workers that look best for a
  // moment are not overrun.
  const size_t first = chance_.below(fit.size());
  if (fit.size() == 1) return fit[first];
  const size_t second = (first + 1 + chance_.below(fit.size() - 1)) % fit.size();
  // Who ships always gets to know workers by what it ships: one that is not known takes its chance
  // beside those that are, whatever is guessed of it. (In kAuto there are probes.)
  const auto is_known = [&](size_t at) { return find(fit[at])->latency.is_known(); };
  if (options_.mode == DispatchMode::kAlways && is_known(first) != is_known(second))
    return fit[first];
  return expected_us(fit[second]) < expected_us(fit[first]) ? fit[second] : fit[first];
}

std::vector<Dispatcher::Group> Dispatcher::group_pairs(Call& call) {
  const expert::ExpertRequest& request = call.input_.request;
  const size_t n_pairs = request.n_rows * request.top_k;
  const uint32_t n_experts = routes_.layers[request.layer].n_experts;
  first_of_expert_.assign(n_experts + 1, 0);
  size_t n_valid = 0;
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    if (request.ids[pair] == expert::kNoExpert) continue;
    ++first_of_expert_[request.ids[pair] + 1U];
    ++n_valid;
  }
  std::partial_sum(first_of_expert_.begin(), first_of_expert_.end(), first_of_expert_.begin());
  sorted_pairs_.resize(n_valid);
  std::vector<size_t> next = first_of_expert_;
  for (size_t pair = 0; pair < n_pairs; ++pair)
    if (request.ids[pair] != expert::kNoExpert)
      sorted_pairs_[next[request.ids[pair]]++] = static_cast<PairIndex>(pair);
  std::vector<Group> groups;
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    const size_t begin = first_of_expert_[expert], end = first_of_expert_[expert + 1];
    if (begin == end) continue;
    Group group;
    group.expert = static_cast<uint16_t>(expert);
    group.pairs = std::span(sorted_pairs_).subspan(begin, end - begin);
    const double weight = LocalWork::weight(end - begin);
    const bool at_hand = call.input_.at_hand[expert] != 0;
    group.cost_us = local_cost_.expected_us({at_hand ? weight : 0.0, at_hand ? 0.0 : weight});
    for (WorkerId id : coverage_.holders(request.layer, expert))
      if (is_fit(*find(id), request.layer)) group.hole = false;
    groups.push_back(group);
  }
  return groups;
}

void Dispatcher::choose_always(const Call& call, std::vector<Group>& groups) {
  Assigned assigned;
  for (Group& group : groups) {
    if (group.hole) continue;
    group.worker =
        choose_holder(call.input_.request.layer, group.expert, group.pairs.size(), assigned);
    assigned[group.worker] += group.pairs.size();
  }
}

// Moves the most expensive experts to workers, one after the other, while that lets the call end
// sooner: it ends when the slower of this machine and the workers has.
void Dispatcher::choose_auto(Call& call, std::vector<Group>& groups) {
  double here = call.alone_us_, away = 0;
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return groups[a].cost_us > groups[b].cost_us; });
  Assigned assigned;
  for (size_t at : order) {
    Group& group = groups[at];
    if (group.hole) continue;
    const WorkerId id =
        choose_holder(call.input_.request.layer, group.expert, group.pairs.size(), assigned);
    const Worker& worker = *find(id);
    if (!worker.latency.is_known()) continue;
    const size_t pairs = assigned[id] + group.pairs.size();
    const double ends = std::max(away, static_cast<double>(worker.latency.quantile_us(
                                           kHedgeQuantile, pairs, worker.open_pairs)));
    const double now_ends = std::max(here, away);
    if (std::max(here - group.cost_us, ends) > kPlanGain * now_ends) continue;
    group.worker = id;
    assigned[id] = pairs;
    here -= group.cost_us;
    away = ends;
  }
}

std::unique_ptr<Call> Dispatcher::start(const CallInput& input, TimeUs now) {
  auto call = std::make_unique<Call>();
  call->input_ = input;
  const expert::ExpertRequest& request = input.request;
  KVASIR_CHECK(request.layer < routes_.layers.size());
  call->pairs_.resize(request.n_rows * request.top_k);
  call->row_failed_.assign(request.n_rows, 0);
  call->record_.layer = request.layer;
  call->record_.rows = static_cast<uint32_t>(request.n_rows);
  call->record_.started_us = now;
  std::vector<Group> groups = group_pairs(*call);
  call->record_.pairs = static_cast<uint32_t>(sorted_pairs_.size());
  for (Call::Pair& pair : call->pairs_) pair.state = Call::PairState::kDone;
  call->n_needed_ = sorted_pairs_.size();
  for (PairIndex pair : sorted_pairs_) call->pairs_[pair].state = Call::PairState::kNeeded;
  for (const Group& group : groups) call->alone_us_ += group.cost_us;
  calls_.insert(call.get());
  if (workers_.empty()) {
    for (PairIndex pair : sorted_pairs_) call->pairs_[pair].why = Why::kHole;
    return call;
  }

  if (options_.mode == DispatchMode::kAlways) {
    choose_always(*call, groups);
  } else if (governor_.mode() == Governor::Mode::kShip && local_cost_.is_known()) {
    choose_auto(*call, groups);
  }
  std::map<WorkerId, std::vector<PairIndex>> plan;
  for (const Group& group : groups) {
    for (PairIndex pair : group.pairs) {
      if (group.hole) call->pairs_[pair].why = Why::kHole;
      if (group.worker != 0 && input.sendable[row_of(*call, pair)] != 0)
        plan[group.worker].push_back(pair);
    }
  }
  call->shipped_ = !plan.empty();
  for (auto& [id, pairs] : plan) {
    const Worker& worker = *find(id);
    TimeUs fill_us = worker.latency.quantile_us(kFillQuantile, pairs.size(), worker.open_pairs);
    fill_us = options_.mode == DispatchMode::kAlways ? std::max(fill_us, kFillFloorAlwaysUs)
                                                     : std::max(fill_us, kFillFloorAutoUs);
    issue(*call, id, std::move(pairs), Call::TicketKind::kFirst,
          now + std::min(fill_us, kFillMaxUs), now);
  }
  add_probes(*call, groups, now);
  return call;
}

TimeUs Dispatcher::probe_due_at(const Worker& worker) const {
  if (worker.draining) return kNeverUs;
  if (worker.suspect || options_.mode == DispatchMode::kAuto) return worker.next_probe_at;
  // Who ships always learns from that; but one that looked slow once is asked no more, and would
  // look slow for ever.
  return std::max(worker.next_probe_at, worker.heard_at + kProbeKnownUs);
}

void Dispatcher::add_probes(Call& call, const std::vector<Group>& groups, TimeUs now) {
  if (now < next_probe_at_) return;
  next_probe_at_ = kNeverUs;
  for (auto& [id, worker] : workers_) {
    if (now >= probe_due_at(*worker)) {
      for (const Group& group : groups) {
        const auto holders = coverage_.holders(call.input_.request.layer, group.expert);
        const PairIndex pair = group.pairs.front();
        if (std::find(holders.begin(), holders.end(), id) == holders.end() ||
            call.input_.sendable[row_of(call, pair)] == 0 || group.worker == id ||
            !worker->info.capabilities.has(routes_.layers[call.input_.request.layer].row_format))
          continue;
        ++probes_;
        issue(call, id, {pair}, Call::TicketKind::kProbe, now + kProbeForUs, now);
        TimeUs wait = worker->latency.is_known() ? kProbeKnownUs : kProbeUnknownUs;
        if (worker->suspect)
          wait = worker->probe_wait == 0 ? kProbeSuspectUs
                                         : std::min(2 * worker->probe_wait, kProbeSuspectMaxUs);
        worker->probe_wait = wait;
        worker->next_probe_at = now + wait;
        break;
      }
    }
    next_probe_at_ = std::min(next_probe_at_, probe_due_at(*worker));
  }
}

bool Dispatcher::is_on_probation(const Call& call, const Identity& identity,
                                 const std::vector<PairIndex>& pairs) const {
  if (options_.probation_tickets == 0) return false;
  if (identity.trusted_tickets < options_.probation_tickets) return true;
  const auto layer = static_cast<uint16_t>(call.input_.request.layer);
  return !std::all_of(pairs.begin(), pairs.end(), [&](PairIndex pair) {
    return identity.proven.contains({layer, expert_of(call, pair)});
  });
}

size_t Dispatcher::rows_per_ticket(const Worker& worker, size_t row_bytes) const {
  // Head of the body, then per row a count and the row, per pair two bytes.
  constexpr size_t kHead = 12;
  const size_t room = wire::kDataBodyMax - kHead - 2 * pairs_per_ticket_;
  return std::clamp<size_t>(room / (row_bytes + 1), 1,
                            std::min<size_t>(worker.info.rows_max, wire::kRowsMax));
}

void Dispatcher::issue(Call& call, WorkerId id, std::vector<PairIndex> pairs, Call::TicketKind kind,
                       TimeUs fill_at, TimeUs now) {
  Worker& worker = *find(id);
  const size_t rows_max = rows_per_ticket(worker, call.input_.row_bytes);
  // In the order of the plan, expert by expert, so that a ticket holds few experts and many rows.
  std::vector<PairIndex> ticket;
  std::vector<size_t> rows;
  for (PairIndex pair : pairs) {
    const size_t row = row_of(call, pair);
    bool is_new = std::find(rows.begin(), rows.end(), row) == rows.end();
    if (ticket.size() == pairs_per_ticket_ || (is_new && rows.size() == rows_max)) {
      issue_one(call, worker, id, std::exchange(ticket, {}), kind, fill_at, now);
      rows.clear();
      is_new = true;
    }
    ticket.push_back(pair);
    if (is_new) rows.push_back(row);
  }
  issue_one(call, worker, id, std::move(ticket), kind, fill_at, now);
}

void Dispatcher::issue_one(Call& call, Worker& worker, WorkerId id, std::vector<PairIndex> pairs,
                           Call::TicketKind kind, TimeUs fill_at, TimeUs now) {
  std::sort(pairs.begin(), pairs.end());
  const expert::ExpertRequest& request = call.input_.request;
  Call::Ticket ticket;
  ticket.worker = id;
  ticket.identity = worker.identity;
  ticket.number = ++worker.last_ticket;
  ticket.kind = kind;
  ticket.pairs_ahead = worker.open_pairs;
  ticket.sent_at = now;
  ticket.fill_at = fill_at;
  ticket.hedge_at =
      now + std::max(kHedgeFloorUs,
                     worker.latency.quantile_us(kHedgeQuantile, pairs.size(), worker.open_pairs));
  ticket.verify =
      kind != Call::TicketKind::kProbe && (sampler_.picks(worker.info.key, ticket.number) ||
                                           is_on_probation(call, *worker.identity, pairs));

  wire::Compute compute;
  compute.layer = static_cast<uint16_t>(request.layer);
  compute.encoding = encoding_;
  compute.row_format = routes_.layers[request.layer].row_format;
  compute.deadline_ms = static_cast<uint32_t>(
      std::clamp<TimeUs>((fill_at - now) / 1000 + 1, 1, wire::kDeadlineMsMax));
  std::vector<std::byte> rows;
  size_t last_row = SIZE_MAX;
  for (PairIndex pair : pairs) {
    const size_t row = row_of(call, pair);
    if (row != last_row) {
      compute.counts.push_back(0);
      const ByteSpan bytes =
          call.input_.wire_rows.subspan(row * call.input_.row_bytes, call.input_.row_bytes);
      rows.insert(rows.end(), bytes.begin(), bytes.end());
      last_row = row;
    }
    ++compute.counts.back();
    compute.experts.push_back(request.ids[pair]);
  }
  compute.rows = rows;
  std::vector<std::byte> body = wire::encode_compute(compute);
  if (ticket.verify) ticket.compute = body;

  ++tickets_.issued;
  ++tickets_.open;
  ++worker.identity->counts.tickets;
  worker.identity->counts.bytes_out += body.size();
  worker.open_pairs += pairs.size();
  worker.open[ticket.number] = {&call, call.tickets_.size()};
  outgoing_.push_back({id, ticket.number, wire::FrameType::kCompute, std::move(body)});
  ++call.record_.tickets;
  if (kind == Call::TicketKind::kFirst) hedge_budget_.on_asked(pairs.size(), now);
  for (PairIndex at : pairs) {
    Call::Pair& pair = call.pairs_[at];
    if (kind == Call::TicketKind::kProbe) continue;
    ++pair.open;
    if (ticket.verify) {
      need(call, at, Why::kAudit);
    } else if (pair.state == Call::PairState::kNeeded && kind == Call::TicketKind::kFirst) {
      pair.state = Call::PairState::kAway;
      --call.n_needed_;
      ++call.n_away_;
    }
  }
  ticket.pairs = std::move(pairs);
  call.tickets_.push_back(std::move(ticket));
}

bool Dispatcher::ships_whole_layer(uint32_t layer) const {
  if (layer >= routes_.layers.size()) return false;
  if (options_.mode == DispatchMode::kAuto && governor_.mode() != Governor::Mode::kShip)
    return false;
  return coverage_.covered(layer) == routes_.layers[layer].n_experts;
}

}  // namespace kvasir::swarm
