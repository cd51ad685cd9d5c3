#include "cli/bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/parsing.h"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;
using measure::Kind;
using measure::MachineRange;
using measure::ModelRun;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
// Of the machine's own figures: less is what a quiet machine shows from one second to the next.
constexpr double kNoticeableSpread = 0.10;

// Threads wait for each other now and then; a process that got less was in company.
constexpr double kProcessorShareMin = 0.75;

// Three significant digits, never as a power of ten.
std::string three_digits(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", share * 100);
}

// "31.2 GB/s", or "31.2 GB/s (24.0 when it was slowest)".
std::string machine_figure(double best, double worst, double unit, std::string_view unit_name) {
  std::string text = fmt::format("{} {}", three_digits(best / unit), unit_name);
  if (worst < best * (1 - kNoticeableSpread))
    text += fmt::format(" ({} when it was slowest)", three_digits(worst / unit));
  return text;
}

std::string mapped_figure(const MachineRange& range) {
  if (range.best.mapped_bytes_per_s == 0) return "";
  return ", mapped weights " + machine_figure(range.best.mapped_bytes_per_s,
                                              range.worst.mapped_bytes_per_s, kGiga, "GB/s");
}

// What the machine has: the best of all thread counts.
double best_of(const measure::Report& report, double measure::MachineSpeed::*member) {
  double best = 0;
  for (const MachineRange& range : report.machine) best = std::max(best, range.best.*member);
  return best;
}

std::string run_line(const ModelRun& run, const measure::Fractions& part) {
  const bool is_decode = run.kind == Kind::kDecode;
  const std::string spread =
      fmt::format("{}..{}", three_digits(run.tokens_per_s.min), three_digits(run.tokens_per_s.max));
  return fmt::format(
      "{:<8}{:>6}{:>8}{:>10}  {:<16}{:>9}{:>8}{:>8}{:>8}{:>8}{:>10}\n",
      is_decode ? "decode" : "prefill", run.size, run.threads,
      three_digits(run.tokens_per_s.median), spread, three_digits(run.bytes() / 1e6),
      percent(part.read), three_digits(run.operations / kGiga), percent(part.int8),
      three_digits(run.distinct_experts),
      three_digits(std::min(part.tokens_per_s_by_reading, part.tokens_per_s_by_computing)));
}

Json machine_json(const MachineRange& range) {
  return {{"threads", range.threads},
          {"read_bandwidth_gb_s", range.best.read_bytes_per_s / kGiga},
          {"read_bandwidth_gb_s_min", range.worst.read_bytes_per_s / kGiga},
          {"mapped_read_gb_s", range.best.mapped_bytes_per_s / kGiga},
          {"int8_peak_tops", range.best.int8_operations_per_s / kTera},
          {"int8_peak_tops_min", range.worst.int8_operations_per_s / kTera}};
}

Json run_json(const ModelRun& run, const measure::Fractions& part) {
  const double tokens_per_s = run.tokens_per_s.median;
  return {{run.kind == Kind::kDecode ? "batch" : "tokens", run.size},
          {"threads", run.threads},
          {"tokens_per_s", tokens_per_s},
          {"tokens_per_s_min", run.tokens_per_s.min},
          {"tokens_per_s_max", run.tokens_per_s.max},
          {"bytes_per_token", run.bytes()},
          {"dense_bytes_per_token", run.dense_bytes},
          {"expert_bytes_per_token", run.expert_bytes},
          {"cache_bytes_per_token", run.cache_bytes},
          {"processor_share", run.processor_share},
          {"distinct_experts_per_layer", run.distinct_experts},
          {"read_gb_s", tokens_per_s * run.bytes() / kGiga},
          {"read_fraction", part.read},
          {"read_bound_tokens_per_s", part.tokens_per_s_by_reading},
          {"operations_per_token", run.operations},
          {"tops", tokens_per_s * run.operations / kTera},
          {"int8_fraction", part.int8},
          {"int8_bound_tokens_per_s", part.tokens_per_s_by_computing}};
}

}  // namespace

std::string bench_text(const BenchSubject& subject, const measure::Plan& plan,
                       const measure::Report& report) {
  std::string text =
      on_one_line(fmt::format("{}: {}, {} of weights; kernels {}", subject.path, subject.model,
                              bytes_text(subject.weight_bytes), subject.kernels)) +
      "\n";
  for (const MachineRange& range : report.machine) {
    text += fmt::format(
        "machine, {}: reads {}{}, int8 {} ({})\n", counted(range.threads, "thread"),
        machine_figure(range.best.read_bytes_per_s, range.worst.read_bytes_per_s, kGiga, "GB/s"),
        mapped_figure(range),
        machine_figure(range.best.int8_operations_per_s, range.worst.int8_operations_per_s, kTera,
                       "TOP/s"),
        subject.int8_instruction);
  }
  text += fmt::format("\n{:<8}{:>6}{:>8}{:>10}  {:<16}{:>9}{:>8}{:>8}{:>8}{:>8}{:>10}\n", "run",
                      "size", "threads", "tokens/s", "(min..max)", "MB/token", "of read", "GOP/tok",
                      "of int8", "experts", "limit t/s");
  for (const ModelRun& run : report.runs)
    text += run_line(run, measure::fractions(run, report.machine_of(run)));
  text += fmt::format(
      "\ndecode: {} steps x {} after {}; prefill: x {} in chunks of {}. experts: distinct ones per "
      "layer and call.\nlimit: if only reading, or only computing, took time.\n",
      plan.steps, plan.repetitions, counted(plan.depth, "token"), plan.repetitions,
      plan.engine.rows_max);
  double least = 1;
  for (const ModelRun& run : report.runs) least = std::min(least, run.processor_share);
  if (least < kProcessorShareMin) {
    text += fmt::format(
        "note: the machine was busy: a run got {} of the processor time it could have used.\n",
        percent(least));
  }
  return text;
}

std::string bench_json(const BenchSubject& subject, const measure::Plan& plan,
                       const measure::Report& report) {
  Json json;
  json["file"] = subject.path;
  json["model"] = subject.model;
  json["weight_bytes"] = subject.weight_bytes;
  json["kernels"] = subject.kernels;
  json["int8_instruction"] = subject.int8_instruction;
  json["seed"] = plan.seed;
  json["steps"] = plan.steps;
  json["repetitions"] = plan.repetitions;
  json["depth"] = plan.depth;
  json["chunk"] = plan.engine.rows_max;
  json["read_bandwidth_gb_s"] = best_of(report, &measure::MachineSpeed::read_bytes_per_s) / kGiga;
  json["int8_peak_tops"] = best_of(report, &measure::MachineSpeed::int8_operations_per_s) / kTera;
  json["machine"] = Json::array();
  for (const MachineRange& range : report.machine) json["machine"].push_back(machine_json(range));
  json["decode"] = Json::array();
  json["prefill"] = Json::array();
  for (const ModelRun& run : report.runs) {
    json[run.kind == Kind::kDecode ? "decode" : "prefill"].push_back(
        run_json(run, measure::fractions(run, report.machine_of(run))));
  }
  // Invalid UTF-8 in a file's strings becomes U+FFFD instead of an exception.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvasir::cli
