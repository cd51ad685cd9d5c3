// kvasir chaos: a swarm of processes on this machine, hurt while it generates a text that must not
// change.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "chaos/swarm_run.h"
#include "cli/cli.h"
#include "cli/known_manifest.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "gguf/slice_writer.h"
#include "model/hyper_parameters.h"
#include "text/tokenizer.h"

namespace kvasir::cli {
namespace {

// A new folder that goes with everything in it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    if (error) return Error::io("there is no folder for temporary files: {}", error.message());
    std::string path = (parent / "kvasir-chaos-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      return Error::io("{}: cannot make a folder", parent.string());
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// A worker's slices: of groups side by side that it holds in the same layers.
std::vector<gguf::SliceRequest> slices_of(const std::vector<gguf::UnitId>& units,
                                          const gguf::ExpertShape& shape) {
  std::map<uint32_t, std::vector<uint32_t>> layers_of;  // [group]
  for (const gguf::UnitId& unit : units) layers_of[unit.group].push_back(unit.layer);
  std::vector<gguf::SliceRequest> slices;
  for (auto& [group, layers] : layers_of) {
    const gguf::ExpertRange experts = gguf::group_experts(group, shape.group_size, shape.n_experts);
    if (!slices.empty() && slices.back().layers == layers &&
        slices.back().experts.end == experts.begin)
      slices.back().experts.end = experts.end;
    else
      slices.push_back({std::move(layers), experts});
  }
  return slices;
}

using WorkerFlags = std::vector<std::vector<std::string>>;

// Cuts what each worker holds into files in `folder`; the flags that name them. It is done by
// `kvasir manifest` and `kvasir slice`, as anybody would.
Result<WorkerFlags> cut_slices(chaos::SignalWatch& signals, const ChaosOptions& options,
                               const std::string& model_path, const std::string& folder) {
  const std::string manifest_path = folder + "/model.manifest";
  KVASIR_TRY_VOID(chaos::run_alone(signals, {"manifest", model_path, "-o", manifest_path}));
  KVASIR_TRY(const gguf::Manifest manifest, read_manifest(manifest_path));
  const auto held =
      chaos::assign_units(manifest.units(), options.workers, options.replicas, options.seed);
  std::vector<std::vector<gguf::SliceRequest>> slices;
  uint64_t bytes = 0;
  for (const auto& units : held) {
    slices.push_back(slices_of(units, manifest.shape()));
    for (const gguf::SliceRequest& request : slices.back()) {
      KVASIR_TRY(const uint64_t slice, gguf::slice_bytes(manifest, request));
      bytes += slice;
    }
  }
  auto room = check_free_space(manifest_path, bytes);
  if (!room) return std::move(room.error()).with_hint("fewer --replicas need less; or set TMPDIR");

  WorkerFlags flags;
  for (size_t worker = 0; worker < slices.size(); ++worker) {
    flags.push_back({"--manifest", manifest_path});
    for (size_t i = 0; i < slices[worker].size(); ++i) {
      const gguf::SliceRequest& slice = slices[worker][i];
      const std::string path = fmt::format("{}/worker-{}-{}.gguf", folder, worker, i);
      KVASIR_TRY_VOID(chaos::run_alone(
          signals, {"slice", model_path, "--manifest", manifest_path, "--layers",
                    ranges_text(slice.layers), "--experts",
                    fmt::format("{}-{}", slice.experts.begin, slice.experts.end - 1), "-o", path}));
      flags.back().insert(flags.back().end(), {"--slice", path});
    }
  }
  return flags;
}

// A text that ends by itself would end before the faults.
Result<std::vector<std::string>> endless_flags(const gguf::ModelFile& file) {
  KVASIR_TRY(const text::Tokenizer tokenizer, text::Tokenizer::load(file.metadata()));
  KVASIR_TRY(const auto hp, model::read_hyper_parameters(file.metadata()));
  std::vector<std::string> flags;
  for (uint32_t id = 0; id < hp.n_vocab; ++id) {
    if (tokenizer.is_end_of_generation(static_cast<text::TokenId>(id)))
      flags.insert(flags.end(), {"--logit-bias", fmt::format("{}:-100", id)});
  }
  return flags;
}

std::vector<std::string> generate_words(const ChaosOptions& options,
                                        const std::string& model_path) {
  return {"generate",
          "-m",
          model_path,
          "-p",
          options.prompt,
          "-n",
          std::to_string(options.tokens),
          "--seed",
          std::to_string(options.seed),
          "--output-encoding",
          std::string(expert::encoding_name(options.encoding)),
          "--logits-hash=all"};
}

// "...\nlogits-hash: <64 digits>\n"
std::string hash_in(const std::string& out) {
  constexpr std::string_view kBefore = "logits-hash: ";
  const size_t at = out.rfind(kBefore);
  if (at == std::string::npos) return "";
  std::string hash = out.substr(at + kBefore.size());
  while (!hash.empty() && hash.back() == '\n') hash.pop_back();
  return hash;
}

double number_of(const std::optional<float>& flag) {
  return static_cast<double>(flag.value_or(0.0F));
}

chaos::Requirements requirements_of(const ChaosOptions& options) {
  chaos::Requirements requirements;
  chaos::FaultPlan& plan = requirements.plan;
  plan.rates = {number_of(options.kill), number_of(options.stall), number_of(options.cut),
                number_of(options.garbage)};
  plan.corrupt = number_of(options.corrupt);
  plan.lie = number_of(options.lie);
  plan.reorder = options.reorder;
  requirements.verify = options.verify;
  if (options.share_min) requirements.share_min = number_of(options.share_min);
  if (options.faults_min) {
    requirements.kills_min = requirements.stalls_min = requirements.corrupted_min =
        *options.faults_min;
  }
  return requirements;
}

Result<chaos::Findings> run_all(chaos::SignalWatch& signals, const ChaosOptions& options,
                                const chaos::FaultPlan& plan, const gguf::ModelFile& file,
                                const std::string& folder) {
  KVASIR_TRY(WorkerFlags workers, cut_slices(signals, options, file.part_file(0).path(), folder));
  std::vector<std::string> words = generate_words(options, file.part_file(0).path());
  KVASIR_TRY(const std::vector<std::string> endless, endless_flags(file));
  words.insert(words.end(), endless.begin(), endless.end());
  KVASIR_TRY(const std::string alone, chaos::run_alone(signals, words));
  fmt::print(stderr, "chaos:  alone, the logits are {}\n", hash_in(alone));
  chaos::SwarmSetup setup;
  setup.backbone = words;
  setup.verify = options.verify;
  setup.workers = std::move(workers);
  setup.folder = folder;
  setup.plan = plan;
  setup.seed = options.seed;
  setup.tokens = options.tokens;
  setup.pace = options.pace;
  fmt::print(stderr, "chaos:  {}, {} at {} a second; this takes {:.0f} s or more\n",
             counted(options.workers, "worker"), counted(options.tokens, "token"), options.pace,
             static_cast<double>(options.tokens) / static_cast<double>(options.pace));
  KVASIR_TRY(chaos::SwarmOutput swarm, chaos::run_swarm(signals, setup));
  chaos::Findings findings = std::move(swarm.findings);
  findings.mode = fmt::format(
      "{}, {} of each unit, encoding {}, verify {}", counted(options.workers, "worker"),
      counted(options.replicas, "holder"), expert::encoding_name(options.encoding), options.verify);
  findings.same_text = swarm.out == alone;
  findings.hash_alone = hash_in(alone);
  findings.hash_swarm = hash_in(swarm.out);
  return findings;
}

}  // namespace

Result<int> chaos(const ChaosOptions& options) {
  if (options.replicas > options.workers)
    return Error::invalid("--replicas {}: there are only {}", options.replicas,
                          counted(options.workers, "worker"));
  KVASIR_TRY(const auto file, open_model_file(options.model));
  KVASIR_TRY(const TemporaryFolder folder, TemporaryFolder::create());
  const chaos::Requirements requirements = requirements_of(options);
  KVASIR_TRY(auto signals, chaos::SignalWatch::create());
  auto findings = run_all(signals, options, requirements.plan, *file, folder.path());
  if (!findings && signals.stop_requested()) return kInterrupted;
  if (!findings) return std::move(findings.error());
  const bool held = chaos::objections(*findings, requirements).empty();
  KVASIR_TRY_VOID(Output::standard().write(options.json
                                               ? chaos::certificate_json(*findings, requirements)
                                               : chaos::certificate_text(*findings, requirements)));
  return held ? kSuccess : kFailed;
}

}  // namespace kvasir::cli
