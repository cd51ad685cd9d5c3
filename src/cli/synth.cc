// kvasir synth: writes synthetic models, for tests and measurements.
#include <sys/statvfs.h>

#include <filesystem>
#include <utility>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "gguf/model_file.h"
#include "model/inspection.h"
#include "model/synthesis.h"

namespace kvasir::cli {
namespace {

// qwen35moe: every fourth layer is full attention, as in the published models.
constexpr uint32_t kAttentionInterval = 4;

template <typename Number>
void override_with(Number& number, const std::optional<uint64_t>& flag) {
  if (flag) number = static_cast<Number>(*flag);
}

Result<void> set_type(model::SynthesisPlan& plan, const std::string& name) {
  std::string lower = name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "q4_k_m") {
    plan.mix = model::TypeMix::kQ4KM;
    return {};
  }
  const gguf::TypeInfo* info = gguf::find_type(name);
  if (info == nullptr || !kernels::is_supported(info->type)) {
    std::string names = "q4_k_m";
    for (const gguf::TypeInfo& known : gguf::all_types())
      if (kernels::is_supported(known.type)) names += ", " + std::string(known.name);
    return Error::invalid("--type: '{}' is no weight type that can be computed", name)
        .with_hint("one of " + names);
  }
  plan.mix = model::TypeMix::kUniform;
  plan.type = info->type;
  return {};
}

Result<model::SynthesisPlan> make_plan(const SynthOptions& options) {
  model::SynthesisPlan plan = model::small_plan(options.architecture);
  if (!options.like.empty()) {
    Result<model::SynthesisPlan> like =
        model::plan_like(options.like, static_cast<uint32_t>(options.layers.value_or(0)));
    if (!like)
      return Error::invalid("--like: {}", like.error().message).with_hint(like.error().hint);
    plan = std::move(*like);
  } else if (options.layers) {
    plan.hp.n_layers = static_cast<uint32_t>(*options.layers);
    plan.hp.layer_kinds.clear();
    for (uint32_t layer = 0; layer < plan.hp.n_layers; ++layer) {
      const bool attention = options.architecture == model::Architecture::kQwen3Moe ||
                             layer % kAttentionInterval == kAttentionInterval - 1;
      plan.hp.layer_kinds.push_back(attention ? model::LayerKind::kAttention
                                              : model::LayerKind::kDeltaNet);
    }
  }
  model::HyperParameters& hp = plan.hp;
  override_with(hp.n_experts, options.experts);
  override_with(hp.n_experts_used, options.experts_used);
  override_with(hp.n_embd, options.embedding);
  override_with(hp.expert_width, options.expert_width);
  override_with(hp.n_vocab, options.vocabulary);
  override_with(hp.context_length, options.context);
  if (hp.n_experts_used > hp.n_experts) {
    return Error::invalid("{} active experts of {}", hp.n_experts_used, hp.n_experts)
        .with_hint("choose --experts-used at most as large as --experts");
  }
  if (options.type) KVASIR_TRY_VOID(set_type(plan, *options.type));
  plan.seed = options.seed;
  plan.fused_gate_up = options.fused_gate_up;
  plan.fused_qkv = options.fused_qkv;
  plan.tied_output = options.tied_output;
  return plan;
}

Result<void> check_free_space(const std::string& path, uint64_t need) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  struct statvfs disk = {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return {};  // writing will tell
  const uint64_t have = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (need <= have) return {};
  return Error::limit("{}: needs {}, the disk has {} left", path, bytes_text(need),
                      bytes_text(have))
      .with_hint("choose another place, fewer --layers, or --skeleton");
}

// Returns the exit code.
Result<int> write_weights(const model::SynthesisPlan& plan, const std::string& path) {
  const InterruptScope interrupts;
  ProgressBar bar("writing", Unit::kBytes);
  bool interrupted = false;
  bool checked = false;
  // The first call comes before the first weight is written, and knows the size.
  const model::Progress progress = [&](uint64_t done, uint64_t all) -> Result<void> {
    interrupted = InterruptScope::requested();
    if (interrupted) return Error::io("interrupted");
    if (!std::exchange(checked, true)) KVASIR_TRY_VOID(check_free_space(path, all));
    bar.update(done, all);
    return {};
  };
  const Result<void> written = model::write_synthetic(plan, path, progress);
  if (interrupted) return kInterrupted;
  if (!written) return written.error();
  return kSuccess;
}

Result<void> report(const std::string& path) {
  KVASIR_TRY(gguf::ModelFile file, gguf::ModelFile::open(path));
  KVASIR_TRY(model::Inspection facts, model::inspect(file));
  if (!facts.supported)
    return Error::unsupported("{}: cannot run here: {}", path, facts.why_unsupported);
  return Output::standard().write(
      fmt::format("{}: {}, {} + {} layers, {} experts per layer, n_embd {}, {} of weights\n",
                  on_one_line(path), facts.architecture, facts.hp.n_layers, facts.hp.n_mtp_blocks,
                  facts.hp.n_experts, facts.hp.n_embd, bytes_text(facts.weight_bytes)));
}

}  // namespace

Result<int> synth(const SynthOptions& options) {
  if (options.output == "-") {
    return Error::invalid("synth cannot write to standard output: a model needs a file")
        .with_hint("name one:  kvasir synth -o small.gguf");
  }
  KVASIR_TRY(model::SynthesisPlan plan, make_plan(options));
  if (options.skeleton) {
    KVASIR_TRY_VOID(model::write_skeleton(plan, options.output));
  } else {
    KVASIR_TRY(const int code, write_weights(plan, options.output));
    if (code == kInterrupted) {
      fmt::print(stderr, "note:  interrupted; {} was not written\n", on_one_line(options.output));
      return kInterrupted;
    }
  }
  KVASIR_TRY_VOID(report(options.output));
  return kSuccess;
}

}  // namespace kvasir::cli
