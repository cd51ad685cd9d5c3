#include "swarm/dispatcher.h"

#include <algorithm>
#include <cstring>

namespace kvasir::swarm {
namespace {

// Of a worker: how long answers to tickets that nobody waits for are still compared, and how many
// such tickets are remembered.
constexpr TimeUs kSettledForUs = 10 * kSecondUs;
constexpr size_t kSettledMax = 4096;
// Sequences that are remembered per worker as users of its answers.
constexpr size_t kOwnersMax = 65'536;
// Keys that are remembered. A stranger can make as many as it likes.
constexpr size_t kIdentitiesMax = 16'384;
constexpr TimeUs kRateSpanUs = 2 * kSecondUs;

}  // namespace

std::string_view why_name(Why why) {
  switch (why) {
    case Why::kRemote:
      return "remote";
    case Why::kHedge:
      return "hedge";
    case Why::kPlanned:
      return "planned";
    case Why::kHole:
      return "hole";
    case Why::kDeadline:
      return "deadline";
    case Why::kRefused:
      return "refused";
    case Why::kLost:
      return "lost";
    case Why::kAudit:
      break;
  }
  return "audit";
}

Dispatcher::Dispatcher(ModelRoutes routes, const kernels::KernelTable& kernels,
                       DispatchOptions options)
    : routes_(std::move(routes)),
      kernels_(kernels),
      options_(options),
      encoding_(wire_encoding(options.encoding)),
      pairs_per_ticket_(
          std::min<size_t>(wire::pairs_per_ticket(encoding_, routes_.n_embd), wire::kPairsMax)),
      sampler_(options.secret, options.verify),
      coverage_(routes_.layers),
      chance_(options.seed) {
  scratch_row_.resize(routes_.n_embd);
}
Dispatcher::~Dispatcher() = default;

// --- Connections --------------------------------------------------------------------------------

std::optional<std::string> Dispatcher::objection(const wire::Key& key) const {
  const auto known = identities_.find(key);
  if (known != identities_.end() && known->second.convicted)
    return "this key gave an answer that was wrong, and is not trusted any more";
  return std::nullopt;
}

Identity& Dispatcher::identity(const wire::Key& key) {
  if (identities_.size() >= kIdentitiesMax && !identities_.contains(key)) forget_identities();
  Identity& found = identities_[key];
  found.key = key;
  return found;
}

// Those that did nothing go first, those that lied last; none that is connected or that a call
// still speaks of. Connections are far fewer than kIdentitiesMax, so there is room then.
void Dispatcher::forget_identities() {
  std::set<const Identity*> in_use;
  for (const Call* call : calls_)
    for (const Call::Ticket& ticket : call->tickets_) in_use.insert(ticket.identity);
  for (int round = 0; round < 3 && identities_.size() >= kIdentitiesMax; ++round) {
    std::erase_if(identities_, [&](const auto& entry) {
      const Identity& known = entry.second;
      if (known.logins > 0 || in_use.contains(&known)) return false;
      return round == 2 || (!known.convicted && (round == 1 || known.counts.rows_used == 0));
    });
  }
}

WorkerId Dispatcher::join(WorkerInfo info, TimeUs now) {
  const WorkerId id = ++last_worker_;
  auto worker = std::make_unique<Worker>();
  worker->identity = &identity(info.key);
  ++worker->identity->logins;
  worker->info = std::move(info);
  worker->joined_at = worker->heard_at = worker->rate_since = now;
  workers_.emplace(id, std::move(worker));
  next_probe_at_ = 0;
  return id;
}

Dispatcher::Worker* Dispatcher::find(WorkerId worker) {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second.get();
}

void Dispatcher::heard(Worker& worker, TimeUs now) {
  worker.heard_at = now;
  worker.suspect = false;
  worker.probe_wait = 0;
}

void Dispatcher::on_ready(WorkerId id, std::span<const wire::LeasedUnit> units, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr || worker->identity->convicted) return;
  heard(*worker, now);
  for (const wire::LeasedUnit& leased : units)
    if (coverage_.has(leased.unit)) worker->experts += coverage_.add(id, leased.unit);
  worker->draining = false;
}

void Dispatcher::on_drain(WorkerId id, std::span<const wire::LeasedUnit> units, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  heard(*worker, now);
  for (const wire::LeasedUnit& leased : units) worker->experts -= coverage_.remove(id, leased.unit);
  worker->draining = worker->experts == 0;
}

