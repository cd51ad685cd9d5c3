// kvasir bench: how fast a model runs here, and how fast this machine could be at best.
#include "cli/bench_report.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "expert/local_expert_service.h"
#include "kernels/machine_peak.h"

namespace kvasir::cli {
namespace {

measure::Plan make_plan(const BenchOptions& options) {
  measure::Plan plan;
  plan.threads.assign(options.threads.begin(), options.threads.end());
  if (plan.threads.empty()) plan.threads.push_back(default_thread_count());
  plan.decode.assign(options.decode.begin(), options.decode.end());
  plan.prefill.assign(options.prefill.begin(), options.prefill.end());
  plan.steps = options.steps;
  plan.depth = options.depth;
  plan.repetitions = options.repetitions;
  plan.engine.rows_max = options.chunk;
  plan.engine.kv_type = options.kv_type;
  plan.seed = options.seed;
  return plan;
}

// As much of the weights as the buffer has that they are compared with. Smaller models would be
// read from the caches; larger than the memory, from the disk.
ByteSpan mapped_weights(const gguf::ModelFile& file, const measure::Plan& plan,
                        uint64_t available) {
  const size_t threads = *std::max_element(plan.threads.begin(), plan.threads.end());
  const size_t bytes = measure::read_buffer_bytes(threads);
  const ByteSpan part = file.part_file(0).bytes();
  if (part.size() < bytes || file.file_bytes() > available) return {};
  constexpr size_t kPageBytes = 4096;  // aligned loads, as from the buffer
  return part.subspan((part.size() - bytes) / kPageBytes * kPageBytes, bytes);
}

Result<void> check_memory(const model::Model& model, const measure::Plan& plan,
                          uint64_t available) {
  engine::EngineOptions options = plan.engine;
  options.rows_max = plan.rows_max();
  const engine::MemoryNeed need =
      engine::memory_need(model, options, plan.sequences_max(), plan.context());
  Result<void> fits = engine::check_fit(need, available, plan.context());
  if (!fits) return std::move(fits.error()).with_hint("use smaller batches, --depth or --chunk");
  return {};
}

Result<BenchSubject> subject_of(const model::Model& model, const kernels::KernelTable& kernels) {
  BenchSubject subject;
  subject.path = model.file->part_file(0).path();
  KVASIR_TRY(std::string_view name,
             model.file->metadata().get_string_or("general.name",
                                                  model::architecture_name(model.hp.architecture)));
  subject.model = fmt::format("{}, {}", name, counted(model.hp.n_layers, "layer"));
  subject.kernels = kernels.name;
  subject.int8_instruction = kernels::machine_peak(kernels).int8_instruction;
  subject.weight_bytes = model.file->tensor_bytes();
  return subject;
}

}  // namespace

Result<int> bench(const BenchOptions& options) {
  measure::Plan plan = make_plan(options);
  if (plan.decode.empty() && plan.prefill.empty()) {
    return Error::invalid("neither decoding nor prefill is left to measure")
        .with_hint("leave --decode or --prefill out, or give one of them a size");
  }
  KVASIR_TRY(const kernels::KernelTable* kernels, kernels::select_table());
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(const model::Model model, model::bind_model(file, kernels::is_supported));
  KVASIR_TRY(const BenchSubject subject, subject_of(model, *kernels));
  const uint64_t available = engine::available_memory();
  KVASIR_TRY_VOID(check_memory(model, plan, available));
  fmt::print(stderr, "{}", reading_note(file->tensor_bytes(), available));
  preload(*file, available);
  plan.mapped = mapped_weights(*file, plan, available);

  const measure::MakeExperts make_experts = [&](const model::Model& bound, ThreadPool& pool) {
    return std::make_unique<expert::LocalExpertService>(engine::local_experts(bound), *kernels,
                                                        pool);
  };
  const InterruptScope interrupts;
  measure::Report report;
  {
    ProgressBar bar("measuring", Unit::kTokens);
    uint64_t done = 0;
    const auto watch = [&](uint64_t tokens) {
      bar.update(done += tokens, plan.tokens());
      return !InterruptScope::requested();
    };
    KVASIR_TRY(report, measure::measure_model(model, *kernels, make_experts, plan, watch));
  }
  if (report.stopped) return kInterrupted;
  KVASIR_TRY_VOID(Output::standard().write(options.json ? bench_json(subject, plan, report)
                                                        : bench_text(subject, plan, report)));
  return kSuccess;
}

}  // namespace kvasir::cli
