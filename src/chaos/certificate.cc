#include "chaos/certificate.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace kvasir::chaos {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kAllFaults = {Fault::kKill, Fault::kStall, Fault::kCut, Fault::kGarbage};
static_assert(kAllFaults.size() == kFaults);

uint64_t count_of(const Findings& findings, Fault fault) {
  return findings.faults[static_cast<size_t>(fault)];
}

uint64_t settled(const swarm::TicketCounts& tickets) {
  return tickets.results + tickets.local_fills + tickets.cancelled;
}

std::vector<std::string> honest_quarantined(const Findings& findings) {
  std::vector<std::string> honest;
  for (const std::string& key : findings.status->quarantined_keys) {
    if (std::none_of(findings.liar_keys.begin(), findings.liar_keys.end(),
                     [&](const std::string& liar) { return key.starts_with(liar); }))
      honest.push_back(key);
  }
  return honest;
}

void object_to_answer(const Findings& findings, std::vector<std::string>& objections) {
  if (!findings.backbone_end.empty())
    objections.push_back(fmt::format("the backbone failed: {}", findings.backbone_end));
  if (!findings.same_text) objections.emplace_back("the text is another one");
  if (findings.hash_swarm.empty() || findings.hash_swarm != findings.hash_alone)
    objections.emplace_back("the hash of the logits is another one");
  for (const std::string& crash : findings.crashes)
    objections.push_back(fmt::format("a worker crashed: {}", crash));
}

void object_to_swarm(const Findings& findings, const Requirements& requirements,
                     std::vector<std::string>& objections) {
  if (!findings.status) {
    objections.emplace_back("the backbone left no report");
    return;
  }
  const swarm::SwarmStatus& status = *findings.status;
  if (status.tickets.open != 0 || settled(status.tickets) != status.tickets.issued)
    objections.push_back(fmt::format("{} tickets were issued, {} settled, {} are open",
                                     status.tickets.issued, settled(status.tickets),
                                     status.tickets.open));
  for (const std::string& key : honest_quarantined(findings))
    objections.push_back(fmt::format("worker {} was honest and is in quarantine", key));
  if (const double share = share_of_workers(status); share < requirements.share_min)
    objections.push_back(
        fmt::format("workers computed {:.1f} % of the rows, at least {:.1f} % wanted", 100 * share,
                    100 * requirements.share_min));
  if (requirements.plan.lie > 0 && requirements.verify == "all" && status.wrong_answers == 0)
    objections.emplace_back("not enough faults: no lie was found");
}

void object_to_faults(const Findings& findings, const Requirements& requirements,
                      std::vector<std::string>& objections) {
  const auto want = [&](std::string_view what, bool asked, uint64_t count, uint64_t least) {
    if (asked && count < least)
      objections.push_back(
          fmt::format("not enough faults: {} {}, at least {} wanted", count, what, least));
  };
  const FaultPlan& plan = requirements.plan;
  want("kills", plan.has(Fault::kKill), count_of(findings, Fault::kKill), requirements.kills_min);
  want("stalls", plan.has(Fault::kStall), count_of(findings, Fault::kStall),
       requirements.stalls_min);
  want("cuts", plan.has(Fault::kCut), count_of(findings, Fault::kCut), 1);
  want("garbage messages", plan.has(Fault::kGarbage), count_of(findings, Fault::kGarbage), 1);
  want("damaged messages", plan.corrupt > 0, findings.corrupted, requirements.corrupted_min);
}

// Against the pace, which an undisturbed swarm keeps.
double slowdown(const Findings& findings) {
  return findings.pace > 0 && findings.tokens > 0
             ? findings.seconds * findings.pace / static_cast<double>(findings.tokens)
             : 0;
}

std::string faults_text(const Findings& findings, const FaultPlan& plan) {
  std::vector<std::string> parts;
  for (Fault fault : kAllFaults) {
    if (plan.has(fault))
      parts.push_back(fmt::format("{} {}", count_of(findings, fault), fault_name(fault)));
  }
  if (plan.corrupt > 0)
    parts.push_back(
        fmt::format("{} of {} messages damaged", findings.corrupted, findings.messages));
  if (plan.lie > 0 && findings.status)
    parts.push_back(fmt::format("{} lies found", findings.status->wrong_answers));
  if (plan.reorder) parts.emplace_back("answers out of order");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "none" : text;
}

std::string status_text(const swarm::SwarmStatus& status) {
  const swarm::TicketCounts& tickets = status.tickets;
  return fmt::format(
      "from workers   {:.1f} % of the expert rows\n"
      "tickets        {} issued = {} results + {} filled here + {} cancelled; {} open\n"
      "audits         {} before use, {} free, {} wrong answers, {} in quarantine\n",
      100 * share_of_workers(status), tickets.issued, tickets.results, tickets.local_fills,
      tickets.cancelled, tickets.open, status.audits, status.free_audits, status.wrong_answers,
      status.quarantined_keys.size());
}