Call::Ticket* Dispatcher::find_ticket(Worker& worker, uint64_t number, Call** call, size_t* index) {
  const auto open = worker.open.find(number);
  if (open == worker.open.end()) return nullptr;
  *call = open->second.call;
  *index = open->second.index;
  return &open->second.call->tickets_[open->second.index];
}

Result<void> Dispatcher::on_result(WorkerId id, uint64_t number, ByteSpan body, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return {};
  heard(*worker, now);
  worker->identity->counts.bytes_in += body.size();
  Call* call = nullptr;
  size_t index = 0;
  Call::Ticket* ticket = find_ticket(*worker, number, &call, &index);
  if (ticket == nullptr) return on_late_result(*worker, number, body, now);
  if (ticket->state != Call::TicketState::kOpen && ticket->state != Call::TicketState::kGivenUp) {
    ++unknown_answers_;  // a second answer
    return {};
  }
  auto result = wire::decode_result(body, encoding_, routes_.n_embd,
                                    static_cast<uint16_t>(ticket->pairs.size()));
  if (!result) {
    if (ticket->state == Call::TicketState::kOpen) settle(*call, index, Why::kRefused, now);
    return std::move(result.error());
  }
  ++worker->identity->counts.answers;
  worker->identity->counts.compute_us += result->compute_us;
  worker->queue_depth = result->queue_depth;
  worker->latency.on_answer(now - ticket->sent_at, result->compute_us, ticket->pairs.size(),
                            ticket->pairs_ahead);
  worker->rate_rows += ticket->pairs.size();
  if (now - worker->rate_since >= kRateSpanUs) {
    worker->rows_per_s = static_cast<double>(worker->rate_rows) * 1e6 /
                         static_cast<double>(now - worker->rate_since);
    worker->rate_since = now;
    worker->rate_rows = 0;
  }
  ticket->compute_us = result->compute_us;
  ticket->outputs.assign(result->outputs.begin(), result->outputs.end());
  if (ticket->state == Call::TicketState::kOpen) {
    end_open(*call, *ticket);
    ++tickets_.results;
    CallRecord& record = call->record_;
    if (ticket->kind != Call::TicketKind::kProbe && now - ticket->sent_at > record.slowest_us) {
      record.slowest = id;
      record.slowest_us = now - ticket->sent_at;
      record.slowest_compute_us = result->compute_us;
    }
  } else {
    ++worker->identity->counts.late;
  }
  ticket->state = Call::TicketState::kArrived;
  wake(*call);
  return {};
}

Result<void> Dispatcher::on_late_result(Worker& worker, uint64_t number, ByteSpan body,
                                        TimeUs now) {
  const auto settled = worker.settled.find(number);
  if (settled == worker.settled.end()) {
    ++unknown_answers_;
    return {};
  }
  const SettledTicket ticket = settled->second;
  worker.settled.erase(settled);
  if (now > ticket.expires_at) {
    ++unknown_answers_;
    return {};
  }
  KVASIR_TRY(const wire::ComputeResult result,
             wire::decode_result(body, encoding_, routes_.n_embd, ticket.n_pairs));
  ++worker.identity->counts.late;
  worker.latency.on_answer(now - ticket.sent_at, result.compute_us, ticket.n_pairs,
                           ticket.pairs_ahead);
  if (!ticket.has_digest) return {};
  std::vector<float> outputs(size_t{ticket.n_pairs} * routes_.n_embd);
  const size_t row_bytes = result.outputs.size() / ticket.n_pairs;
  for (size_t pair = 0; pair < ticket.n_pairs; ++pair)
    KVASIR_TRY_VOID(expert::decode(
        kernels_, options_.encoding, result.outputs.subspan(pair * row_bytes, row_bytes),
        std::span(outputs).subspan(pair * routes_.n_embd, routes_.n_embd)));
  ++free_audits_;
  ++worker.identity->counts.audited_free;
  if (digest(options_.secret, outputs) == ticket.digest) {
    ++worker.identity->trusted_tickets;
    return {};
  }
  Evidence evidence;
  evidence.ticket = number;
  evidence.result.assign(body.begin(), body.end());
  evidence.reason = "a late answer differs from what was computed in its place";
  convict(*worker.identity, std::move(evidence), now);
  return {};
}

void Dispatcher::on_busy(WorkerId id, uint64_t number, const wire::Busy&, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  heard(*worker, now);
  ++worker->identity->counts.busy;
  Call* call = nullptr;
  size_t index = 0;
  Call::Ticket* ticket = find_ticket(*worker, number, &call, &index);
  if (ticket != nullptr && ticket->state == Call::TicketState::kOpen)
    settle(*call, index, Why::kRefused, now);
}

