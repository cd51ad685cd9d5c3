#include "measure/model_speed.h"

#include <time.h>

#include <algorithm>
#include <optional>
#include <random>

#include "measure/counting_experts.h"

namespace kvasir::measure {
namespace {

// Before the clock runs, so that buffers have grown and pages are mapped.
constexpr size_t kWarmUpSteps = 1;

// Wall and processor time from here on.
class Stopwatch {
 public:
  double seconds() const { return now(CLOCK_MONOTONIC) - wall_; }
  double processor_seconds() const { return now(CLOCK_PROCESS_CPUTIME_ID) - processor_; }

 private:
  static double now(clockid_t clock) {
    timespec time = {};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  double wall_ = now(CLOCK_MONOTONIC);
  double processor_ = now(CLOCK_PROCESS_CPUTIME_ID);
};

// One engine with its threads, and runs on it.
class Bench {
 public:
  Bench(const model::Model& model, const kernels::KernelTable& kernels,
        const MakeExperts& make_experts, const Plan& plan, size_t threads, const Watcher& watcher)
      : model_(model),
        plan_(plan),
        watcher_(watcher),
        peak_(kernels::machine_peak(kernels)),
        pool_(threads),
        experts_(make_experts(model, pool_)),
        counting_(*experts_, model.hp.n_layers, model.hp.n_experts),
        engine_(model, kernels, pool_, counting_, engine_options(plan)),
        logits_(plan.sequences_max() * model.hp.n_vocab),
        random_(plan.seed) {
    range_.threads = pool_.threads();
  }

  ThreadPool& pool() { return pool_; }
  void measure_machine(ByteSpan buffer) {
    range_.add(measure::measure_machine(peak_, pool_, buffer, plan_.mapped));
  }
  const MachineRange& machine() const { return range_; }

  // Nothing if the watcher said stop.
  Result<std::optional<ModelRun>> decode(size_t batch);
  Result<std::optional<ModelRun>> prefill(size_t tokens);

 private:
  using Sequences = std::vector<std::unique_ptr<engine::Sequence>>;
  enum class Logits : uint8_t { kNone, kLastRow, kEveryRow };

  static engine::EngineOptions engine_options(const Plan& plan) {
    engine::EngineOptions options = plan.engine;
    options.rows_max = plan.rows_max();
    return options;
  }
  int32_t random_token() { return static_cast<int32_t>(random_() % model_.hp.n_vocab); }

  // One call: the next `rows_each` tokens of every sequence. False if the watcher said stop.
  Result<bool> forward(std::span<const std::unique_ptr<engine::Sequence>> sequences,
                       size_t rows_each, Logits logits);
  // `tokens` tokens of one sequence, in chunks.
  Result<bool> feed(std::span<const std::unique_ptr<engine::Sequence>> sequence, size_t tokens,
                    Logits of_last_chunk);
  void start_counting();
  // A repetition that computed so many tokens.
  void add_repetition(const Stopwatch& watch, size_t tokens);
  // The figures of a run; speeds_ has one entry per repetition.
  ModelRun finish(Kind kind, size_t size) const;

  const model::Model& model_;
  const Plan& plan_;
  const Watcher& watcher_;
  const kernels::MachinePeak& peak_;
  ThreadPool pool_;
  std::unique_ptr<expert::ExpertService> experts_;
  CountingExperts counting_;
  engine::Engine engine_;
  std::vector<float> logits_;
  std::mt19937_64 random_;
  MachineRange range_;

