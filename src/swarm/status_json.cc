#include "swarm/status_json.h"

#include <nlohmann/json.hpp>

namespace kvasir::swarm {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kAllWhys = {Why::kRemote,   Why::kHedge,   Why::kPlanned, Why::kHole,
                                 Why::kDeadline, Why::kRefused, Why::kLost,    Why::kAudit};
static_assert(kAllWhys.size() == kWhys);

template <typename Count>
Json by_why(const std::array<Count, kWhys>& counts) {
  Json json;
  for (Why why : kAllWhys) json[std::string(why_name(why))] = counts[static_cast<size_t>(why)];
  return json;
}

template <typename Count>
void read_by_why(const Json& json, std::array<Count, kWhys>& counts) {
  for (Why why : kAllWhys)
    counts[static_cast<size_t>(why)] = json.value(std::string(why_name(why)), Count{0});
}

Json counts_json(const WorkerCounts& counts) {
  return {{"tickets", counts.tickets},
          {"answers", counts.answers},
          {"late", counts.late},
          {"busy", counts.busy},
          {"failed", counts.failed},
          {"lost", counts.lost},
          {"deadlines", counts.deadlines},
          {"rows_used", counts.rows_used},
          {"bytes_in", counts.bytes_in},
          {"bytes_out", counts.bytes_out},
          {"compute_us", counts.compute_us},
          {"audited", counts.audited},
          {"audited_free", counts.audited_free},
          {"wrong", counts.wrong}};
}

WorkerCounts read_counts(const Json& json) {
  WorkerCounts counts;
  counts.tickets = json.value("tickets", uint64_t{0});
  counts.answers = json.value("answers", uint64_t{0});
  counts.late = json.value("late", uint64_t{0});
  counts.busy = json.value("busy", uint64_t{0});
  counts.failed = json.value("failed", uint64_t{0});
  counts.lost = json.value("lost", uint64_t{0});
  counts.deadlines = json.value("deadlines", uint64_t{0});
  counts.rows_used = json.value("rows_used", uint64_t{0});
  counts.bytes_in = json.value("bytes_in", uint64_t{0});
  counts.bytes_out = json.value("bytes_out", uint64_t{0});
  counts.compute_us = json.value("compute_us", uint64_t{0});
  counts.audited = json.value("audited", uint64_t{0});
  counts.audited_free = json.value("audited_free", uint64_t{0});
  counts.wrong = json.value("wrong", uint64_t{0});
  return counts;
}

Json worker_json(const WorkerStatus& worker) {
  Json units = Json::array();
  for (const auto& [unit, counts] : worker.units)
    units.push_back({unit.first, unit.second, counts.rows, counts.bytes});
  return {{"id", worker.id},
          {"key", worker.key},
          {"address", worker.address},
          {"build", worker.build},
          {"connected_s", worker.connected_s},
          {"experts", worker.experts},
          {"memory_mib", worker.memory_mib},
          {"draining", worker.draining},
          {"suspect", worker.suspect},
          {"open_tickets", worker.open_tickets},
          {"open_pairs", worker.open_pairs},
          {"queue_depth", worker.queue_depth},
          {"latency_p50_us", worker.latency_p50_us},
          {"latency_p99_us", worker.latency_p99_us},
          {"way_us", worker.way_us},
          {"pair_us", worker.pair_us},
          {"rows_per_s", worker.rows_per_s},
          {"counts", counts_json(worker.counts)},
          {"units", std::move(units)}};  // layer, group, rows, bytes
}

WorkerStatus read_worker(const Json& json) {
  WorkerStatus worker;
  worker.id = json.value("id", WorkerId{0});
  worker.key = json.value("key", "");
  worker.address = json.value("address", "");
  worker.build = json.value("build", "");
  worker.connected_s = json.value("connected_s", uint64_t{0});
  worker.experts = json.value("experts", uint64_t{0});
  worker.memory_mib = json.value("memory_mib", 0U);
  worker.draining = json.value("draining", false);
  worker.suspect = json.value("suspect", false);
  worker.open_tickets = json.value("open_tickets", uint64_t{0});
  worker.open_pairs = json.value("open_pairs", uint64_t{0});
  worker.queue_depth = json.value("queue_depth", uint64_t{0});
  worker.latency_p50_us = json.value("latency_p50_us", uint64_t{0});
  worker.latency_p99_us = json.value("latency_p99_us", uint64_t{0});
  worker.way_us = json.value("way_us", 0.0);
  worker.pair_us = json.value("pair_us", 0.0);
  worker.rows_per_s = json.value("rows_per_s", 0.0);
  if (json.contains("counts")) worker.counts = read_counts(json.at("counts"));
  for (const Json& unit : json.value("units", Json::array()))
    worker.units[{unit.at(0).get<uint16_t>(), unit.at(1).get<uint16_t>()}] = {
        unit.at(2).get<uint64_t>(), unit.at(3).get<uint64_t>()};
  return worker;
}

// Runs what may throw because the text is not what it should be.
template <typename T, typename Read>
Result<T> parse(std::string_view text, std::string_view what, Read read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return Error::corrupt("{}: {}", what, error.what());
  }
}

}  // namespace