void Dispatcher::on_failed(WorkerId id, uint64_t number, const wire::Failed& failed, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  heard(*worker, now);
  ++worker->identity->counts.failed;
  Call* call = nullptr;
  size_t index = 0;
  Call::Ticket* ticket = find_ticket(*worker, number, &call, &index);
  if (ticket == nullptr) return;
  if (failed.reason == wire::FailReason::kNotHeld) {
    // It said READY once; believe the later word, or it would be asked again and again. Of the
    // expert that it names, if it does.
    const bool named = failed.pair < ticket->pairs.size();
    for (size_t i = 0; i < ticket->pairs.size(); ++i) {
      if (named && i != failed.pair) continue;
      const PairIndex pair = ticket->pairs[i];
      const uint16_t expert = expert_of(*call, pair);
      worker->experts -= coverage_.remove(id, {static_cast<uint16_t>(call->input_.request.layer),
                                               expert, static_cast<uint16_t>(expert + 1)});
    }
  }
  if (ticket->state == Call::TicketState::kOpen) settle(*call, index, Why::kRefused, now);
}

void Dispatcher::on_unsent(WorkerId id, uint64_t number, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  Call* call = nullptr;
  size_t index = 0;
  Call::Ticket* ticket = find_ticket(*worker, number, &call, &index);
  if (ticket != nullptr && ticket->state == Call::TicketState::kOpen)
    settle(*call, index, Why::kRefused, now);
}

void Dispatcher::leave(WorkerId id, TimeUs now) {
  Worker* worker = find(id);
  if (worker == nullptr) return;
  coverage_.remove(id);
  std::vector<OpenTicket> open;
  for (const auto& [number, ticket] : worker->open) open.push_back(ticket);
  for (const auto& [call, index] : open) {
    Call::Ticket& ticket = call->tickets_[index];
    if (ticket.state == Call::TicketState::kOpen) {
      ++worker->identity->counts.lost;
      settle(*call, index, Why::kLost, now);
    }
    if (ticket.state == Call::TicketState::kGivenUp) ticket.state = Call::TicketState::kEnded;
  }
  --worker->identity->logins;
  workers_.erase(id);
}

std::vector<Outgoing> Dispatcher::take_outgoing() {
  return std::exchange(outgoing_, {});
}
std::vector<WorkerId> Dispatcher::take_convicted() {
  return std::exchange(convicted_, {});
}

std::vector<Evidence> Dispatcher::take_evidence() {
  std::vector<Evidence> all(std::make_move_iterator(evidence_.begin()),
                            std::make_move_iterator(evidence_.end()));
  evidence_.clear();
  return all;
}

std::vector<uint64_t> Dispatcher::take_doubted() {
  return std::exchange(doubted_, {});
}

void Dispatcher::forget(uint64_t owner) {
  for (auto& [key, known] : identities_) known.owners.erase(owner);
}

// --- Tickets ------------------------------------------------------------------------------------

// The ticket is not open any more; who calls says what it is now. Its number stays known while the
// call lasts.
void Dispatcher::end_open(Call& call, const Call::Ticket& ticket) {
  --tickets_.open;
  if (ticket.kind != Call::TicketKind::kProbe)
    for (PairIndex pair : ticket.pairs) --call.pairs_[pair].open;
  if (Worker* worker = find(ticket.worker)) worker->open_pairs -= ticket.pairs.size();
}

void Dispatcher::settle(Call& call, size_t index, Why why, TimeUs now) {
  Call::Ticket& ticket = call.tickets_[index];
  end_open(call, ticket);
  ticket.state = Call::TicketState::kEnded;
  if (ticket.kind == Call::TicketKind::kProbe) {
    ++tickets_.cancelled;
  } else {
    ++tickets_.local_fills;
    for (PairIndex pair : ticket.pairs)
      if (call.pairs_[pair].state == Call::PairState::kAway &&
          (call.pairs_[pair].open == 0 || why == Why::kDeadline))
        need(call, pair, why);
  }
  wake(call);
  Worker* worker = find(ticket.worker);
  if (why != Why::kDeadline || worker == nullptr) return;
  ticket.state = Call::TicketState::kGivenUp;
  ++ticket.identity->counts.deadlines;
  worker->latency.on_given_up(now - ticket.sent_at, ticket.pairs.size(), ticket.pairs_ahead);
  outgoing_.push_back({ticket.worker, ticket.number, wire::FrameType::kCancel, {}});
  // A hedge is given up when the first ticket is, however short it had: that is no silence.
  if (ticket.kind == Call::TicketKind::kFirst && worker->heard_at < ticket.sent_at &&
      !worker->suspect) {
    worker->suspect = true;
    worker->next_probe_at = next_probe_at_ = now;
  }
}

