// How fast a model runs here: decoding and prefill at chosen sizes, with what each run had to read
// and multiply, and how fast the machine was at just that in the same minutes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "measure/machine_speed.h"
#include "measure/traffic.h"

namespace kvasir::measure {

struct Plan {
  std::vector<size_t> threads;
  std::vector<size_t> decode;   // batch sizes
  std::vector<size_t> prefill;  // prompt lengths
  size_t steps = 0;             // decode steps of one repetition
  size_t depth = 0;             // tokens that every sequence holds before
  size_t repetitions = 0;
  // rows_max: rows of a prefill chunk; raised where a batch has more.
  engine::EngineOptions engine;
  uint64_t seed = 0;
  // Weights to compare the read bandwidth with, if they are in memory and too large for the caches.
  ByteSpan mapped;

  size_t rows_max() const;
  size_t sequences_max() const;
  // Positions that the longest sequence needs.
  size_t context() const;
  // Tokens that will be computed altogether, for a progress bar.
  uint64_t tokens() const;
};

// Of several repetitions.
struct Spread {
  double median = 0, min = 0, max = 0;
};
// values: at least one.
Spread spread_of(std::vector<double> values);

enum class Kind : uint8_t { kDecode, kPrefill };

struct ModelRun {
  Kind kind = Kind::kDecode;
  size_t size = 0;  // sequences of a decode step, or tokens of a prompt
  size_t threads = 0;
  Spread tokens_per_s;
  // Of one token, a share of what its call did for all. Means over all repetitions.
  double dense_bytes = 0, expert_bytes = 0, cache_bytes = 0, operations = 0;
  double distinct_experts = 0;  // per layer and call
  // Processor time the process got, of what its threads could have used. Far below 1, the machine
  // was busy with something else.
  double processor_share = 1;

  double bytes() const { return dense_bytes + expert_bytes + cache_bytes; }
};

// The machine with so many threads, measured before and after every run. What disturbs a
// measurement makes it slower, so the largest is what counts.
struct MachineRange {
  size_t threads = 0;
  MachineSpeed best, worst;

  void add(const MachineSpeed& speed);
};

struct Report {
  std::vector<MachineRange> machine;  // in the order of Plan::threads
  std::vector<ModelRun> runs;
  bool stopped = false;  // by the watcher; the rest is then of no use

  const MachineRange& machine_of(const ModelRun& run) const;
};

// How much of the machine a run used, and what the machine would allow.
struct Fractions {
  double read = 0;  // of the measured read bandwidth
  double int8 = 0;  // of the measured peak of int8 operations
  // If nothing else took time: every byte at the read bandwidth, every operation at the peak.
  double tokens_per_s_by_reading = 0;
  double tokens_per_s_by_computing = 0;
};
Fractions fractions(const ModelRun& run, const MachineRange& machine);

// Called after every forward pass with the tokens computed since the last call; false stops.
using Watcher = std::function<bool(uint64_t tokens)>;

// Wraps the experts of an engine, for one thread pool.
using MakeExperts =
    std::function<std::unique_ptr<expert::ExpertService>(const model::Model&, ThreadPool&)>;

// Token ids are uniformly random: text sampled from random weights falls into loops, and even real
// text repeats itself, which flatters caches of experts. Prefill computes the logits of the last
// position only, decoding those of every row.
Result<Report> measure_model(const model::Model& model, const kernels::KernelTable& kernels,
                             const MakeExperts& make_experts, const Plan& plan,
                             const Watcher& watcher);

}  // namespace kvasir::measure