std::string status_json(const SwarmStatus& status) {
  Json workers = Json::array();
  for (const WorkerStatus& worker : status.workers) workers.push_back(worker_json(worker));
  const Governor::View& governor = status.governor;
  const Json json = {{"dispatch", status.mode},
                     {"verify_share", status.verify_share},
                     {"governor",
                      {{"ships", governor.mode == Governor::Mode::kShip},
                       {"trial", governor.trial},
                       {"alone_score", governor.alone_score},
                       {"ship_score", governor.ship_score},
                       {"calls", governor.calls},
                       {"trials", governor.trials},
                       {"epochs_until_trial", governor.epochs_until_trial}}},
                     {"calls", status.calls},
                     {"pairs", by_why(status.pairs)},
                     {"tickets",
                      {{"issued", status.tickets.issued},
                       {"results", status.tickets.results},
                       {"local_fills", status.tickets.local_fills},
                       {"cancelled", status.tickets.cancelled},
                       {"open", status.tickets.open}}},
                     {"hedges", status.hedges},
                     {"probes", status.probes},
                     {"audits", status.audits},
                     {"free_audits", status.free_audits},
                     {"wrong_answers", status.wrong_answers},
                     {"disputes", status.disputes},
                     {"unknown_answers", status.unknown_answers},
                     {"known_identities", status.known_identities},
                     {"quarantined", status.quarantined_keys},
                     {"replicas", status.replicas},
                     {"holders", status.holders},
                     {"workers", std::move(workers)}};
  return json.dump();
}

Result<SwarmStatus> parse_status_json(std::string_view text) {
  return parse<SwarmStatus>(text, "status", [](const Json& json) {
    SwarmStatus status;
    status.mode = json.value("dispatch", "");
    status.verify_share = json.value("verify_share", 0.0);
    const Json& governor = json.at("governor");
    status.governor.mode =
        governor.value("ships", false) ? Governor::Mode::kShip : Governor::Mode::kAlone;
    status.governor.trial = governor.value("trial", false);
    status.governor.alone_score = governor.value("alone_score", 0.0);
    status.governor.ship_score = governor.value("ship_score", 0.0);
    status.governor.calls = governor.value("calls", uint64_t{0});
    status.governor.trials = governor.value("trials", uint64_t{0});
    status.governor.epochs_until_trial = governor.value("epochs_until_trial", uint64_t{0});
    status.calls = json.value("calls", uint64_t{0});
    read_by_why(json.at("pairs"), status.pairs);
    const Json& tickets = json.at("tickets");
    status.tickets = {tickets.value("issued", uint64_t{0}), tickets.value("results", uint64_t{0}),
                      tickets.value("local_fills", uint64_t{0}),
                      tickets.value("cancelled", uint64_t{0}), tickets.value("open", uint64_t{0})};
    status.hedges = json.value("hedges", uint64_t{0});
    status.probes = json.value("probes", uint64_t{0});
    status.audits = json.value("audits", uint64_t{0});
    status.free_audits = json.value("free_audits", uint64_t{0});
    status.wrong_answers = json.value("wrong_answers", uint64_t{0});
    status.disputes = json.value("disputes", uint64_t{0});
    status.unknown_answers = json.value("unknown_answers", uint64_t{0});
    status.known_identities = json.value("known_identities", uint64_t{0});
    status.quarantined_keys = json.value("quarantined", std::vector<std::string>());
    status.quarantined = status.quarantined_keys.size();
    status.replicas = json.value("replicas", std::vector<std::vector<uint16_t>>());
    status.holders = json.value("holders", std::vector<std::vector<std::vector<WorkerId>>>());
    for (const Json& worker : json.value("workers", Json::array()))
      status.workers.push_back(read_worker(worker));
    return status;
  });
}

std::string record_json(const CallRecord& record) {
  return Json{{"layer", record.layer},           {"rows", record.rows},
              {"pairs", record.pairs},           {"pairs_remote", record.pairs_remote},
              {"tickets", record.tickets},       {"hedges", record.hedges},
              {"why", by_why(record.why)},       {"started_us", record.started_us},
              {"total_us", record.total_us},     {"local_us", record.local_us},
              {"wait_us", record.wait_us},       {"slowest", record.slowest},
              {"slowest_us", record.slowest_us}, {"slowest_compute_us", record.slowest_compute_us}}
      .dump();
}

Result<CallRecord> parse_record_json(std::string_view text) {
  return parse<CallRecord>(text, "trace", [](const Json& json) {
    CallRecord record;
    record.layer = json.at("layer").get<uint32_t>();
    record.rows = json.value("rows", 0U);
    record.pairs = json.value("pairs", 0U);
    record.pairs_remote = json.value("pairs_remote", 0U);
    record.tickets = json.value("tickets", 0U);
    record.hedges = json.value("hedges", 0U);
    if (json.contains("why")) read_by_why(json.at("why"), record.why);
    record.started_us = json.value("started_us", uint64_t{0});
    record.total_us = json.value("total_us", uint64_t{0});
    record.local_us = json.value("local_us", uint64_t{0});
    record.wait_us = json.value("wait_us", uint64_t{0});
    record.slowest = json.value("slowest", WorkerId{0});
    record.slowest_us = json.value("slowest_us", uint64_t{0});
    record.slowest_compute_us = json.value("slowest_compute_us", uint64_t{0});
    return record;
  });
}

}  // namespace kvasir::swarm
