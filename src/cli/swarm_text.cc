#include "cli/swarm_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/parsing.h"
#include "swarm/status_json.h"

namespace kvasir::cli {
namespace {

using swarm::CallRecord;
using swarm::SwarmStatus;
using swarm::Why;
using swarm::WorkerStatus;

// Of a worker's key: enough to tell those of one swarm apart.
constexpr size_t kKeyDigits = 12;

std::string time_text(double us) {
  if (us < 1'000) return fmt::format("{:.0f} us", us);
  if (us < 1'000'000) return fmt::format("{:.1f} ms", us / 1'000);
  return fmt::format("{:.2f} s", us / 1'000'000);
}
std::string time_text(uint64_t us) {
  return time_text(static_cast<double>(us));
}

double percent(uint64_t part, uint64_t all) {
  return all == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

uint64_t sum(const std::array<uint64_t, swarm::kWhys>& pairs) {
  uint64_t all = 0;
  for (uint64_t each : pairs) all += each;
  return all;
}

std::string state_text(const WorkerStatus& worker) {
  if (worker.draining) return "draining";
  return worker.suspect ? "silent" : "ready";
}

std::string workers_text(const SwarmStatus& status) {
  std::string text =
      fmt::format("{:>4} {:<12} {:<9} {:>8} {:>10} {:>10} {:>8} {:>9} {:>8} {:>7} {}\n", "id",
                  "key", "state", "experts", "p50", "p99", "rows/s", "rows used", "tickets",
                  "checked", "busy/failed/lost/late");
  for (const WorkerStatus& worker : status.workers) {
    const swarm::WorkerCounts& counts = worker.counts;
    text += fmt::format(
        "{:>4} {:<12} {:<9} {:>8} {:>10} {:>10} {:>8.0f} {:>9} {:>8} {:>7} {}/{}/{}/{}\n",
        worker.id, on_one_line(worker.key).substr(0, kKeyDigits), state_text(worker),
        worker.experts, time_text(worker.latency_p50_us), time_text(worker.latency_p99_us),
        worker.rows_per_s, counts.rows_used, counts.tickets, counts.audited + counts.audited_free,
        counts.busy, counts.failed, counts.lost, counts.late + counts.deadlines);
  }
  return text;
}

std::string governor_text(const SwarmStatus& status) {
  if (status.mode != "auto") return "ships whatever a worker holds";
  const swarm::Governor::View& governor = status.governor;
  const auto score = [](double value) {
    return value == 0 ? std::string("not measured") : fmt::format("{:.2f}", value);
  };
  return fmt::format(
      "{}{}; time against the model of computing alone: alone {}, shipping {}; {} trials, the "
      "next in {} epochs",
      governor.mode == swarm::Governor::Mode::kShip ? "ships what pays" : "computes alone",
      governor.trial ? " (trying the other)" : "", score(governor.alone_score),
      score(governor.ship_score), governor.trials, governor.epochs_until_trial);
}

}  // namespace

std::string coverage_map(const SwarmStatus& status) {
  if (status.replicas.empty()) return "";
  std::string text = "coverage: workers per group of experts (. none, + more than 9)\n";
  for (size_t layer = 0; layer < status.replicas.size(); ++layer) {
    text += fmt::format("  layer {:>3}  ", layer);
    for (uint16_t replicas : status.replicas[layer])
      text += replicas == 0 ? '.' : replicas > 9 ? '+' : static_cast<char>('0' + replicas);
    text += '\n';
  }
  return text;
}

std::string status_text(const SwarmStatus& status) {
  const uint64_t pairs = sum(status.pairs);
  const auto count = [&](Why why) { return status.pairs[static_cast<size_t>(why)]; };
  const uint64_t remote = count(Why::kRemote) + count(Why::kHedge);
  std::string text = status.workers.empty() ? "no workers are connected\n" : workers_text(status);
  text += fmt::format(
      "\ndispatch {}: {}\nrows      {} of experts used, {:.1f} % from workers ({} after a hedge); "
      "here: {} planned, {} not held, {} late, {} refused, {} lost, {} to check\n",
      status.mode, governor_text(status), pairs, percent(remote, pairs), count(Why::kHedge),
      count(Why::kPlanned), count(Why::kHole), count(Why::kDeadline), count(Why::kRefused),
      count(Why::kLost), count(Why::kAudit));
  text += fmt::format(
      "tickets   {} issued = {} answered + {} computed here instead + {} cancelled + {} open; {} "
      "rows hedged, {} probes\n",
      status.tickets.issued, status.tickets.results, status.tickets.local_fills,
      status.tickets.cancelled, status.tickets.open, status.hedges, status.probes);
  text += fmt::format(
      "audits    {} (share {:.3g}), {} for free, {} wrong answers, {} identities quarantined\n\n",
      status.audits, status.verify_share, status.free_audits, status.wrong_answers,
      status.quarantined);
  return text + coverage_map(status);
}

Result<TraceStep> parse_trace_step(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    TraceStep step;
    step.step = json.at("step").get<uint64_t>();
    step.rows = json.at("rows").get<uint64_t>();
    step.total_us = json.at("total_us").get<uint64_t>();
    for (const auto& call : json.at("calls")) {
      KVASIR_TRY(CallRecord record, swarm::parse_record_json(call.dump()));
      step.calls.push_back(record);
    }
    return step;
  } catch (const nlohmann::json::exception& error) {
    return Error::corrupt("not a step of a trace: {}", error.what());
  }
}

std::string step_text(const TraceStep& step) {
  std::string text = fmt::format("step {}: {}, {}\n", step.step, counted(step.rows, "row"),
                                 time_text(step.total_us));
  text += fmt::format("{:>7} {:>10} {:>10} {:>10} {:>7} {:>7} {:>7}  {}\n", "layer", "experts",
                      "here", "waiting", "remote", "tickets", "hedges", "slowest answer");
  uint64_t in_calls = 0;
  for (const CallRecord& call : step.calls) {
    in_calls += call.total_us;
    text += fmt::format("{:>7} {:>10} {:>10} {:>10} {:>3}/{:<3} {:>7} {:>7}", call.layer,
                        time_text(call.total_us), time_text(call.local_us), time_text(call.wait_us),
                        call.pairs_remote, call.pairs, call.tickets, call.hedges);
    if (call.slowest != 0)
      text += fmt::format("  worker {}: {}, {} of it computing", call.slowest,
                          time_text(call.slowest_us), time_text(call.slowest_compute_us));
    text += '\n';
  }
  text += fmt::format("{:>7} {:>10}   attention, norms, router, head\n", "rest",
                      time_text(step.total_us - std::min(step.total_us, in_calls)));
  return text;
}

std::string verdict(const TraceStep& step) {
  if (step.calls.empty())
    return fmt::format("step {} took {}: no experts were asked for\n", step.step,
                       time_text(step.total_us));
  uint64_t local = 0, waiting = 0, in_calls = 0;
  const CallRecord* worst = &step.calls.front();
  for (const CallRecord& call : step.calls) {
    local += call.local_us;
    waiting += call.wait_us;
    in_calls += call.total_us;
    if (call.wait_us > worst->wait_us) worst = &call;
  }
  const uint64_t rest = step.total_us - std::min(step.total_us, in_calls);
  std::string text = fmt::format("step {} took {}: ", step.step, time_text(step.total_us));
  if (rest >= local && rest >= waiting)
    return text + fmt::format(
                      "most of it ({:.0f} %) was the backbone's own part, which workers "
                      "cannot take over\n",
                      percent(rest, step.total_us));
  if (local >= waiting)
    return text + fmt::format("most of it ({:.0f} %) went into experts computed here\n",
                              percent(local, step.total_us));
  text += fmt::format("{:.0f} % was waiting for workers, longest in layer {} ({})",
                      percent(waiting, step.total_us), worst->layer, time_text(worst->wait_us));
  const auto late = worst->why[static_cast<size_t>(Why::kDeadline)];
  if (late > 0)
    return text + fmt::format(", where {} came too late and were computed here\n",
                              counted(late, "answer"));
  if (worst->slowest == 0) return text + "\n";
  const bool computes = 2 * worst->slowest_compute_us >= worst->slowest_us;
  return text + fmt::format(" for worker {}, which {}\n", worst->slowest,
                            computes ? "was computing most of that time"
                                     : "was computing for less than half of that: the rest is the "
                                       "way and its queue");
}

}  // namespace kvasir::cli
