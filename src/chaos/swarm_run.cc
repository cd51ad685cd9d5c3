#include "chaos/swarm_run.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "chaos/child_process.h"
#include "chaos/fault_proxy.h"
#include "swarm/status_json.h"
#include "wire/jitter.h"

namespace kvasir::chaos {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Nothing here is waited for longer than that at once: stopped workers go on, dead ones start.
constexpr int kRoundMs = 10;
// A worker that ended is there again after so long, as if somebody watched over it.
constexpr auto kRestartAfter = milliseconds(300);
// How long a stopped worker stands still.
constexpr uint64_t kStallMsMin = 200, kStallMsMax = 1000;
// A fault waits so long for the moment at which its worker gets something to do.
constexpr auto kMomentWithin = milliseconds(250);
// The backbone has to begin, to compute its next token, and to end within so long.
constexpr auto kNextTokenWithin = std::chrono::seconds(60);
constexpr auto kFirstTokenWithin = std::chrono::seconds(180);
constexpr auto kAloneWithin = std::chrono::minutes(60);
// Workers that end on their own, while the prompt is computed and in all: more are no accident.
constexpr uint64_t kExitsAtFirstMax = 20, kExitsMax = 1000;
constexpr size_t kSaidBytesMax = 2000;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Error told_to_stop() {
  return Error::io("told to stop");
}

// The end of what somebody said.
std::string last_words(const std::string& text) {
  const size_t skipped = text.size() > kSaidBytesMax ? text.size() - kSaidBytesMax : 0;
  return text.substr(skipped);
}

// "note:  worker 0123456789abcdef: 64 experts of ...": the first digits of its key.
std::optional<std::string> key_in(std::string_view line) {
  constexpr std::string_view kBefore = "worker ";
  constexpr size_t kDigits = 16;
  const size_t at = line.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view key = line.substr(at + kBefore.size(), kDigits);
  if (key.size() < kDigits || key.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  return std::string(key);
}

// "swarm:  workers join with  kvasir worker --connect ws://127.0.0.1:40123"
std::optional<uint16_t> port_in(std::string_view line) {
  constexpr std::string_view kBefore = "--connect ws://127.0.0.1:";
  const size_t at = line.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  uint16_t port = 0;
  for (char c : line.substr(at + kBefore.size())) {
    if (c < '0' || c > '9') break;
    port = static_cast<uint16_t>(port * 10 + (c - '0'));
  }
  return port;
}

struct Worker {
  std::vector<std::string> arguments;
  std::string chaos;  // value of the variable that makes it misbehave; empty: none
  bool lies = false;
  std::unique_ptr<FaultProxy> proxy;
  std::unique_ptr<ChildProcess> process;  // none: waits to be started
  Clock::time_point start_at{};
  bool killed = false;
  std::optional<Clock::time_point> goes_on_at;  // stands still until then
};

// A fault whose moment has not come.
struct PendingFault {
  PlannedFault planned;
  size_t worker = 0;
  uint64_t messages_seen = 0;  // strikes when its worker has got another one
  Clock::time_point at;        // or at this time
};

// One run. One thread.
class SwarmRun {
 public:
  SwarmRun(SignalWatch& signals, const SwarmSetup& setup)
      : signals_(signals),
        setup_(setup),
        random_(setup.seed),
        schedule_(make_schedule(setup.plan.rates, setup.tokens, random_.below(UINT64_MAX))) {}

  Result<SwarmOutput> run() {
    KVASIR_TRY_VOID(start_backbone());
    KVASIR_TRY_VOID(start_workers());
    progress_at_ = Clock::now();
    while (!backbone_->look()) {
      KVASIR_TRY_VOID(one_round());
      read_trace();
      KVASIR_TRY_VOID(look_after_workers());
      strike();
      if (is_stuck()) {
        findings_.backbone_end =
            fmt::format("no token for {:.0f} s", seconds_between(progress_at_, Clock::now()));
        break;
      }
    }
    return collect();
  }

 private:
  std::string report_path() const { return setup_.folder + "/report.json"; }

  Result<void> start_backbone() {
    ChildSetup child;
    child.arguments = setup_.backbone;
    for (std::string word :
         {std::string("--swarm-listen"), std::string("127.0.0.1:0"), std::string("--dispatch"),
          std::string("always"), std::string("--verify"), setup_.verify,
          std::string("--wait-workers"), std::to_string(setup_.workers.size()),
          std::string("--pace"), std::to_string(setup_.pace), std::string("--swarm-report"),
          report_path(), std::string("--trace"), std::string(kTracePath)})
      child.arguments.push_back(std::move(word));
    child.has_trace = true;
    KVASIR_TRY(backbone_, ChildProcess::start(child));
    const Clock::time_point until = Clock::now() + kFirstTokenWithin;
    while (port_ == 0) {
      if (backbone_->look() || Clock::now() > until)
        return Error::io("the backbone did not start; it said:\n{}",
                         last_words(backbone_->err().text()));
      KVASIR_TRY_VOID(one_round());
      for (const std::string& line : backbone_->err().take_lines())
        if (const auto port = port_in(line)) port_ = *port;
    }
    return {};
  }

  Result<void> start_workers() {
    const FaultPlan& plan = setup_.plan;
    const size_t liar = random_.below(setup_.workers.size());
    for (size_t i = 0; i < setup_.workers.size(); ++i) {
      Worker worker;
      KVASIR_TRY(worker.proxy, FaultProxy::listen(port_, random_.below(UINT64_MAX)));
      worker.lies = plan.lie > 0 && i == liar;
      worker.arguments = {"worker", "--connect",
                          fmt::format("ws://127.0.0.1:{}", worker.proxy->port()), "--threads", "1"};
      // A key that was convicted is refused for good: who lies on comes back as somebody else.
      if (worker.lies) {
        worker.arguments.emplace_back("--ephemeral");
      } else {
        worker.arguments.emplace_back("--identity");
        worker.arguments.push_back(fmt::format("{}/worker-{}.key", setup_.folder, i));
      }
      worker.arguments.insert(worker.arguments.end(), setup_.workers[i].begin(),
                              setup_.workers[i].end());
      if (plan.reorder) worker.chaos = "reorder";
      if (worker.lies)
        worker.chaos += fmt::format("{}lie={}", worker.chaos.empty() ? "" : ",", plan.lie);
      workers_.push_back(std::move(worker));
      KVASIR_TRY_VOID(start(workers_.back()));
    }
    return {};
  }

  Result<void> start(Worker& worker) {
    ChildSetup child;
    child.arguments = worker.arguments;
    if (worker.chaos.empty())
      child.without_variables = {"KVASIR_CHAOS"};
    else
      child.environment["KVASIR_CHAOS"] =
          fmt::format("{},seed={}", worker.chaos, random_.below(UINT64_MAX));
    KVASIR_TRY(worker.process, ChildProcess::start(child));
    worker.killed = false;
    worker.goes_on_at.reset();
    return {};
  }

  Result<void> one_round() {
    PollSet polled;
    signals_.add_to(polled);
    backbone_->add_to(polled);
    for (Worker& worker : workers_) {
      worker.proxy->add_to(polled);
      if (worker.process) worker.process->add_to(polled);
    }
    polled.wait(kRoundMs);
    if (signals_.stop_requested()) return told_to_stop();
    return {};
  }

  // A line is a step: the prompt, then a token each.
  void read_trace() {
    const size_t count = backbone_->trace().take_lines().size();
    backbone_->trace().drop_taken();
    if (count == 0) return;
    const Clock::time_point now = Clock::now();
    if (steps_ == 0) {
      first_step_at_ = now;
      for (Worker& worker : workers_) worker.proxy->set_corrupt(setup_.plan.corrupt);
    }
    steps_ += count;
    progress_at_ = now;
    for (Clock::time_point fault : unrecovered_)
      findings_.recoveries_s.push_back(seconds_between(fault, now));
    unrecovered_.clear();
    for (; next_ < schedule_.size() && schedule_[next_].token < steps_; ++next_)
      plan_fault(schedule_[next_], now);
  }

  Result<void> look_after_workers() {
    const Clock::time_point now = Clock::now();
    for (Worker& worker : workers_) {
      if (!worker.process) {
        if (now >= worker.start_at) KVASIR_TRY_VOID(start(worker));
        continue;
      }
      if (worker.goes_on_at && now >= *worker.goes_on_at) {
        worker.process->signal(SIGCONT);
        worker.goes_on_at.reset();
      }
      if (const auto end = worker.process->look()) {
        KVASIR_TRY_VOID(on_end(worker, *end));
        worker.process.reset();
        worker.start_at = now + kRestartAfter;
      }
    }
    return {};
  }

  // Refusals that come of damaged handshakes, or of a lie, end a worker; it comes back.
  Result<void> on_end(Worker& worker, const ChildEnd& end) {
    note_keys(worker);
    if (worker.killed && end.signal == SIGKILL) return {};
    const std::string said = last_words(worker.process->err().text());
    if (!end.exit_code) {
      findings_.crashes.push_back(fmt::format("{}; it said:\n{}", end_text(end), said));
      return {};
    }
    constexpr int kRefused = 4;
    const uint64_t exits_max = steps_ == 0 ? kExitsAtFirstMax : kExitsMax;
    if (++findings_.exits <= exits_max && *end.exit_code == kRefused) return {};
    return Error::io("a worker ended with {}; it said:\n{}", end_text(end), said);
  }

  void note_keys(Worker& worker) {
    if (!worker.lies || !worker.process) return;
    for (const std::string& line : worker.process->err().take_lines())
      if (auto key = key_in(line)) findings_.liar_keys.push_back(std::move(*key));
  }

  // Right after a token the swarm rests, by its pace. Half of the faults wait for their worker's
  // next message, so that they meet it at work; the others come at any time before the next token.
  void plan_fault(const PlannedFault& planned, Clock::time_point now) {
    PendingFault pending;
    pending.planned = planned;
    pending.worker = (planned.chance >> 32) % workers_.size();
    const auto period_us = 1'000'000 / setup_.pace;
    if (planned.chance % 2 == 0) {
      pending.messages_seen = workers_[pending.worker].proxy->messages_to_worker();
      pending.at = now + kMomentWithin;
    } else {
      pending.messages_seen = UINT64_MAX;
      pending.at = now + std::chrono::microseconds(planned.chance / 2 % period_us);
    }
    pending_.push_back(pending);
  }

  void strike() {
    const Clock::time_point now = Clock::now();
    std::vector<PendingFault> later;
    for (const PendingFault& pending : pending_) {
      const bool is_moment =
          now >= pending.at ||
          workers_[pending.worker].proxy->messages_to_worker() > pending.messages_seen;
      if (!is_moment || !strike_from(pending.planned, pending.worker)) later.push_back(pending);
    }
    pending_ = std::move(later);
  }

  // This worker, or the next one that it can be done to. False: there is none now.
  bool strike_from(const PlannedFault& planned, size_t first) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (!strike_one(planned, workers_[(first + i) % workers_.size()])) continue;
      ++findings_.faults[static_cast<size_t>(planned.fault)];
      if (planned.fault != Fault::kGarbage) unrecovered_.push_back(Clock::now());
      return true;
    }
    return false;
  }