  // Of the run under way.
  std::vector<engine::Row> rows_;
  std::vector<double> speeds_;
  Traffic traffic_;
  double seconds_ = 0, processor_seconds_ = 0;
  uint64_t tokens_ = 0, layers_ = 0, distinct_ = 0;
};

void Bench::start_counting() {
  speeds_.clear();
  traffic_ = {};
  seconds_ = processor_seconds_ = 0;
  tokens_ = layers_ = distinct_ = 0;
}

void Bench::add_repetition(const Stopwatch& watch, size_t tokens) {
  const double seconds = watch.seconds();
  speeds_.push_back(static_cast<double>(tokens) / seconds);
  seconds_ += seconds;
  processor_seconds_ += watch.processor_seconds();
}

Result<bool> Bench::forward(std::span<const std::unique_ptr<engine::Sequence>> sequences,
                            size_t rows_each, Logits logits) {
  rows_.clear();
  for (const auto& sequence : sequences)
    for (size_t row = 0; row < rows_each; ++row)
      rows_.push_back({sequence.get(), random_token(), logits == Logits::kEveryRow});
  if (logits == Logits::kLastRow) rows_.back().wants_logits = true;
  const size_t n_logits = logits == Logits::kNone      ? 0
                          : logits == Logits::kLastRow ? 1
                                                       : rows_.size();
  counting_.clear();
  KVASIR_TRY(auto failures,
             engine_.forward(rows_, std::span(logits_).first(n_logits * model_.hp.n_vocab)));
  if (!failures.empty()) return std::move(failures.front().error);

  traffic_ += call_traffic(
      model_, plan_.engine.kv_type,
      {rows_.size(), n_logits, sequences.size(), sequences.front()->position()}, counting_.use());
  tokens_ += rows_.size();
  for (const ExpertUse& use : counting_.use()) {
    layers_ += use.pairs != 0 ? 1 : 0;
    distinct_ += use.distinct;
  }
  return watcher_(rows_.size());
}

Result<bool> Bench::feed(std::span<const std::unique_ptr<engine::Sequence>> sequence, size_t tokens,
                         Logits of_last_chunk) {
  for (size_t done = 0; done < tokens;) {
    const size_t chunk = std::min(plan_.engine.rows_max, tokens - done);
    done += chunk;
    KVASIR_TRY(const bool go_on,
               forward(sequence, chunk, done == tokens ? of_last_chunk : Logits::kNone));
    if (!go_on) return false;
  }
  return true;
}

Result<std::optional<ModelRun>> Bench::decode(size_t batch) {
  Sequences sequences(batch);
  for (auto& sequence : sequences) {
    KVASIR_TRY(sequence, engine_.new_sequence(plan_.context()));
    KVASIR_TRY(const bool go_on, feed(std::span(&sequence, 1), plan_.depth, Logits::kNone));
    if (!go_on) return std::nullopt;
  }
  for (size_t step = 0; step < kWarmUpSteps; ++step) {
    KVASIR_TRY(const bool go_on, forward(sequences, 1, Logits::kEveryRow));
    if (!go_on) return std::nullopt;
  }
  start_counting();
  for (size_t repetition = 0; repetition < plan_.repetitions; ++repetition) {
    const Stopwatch watch;
    for (size_t step = 0; step < plan_.steps; ++step) {
      KVASIR_TRY(const bool go_on, forward(sequences, 1, Logits::kEveryRow));
      if (!go_on) return std::nullopt;
    }
    add_repetition(watch, plan_.steps * batch);
  }
  return finish(Kind::kDecode, batch);
}

Result<std::optional<ModelRun>> Bench::prefill(size_t tokens) {
  start_counting();
  for (size_t repetition = 0; repetition < plan_.repetitions; ++repetition) {
    Sequences sequence(1);
    KVASIR_TRY(sequence.front(), engine_.new_sequence(plan_.context()));
    const Stopwatch watch;
    KVASIR_TRY(const bool go_on, feed(sequence, tokens, Logits::kLastRow));
    if (!go_on) return std::nullopt;
    add_repetition(watch, tokens);
  }
  return finish(Kind::kPrefill, tokens);
}

ModelRun Bench::finish(Kind kind, size_t size) const {
  const auto per_token = [&](uint64_t all) {
    return static_cast<double>(all) / static_cast<double>(tokens_);
  };
  ModelRun run;
  run.kind = kind;
  run.size = size;
  run.threads = range_.threads;
  run.tokens_per_s = spread_of(speeds_);
  run.dense_bytes = per_token(traffic_.dense);
  run.expert_bytes = per_token(traffic_.experts);
  run.cache_bytes = per_token(traffic_.caches);
  run.operations = per_token(traffic_.operations);
  run.distinct_experts = static_cast<double>(distinct_) / static_cast<double>(layers_);
  run.processor_share = processor_seconds_ / (seconds_ * static_cast<double>(run.threads));
  return run;
}

}  // namespace

size_t Plan::rows_max() const {
  return std::max(engine.rows_max, sequences_max());
}

size_t Plan::sequences_max() const {
  return decode.empty() ? 1 : *std::max_element(decode.begin(), decode.end());
}

size_t Plan::context() const {
  size_t positions = depth + kWarmUpSteps + steps * repetitions;
  for (size_t tokens : prefill) positions = std::max(positions, tokens);
  return positions;
}

uint64_t Plan::tokens() const {
  uint64_t all = 0;
  for (size_t batch : decode) all += batch * (depth + kWarmUpSteps + steps * repetitions);
  for (size_t length : prefill) all += length * repetitions;
  return all * threads.size();
}

Spread spread_of(std::vector<double> values) {
  KVASIR_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

void MachineRange::add(const MachineSpeed& speed) {
  const auto include = [&](double MachineSpeed::*member) {
    const bool is_first = best.*member == 0;
    worst.*member = is_first ? speed.*member : std::min(worst.*member, speed.*member);
    best.*member = std::max(best.*member, speed.*member);
  };
  include(&MachineSpeed::read_bytes_per_s);
  include(&MachineSpeed::mapped_bytes_per_s);
  include(&MachineSpeed::int8_operations_per_s);
}

const MachineRange& Report::machine_of(const ModelRun& run) const {
  const auto found = std::find_if(machine.begin(), machine.end(), [&](const MachineRange& range) {
    return range.threads == run.threads;
  });
  KVASIR_CHECK(found != machine.end());
  return *found;
}

Fractions fractions(const ModelRun& run, const MachineRange& machine) {
  const double by_reading = machine.best.read_bytes_per_s / run.bytes();
  const double by_computing = machine.best.int8_operations_per_s / run.operations;
  return {run.tokens_per_s.median / by_reading, run.tokens_per_s.median / by_computing, by_reading,
          by_computing};
}

Result<Report> measure_model(const model::Model& model, const kernels::KernelTable& kernels,
                             const MakeExperts& make_experts, const Plan& plan,
                             const Watcher& watcher) {
  Report report;
  std::optional<ReadBuffer> buffer;
  for (size_t threads : plan.threads) {
    Bench bench(model, kernels, make_experts, plan, threads, watcher);
    if (!buffer) {
      const size_t most = *std::max_element(plan.threads.begin(), plan.threads.end());
      KVASIR_TRY(ReadBuffer created, ReadBuffer::create(read_buffer_bytes(most), bench.pool()));
      buffer.emplace(std::move(created));
    }
    bench.measure_machine(buffer->bytes());
    const auto take = [&](Result<std::optional<ModelRun>> run) -> Result<bool> {
      if (!run) return std::move(run.error());
      if (!*run) return false;
      report.runs.push_back(**run);
      bench.measure_machine(buffer->bytes());
      return true;
    };
    for (size_t batch : plan.decode) {
      KVASIR_TRY(const bool go_on, take(bench.decode(batch)));
      report.stopped |= !go_on;
      if (report.stopped) return report;
    }
    for (size_t tokens : plan.prefill) {
      KVASIR_TRY(const bool go_on, take(bench.prefill(tokens)));
      report.stopped |= !go_on;
      if (report.stopped) return report;
    }
    report.machine.push_back(bench.machine());
  }
  return report;
}

}  // namespace kvasir::measure