void Dispatcher::need(Call& call, PairIndex index, Why why) {
  Call::Pair& pair = call.pairs_[index];
  if (pair.state == Call::PairState::kNeeded) return;
  if (pair.state == Call::PairState::kAway) --call.n_away_;
  pair.state = Call::PairState::kNeeded;
  pair.why = why;
  pair.source = 0;
  pair.verified = false;
  ++call.n_needed_;
}

void Dispatcher::close_ticket(Call& call, Call::Ticket& ticket, TimeUs now) {
  Worker* worker = find(ticket.worker);
  const bool was_open = ticket.state == Call::TicketState::kOpen;
  if (was_open) {
    end_open(call, ticket);
    ++tickets_.cancelled;
    if (worker != nullptr && ticket.kind != Call::TicketKind::kProbe) {
      worker->latency.on_given_up(now - ticket.sent_at, ticket.pairs.size(), ticket.pairs_ahead);
      outgoing_.push_back({ticket.worker, ticket.number, wire::FrameType::kCancel, {}});
    }
  }
  if (worker == nullptr) return;
  worker->open.erase(ticket.number);
  if (!was_open && ticket.state != Call::TicketState::kGivenUp) return;
  // An answer may still come.
  SettledTicket settled;
  settled.expires_at = now + kSettledForUs;
  settled.sent_at = ticket.sent_at;
  settled.n_pairs = static_cast<uint16_t>(ticket.pairs.size());
  settled.pairs_ahead = ticket.pairs_ahead;
  settled.layer = static_cast<uint16_t>(call.input_.request.layer);
  // Only what was computed here is a measure.
  settled.has_digest = std::all_of(ticket.pairs.begin(), ticket.pairs.end(), [&](PairIndex pair) {
    return (call.pairs_[pair].source == 0 || call.pairs_[pair].verified) &&
           call.row_failed_[row_of(call, pair)] == 0;
  });
  if (settled.has_digest) {
    std::vector<float> outputs;
    for (PairIndex pair : ticket.pairs)
      outputs.insert(outputs.end(), output(call, pair), output(call, pair) + routes_.n_embd);
    settled.digest = digest(options_.secret, outputs);
  }
  std::erase_if(worker->settled,
                [now](const auto& entry) { return entry.second.expires_at < now; });
  if (worker->settled.size() >= kSettledMax) worker->settled.erase(worker->settled.begin());
  worker->settled.emplace(ticket.number, settled);
}

// --- Audits -------------------------------------------------------------------------------------

void Dispatcher::convict(Identity& identity, Evidence evidence, TimeUs now) {
  ++wrong_answers_;
  ++identity.counts.wrong;
  if (identity.convicted) return;
  identity.convicted = true;
  evidence.worker = identity.key;
  if (evidence_.size() >= kEvidenceMax) evidence_.pop_front();
  evidence_.push_back(std::move(evidence));
  doubt(identity);
  for (auto& [id, worker] : workers_) {
    if (worker->identity != &identity) continue;
    worker->draining = true;
    worker->experts -= coverage_.remove(id);
    convicted_.push_back(id);
  }
  for (Call* call : calls_) {
    for (size_t index = 0; index < call->tickets_.size(); ++index) {
      Call::Ticket& ticket = call->tickets_[index];
      if (ticket.identity != &identity) continue;
      if (ticket.state == Call::TicketState::kOpen) settle(*call, index, Why::kAudit, now);
      if (ticket.state == Call::TicketState::kArrived) {
        ticket.state = Call::TicketState::kEnded;
        for (PairIndex pair : ticket.pairs)
          if (call->pairs_[pair].state == Call::PairState::kAway && call->pairs_[pair].open == 0)
            need(*call, pair, Why::kAudit);
      }
    }
    for (PairIndex pair = 0; pair < call->pairs_.size(); ++pair) {
      const Call::Pair& at = call->pairs_[pair];
      if (at.state == Call::PairState::kDone && at.source != 0 && !at.verified &&
          call->tickets_[at.source - 1].identity == &identity)
        need(*call, pair, Why::kAudit);
    }
    wake(*call);
  }
}

void Dispatcher::doubt(Identity& identity) {
  if (identity.owners_lost) doubted_.push_back(kEveryOwner);
  doubted_.insert(doubted_.end(), identity.owners.begin(), identity.owners.end());
  identity.owners.clear();
  identity.owners_lost = false;
}