  bool strike_one(const PlannedFault& planned, Worker& worker) {
    const uint64_t chance = planned.chance >> 8;
    const bool is_well = worker.process && !worker.killed && !worker.goes_on_at;
    switch (planned.fault) {
      case Fault::kKill:
        if (!is_well) return false;
        worker.process->signal(SIGKILL);
        worker.killed = true;
        return true;
      case Fault::kStall:
        if (!is_well) return false;
        worker.process->signal(SIGSTOP);
        worker.goes_on_at =
            Clock::now() + milliseconds(kStallMsMin + chance % (kStallMsMax - kStallMsMin));
        return true;
      case Fault::kCut:
        return worker.proxy->cut();
      case Fault::kGarbage:
        return worker.proxy->inject(chance % 2 == 0 ? FaultProxy::Towards::kBackbone
                                                    : FaultProxy::Towards::kWorker);
    }
    return false;
  }

  bool is_stuck() const {
    return Clock::now() - progress_at_ > (steps_ == 0 ? kFirstTokenWithin : kNextTokenWithin);
  }

  Result<SwarmOutput> collect() {
    findings_.seconds = steps_ == 0 ? 0 : seconds_between(first_step_at_, progress_at_);
    const auto end = backbone_->look();
    read_trace();
    if (end && end->exit_code != 0) findings_.backbone_end = end_text(*end);
    if (!findings_.backbone_end.empty())
      findings_.backbone_end += "; it said:\n" + last_words(backbone_->err().text());
    for (Worker& worker : workers_) {
      note_keys(worker);
      findings_.corrupted += worker.proxy->corrupted();
      findings_.messages += worker.proxy->messages();
    }
    findings_.workers = setup_.workers.size();
    findings_.seed = setup_.seed;
    findings_.pace = static_cast<double>(setup_.pace);
    findings_.tokens = std::min(steps_, setup_.tokens);
    std::ifstream report(report_path(), std::ios::binary);
    const std::string json{std::istreambuf_iterator<char>(report), {}};
    if (auto status = swarm::parse_status_json(json)) findings_.status = std::move(*status);
    SwarmOutput output;
    output.out = backbone_->out().text();
    output.findings = std::move(findings_);
    return output;
  }