Json status_json(const swarm::SwarmStatus& status) {
  const swarm::TicketCounts& tickets = status.tickets;
  Json pairs;
  for (size_t why = 0; why < swarm::kWhys; ++why)
    pairs[std::string(swarm::why_name(static_cast<swarm::Why>(why)))] = status.pairs[why];
  return {{"share_from_workers", share_of_workers(status)},
          {"pairs", std::move(pairs)},
          {"tickets",
           {{"issued", tickets.issued},
            {"results", tickets.results},
            {"local_fills", tickets.local_fills},
            {"cancelled", tickets.cancelled},
            {"open", tickets.open}}},
          {"audits", status.audits},
          {"free_audits", status.free_audits},
          {"wrong_answers", status.wrong_answers},
          {"quarantined", status.quarantined_keys}};
}

}  // namespace

bool FaultPlan::has(Fault fault) const {
  switch (fault) {
    case Fault::kKill:
      return rates.kill > 0;
    case Fault::kStall:
      return rates.stall > 0;
    case Fault::kCut:
      return rates.cut > 0;
    case Fault::kGarbage:
      return rates.garbage > 0;
  }
  return false;
}

double share_of_workers(const swarm::SwarmStatus& status) {
  const uint64_t all = std::accumulate(status.pairs.begin(), status.pairs.end(), uint64_t{0});
  uint64_t remote = 0;
  for (size_t why = 0; why < swarm::kWhys; ++why)
    if (swarm::is_remote(static_cast<swarm::Why>(why))) remote += status.pairs[why];
  return all == 0 ? 0 : static_cast<double>(remote) / static_cast<double>(all);
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(at, 1, values.size()) - 1];
}

std::vector<std::string> objections(const Findings& findings, const Requirements& requirements) {
  std::vector<std::string> all;
  object_to_answer(findings, all);
  object_to_swarm(findings, requirements, all);
  object_to_faults(findings, requirements, all);
  return all;
}

std::string certificate_text(const Findings& findings, const Requirements& requirements) {
  const auto wrong = objections(findings, requirements);
  std::string text =
      fmt::format("chaos          {}, seed {}, {} tokens\nfaults         {}\n", findings.mode,
                  findings.seed, findings.tokens, faults_text(findings, requirements.plan));
  if (findings.status) text += status_text(*findings.status);
  if (!findings.recoveries_s.empty())
    text += fmt::format(
        "next token     {:.0f} ms after a kill, stall or cut (p50), {:.0f} ms (p99)\n",
        1e3 * quantile(findings.recoveries_s, 0.5), 1e3 * quantile(findings.recoveries_s, 0.99));
  text += fmt::format("speed          {:.1f} s, {:.2f} times what the pace of {} tokens/s takes\n",
                      findings.seconds, slowdown(findings), findings.pace);
  text += fmt::format("logits alone   {}\nlogits, swarm  {}\n",
                      findings.hash_alone.empty() ? "none" : findings.hash_alone,
                      findings.hash_swarm.empty() ? "none" : findings.hash_swarm);
  for (const std::string& objection : wrong) text += fmt::format("FAILED         {}\n", objection);
  if (wrong.empty()) text += "held           the same text, the same bits, every ticket settled\n";
  return text;
}

std::string certificate_json(const Findings& findings, const Requirements& requirements) {
  Json faults;
  for (Fault fault : kAllFaults) faults[std::string(fault_name(fault))] = count_of(findings, fault);
  faults["corrupted"] = findings.corrupted;
  faults["messages"] = findings.messages;
  faults["reorder"] = requirements.plan.reorder;
  const auto wrong = objections(findings, requirements);
  const Json json = {{"held", wrong.empty()},
                     {"objections", wrong},
                     {"mode", findings.mode},
                     {"seed", findings.seed},
                     {"tokens", findings.tokens},
                     {"workers", findings.workers},
                     {"verify", requirements.verify},
                     {"same_text", findings.same_text},
                     {"logits_hash_alone", findings.hash_alone},
                     {"logits_hash_swarm", findings.hash_swarm},
                     {"backbone_failure", findings.backbone_end},
                     {"faults", std::move(faults)},
                     {"worker_crashes", findings.crashes},
                     {"worker_exits", findings.exits},
                     {"swarm", findings.status ? status_json(*findings.status) : Json()},
                     {"recovery_ms",
                      {{"p50", 1e3 * quantile(findings.recoveries_s, 0.5)},
                       {"p99", 1e3 * quantile(findings.recoveries_s, 0.99)},
                       {"faults", findings.recoveries_s.size()}}},
                     {"seconds", findings.seconds},
                     {"pace", findings.pace},
                     {"slowdown", slowdown(findings)}};
  return json.dump() + "\n";
}

}  // namespace kvasir::chaos