void Dispatcher::count_used(Call& call) {
  const expert::ExpertRequest& request = call.input_.request;
  const size_t row_bytes = wire::row_bytes(encoding_, routes_.n_embd);
  for (PairIndex index = 0; index < call.pairs_.size(); ++index) {
    if (request.ids[index] == expert::kNoExpert) continue;
    const Call::Pair& pair = call.pairs_[index];
    ++pairs_used_[static_cast<size_t>(pair.why)];
    ++call.record_.why[static_cast<size_t>(pair.why)];
    if (pair.source == 0) continue;
    Identity& worker = *call.tickets_[pair.source - 1].identity;
    ++call.record_.pairs_remote;
    ++worker.counts.rows_used;
    UnitCounts& unit =
        worker.units[{static_cast<uint16_t>(request.layer),
                      static_cast<uint16_t>(request.ids[index] / routes_.group_size)}];
    ++unit.rows;
    unit.bytes += row_bytes;
    if (pair.verified || request.row_owner == nullptr) continue;
    const uint64_t owner = request.row_owner[row_of(call, index)];
    if (worker.owners.size() < kOwnersMax) {
      worker.owners.insert(owner);
    } else if (!worker.owners.contains(owner)) {
      worker.owners_lost = true;
    }
    if (worker.convicted) doubt(worker);
  }
}

// --- For people ---------------------------------------------------------------------------------

SwarmStatus Dispatcher::status(TimeUs now) const {
  SwarmStatus status;
  status.mode = options_.mode == DispatchMode::kAuto ? "auto" : "always";
  status.verify_share = options_.verify.share;
  status.governor = governor_.view();
  status.pairs = pairs_used_;
  status.tickets = tickets_;
  status.calls = calls_counted_;
  status.hedges = hedges_;
  status.probes = probes_;
  status.audits = audits_;
  status.free_audits = free_audits_;
  status.wrong_answers = wrong_answers_;
  status.disputes = dispute_count_;
  status.unknown_answers = unknown_answers_;
  status.known_identities = identities_.size();
  for (const auto& [key, known] : identities_) {
    if (!known.convicted) continue;
    ++status.quarantined;
    status.quarantined_keys.push_back(wire::hex(key));
  }
  for (const auto& [id, worker] : workers_) {
    WorkerStatus each;
    each.id = id;
    each.key = wire::hex(worker->info.key);
    each.address = worker->info.address;
    each.build = worker->info.build;
    each.connected_s = (now - worker->joined_at) / kSecondUs;
    each.experts = worker->experts;
    each.memory_mib = worker->info.capabilities.memory_mib;
    each.draining = worker->draining;
    each.suspect = worker->suspect;
    each.open_pairs = worker->open_pairs;
    each.queue_depth = worker->queue_depth;
    each.settled_tickets = worker->settled.size();
    for (const auto& [number, ticket] : worker->open)
      if (ticket.call->tickets_[ticket.index].state == Call::TicketState::kOpen)
        ++each.open_tickets;
    each.latency_p50_us = worker->latency.recent_us(0.5);
    each.latency_p99_us = worker->latency.recent_us(0.99);
    each.way_us = worker->latency.way_us();
    each.pair_us = worker->latency.pair_us();
    each.rows_per_s = worker->rows_per_s;
    each.counts = worker->identity->counts;
    each.units = worker->identity->units;
    status.workers.push_back(std::move(each));
  }
  for (uint32_t layer = 0; layer < routes_.layers.size(); ++layer) {
    std::vector<uint16_t> replicas;
    std::vector<std::vector<WorkerId>> holders;
    for (uint32_t begin = 0; begin < routes_.layers[layer].n_experts; begin += routes_.group_size) {
      const uint32_t end = std::min(begin + routes_.group_size, routes_.layers[layer].n_experts);
      const auto first = coverage_.holders(layer, begin);
      std::vector<WorkerId> whole(first.begin(), first.end());
      for (uint32_t expert = begin + 1; expert < end; ++expert) {
        const auto next = coverage_.holders(layer, expert);
        std::erase_if(whole, [&](WorkerId id) {
          return std::find(next.begin(), next.end(), id) == next.end();
        });
      }
      replicas.push_back(static_cast<uint16_t>(std::min<size_t>(whole.size(), UINT16_MAX)));
      holders.push_back(std::move(whole));
    }
    status.replicas.push_back(std::move(replicas));
    status.holders.push_back(std::move(holders));
  }
  return status;
}

}  // namespace kvasir::swarm