  SignalWatch& signals_;
  const SwarmSetup& setup_;
  wire::Jitter random_;
  const std::vector<PlannedFault> schedule_;
  size_t next_ = 0;  // of the schedule
  std::vector<PendingFault> pending_;
  std::unique_ptr<ChildProcess> backbone_;
  uint16_t port_ = 0;
  std::vector<Worker> workers_;
  uint64_t steps_ = 0;
  Clock::time_point first_step_at_{}, progress_at_{};
  std::vector<Clock::time_point> unrecovered_;
  Findings findings_;
};

}  // namespace

Result<std::string> run_alone(SignalWatch& signals, const std::vector<std::string>& arguments) {
  ChildSetup setup;
  setup.arguments = arguments;
  KVASIR_TRY(const auto child, ChildProcess::start(setup));
  const Clock::time_point until = Clock::now() + kAloneWithin;
  while (!child->look()) {
    PollSet polled;
    signals.add_to(polled);
    child->add_to(polled);
    polled.wait(kRoundMs);
    if (signals.stop_requested()) return told_to_stop();
    if (Clock::now() > until) return Error::io("kvasir {} took too long", arguments.front());
  }
  if (child->look()->exit_code == 0) return child->out().text();
  return Error::io("kvasir {} ended with {}; it said:\n{}", arguments.front(),
                   end_text(*child->look()), last_words(child->err().text()));
}

Result<SwarmOutput> run_swarm(SignalWatch& signals, const SwarmSetup& setup) {
  return SwarmRun(signals, setup).run();
}

}  // namespace kvasir::chaos
