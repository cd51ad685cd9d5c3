#include "cli/session.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/parsing.h"
#include "cli/progress.h"

namespace kvasir::cli {
namespace {

constexpr std::string_view kBundledName = "kvasir-tales";
constexpr std::string_view kBundledFile = "kvasir-tales-q4_k_m.gguf";

// Smaller files are there before a bar could be drawn.
constexpr uint64_t kPreloadBytesMin = uint64_t{64} << 20;
// A step of the bar. Smaller: system calls; larger: a bar that jumps.
constexpr size_t kPreloadStepBytes = size_t{16} << 20;

constexpr uint64_t kDefaultContextMax = 4096;

// Where the bundled model may be: after `make install` and in the source tree.
std::vector<std::filesystem::path> bundled_paths() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path above = program.parent_path().parent_path();
  return {above / "share/kvasir/models" / kBundledFile, above / "models" / kBundledFile};
}

Result<std::string> model_path(const ModelFlags& flags) {
  if (!flags.path.empty()) return flags.path;
  if (const char* path = std::getenv("KVASIR_MODEL"); path != nullptr && *path != '\0')
    return std::string(path);
  std::string tried;
  for (const std::filesystem::path& path : bundled_paths()) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path.string();
    tried += (tried.empty() ? "" : " or ") + path.string();
  }
  return Error::not_found("no model was named, and the bundled one is not at {}", tried)
      .with_hint("name one with -m FILE, or in the variable KVASIR_MODEL");
}

// Asks the kernel for a range of a mapping. Where it does not know how, the pages come when they
// are used.
void read_in(ByteSpan bytes) {
#ifdef MADV_POPULATE_READ
  constexpr int kPopulate = MADV_POPULATE_READ;
#else
  constexpr int kPopulate = 22;  // MADV_POPULATE_READ of Linux 5.14
#endif
  ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), kPopulate);
}

}  // namespace

Result<std::shared_ptr<const gguf::ModelFile>> open_model_file(const ModelFlags& flags) {
  KVASIR_TRY(std::string path, model_path(flags));
  KVASIR_TRY(gguf::ModelFile file, gguf::ModelFile::open(path));
  // Before anything else: what is missing first (a tokenizer) is not what is wrong.
  auto is_model = model::refuse_slice(file);
  if (!is_model) return std::move(is_model.error()).in(path);
  return std::make_shared<const gguf::ModelFile>(std::move(file));
}

uint64_t default_context(const model::HyperParameters& hp) {
  return hp.context_length == 0 ? kDefaultContextMax
                                : std::min<uint64_t>(hp.context_length, kDefaultContextMax);
}

Result<engine::SamplerOptions> sampler_options(const SamplingFlags& flags,
                                               const gguf::Metadata& metadata, uint64_t n_vocab) {
  for (const auto& [id, bias] : flags.logit_bias) {
    if (static_cast<uint64_t>(id) >= n_vocab)
      return Error::invalid("--logit-bias: token {} is not in the vocabulary of {}", id, n_vocab)
          .with_hint("kvasir tokenize shows the ids of a text");
  }
  engine::SamplerOptions options;
  // The settings on the bundled model's card: without the penalty it soon goes in circles.
  KVASIR_TRY(std::string_view name, metadata.get_string_or("general.name", ""));
  if (name == kBundledName) options.repetition_penalty = 1.1F;

  options.temperature = flags.temperature.value_or(options.temperature);
  options.top_k = flags.top_k.value_or(options.top_k);
  options.top_p = flags.top_p.value_or(options.top_p);
  options.min_p = flags.min_p.value_or(options.min_p);
  options.repetition_penalty = flags.repetition_penalty.value_or(options.repetition_penalty);
  options.presence_penalty = flags.presence_penalty.value_or(options.presence_penalty);
  options.frequency_penalty = flags.frequency_penalty.value_or(options.frequency_penalty);
  options.penalty_window = flags.penalty_window.value_or(options.penalty_window);
  options.logit_bias = flags.logit_bias;
  options.seed = flags.seed;
  KVASIR_TRY_VOID(engine::check(options));
  return options;
}

std::string reading_note(uint64_t weight_bytes, uint64_t available_bytes) {
  if (weight_bytes <= available_bytes) return "";
  return fmt::format(
      "note:  the weights are {}, {} of memory are available: they will be read from the file "
      "again and again, which is slow; a smaller quantisation or more memory helps\n",
      bytes_text(weight_bytes), bytes_text(available_bytes));
}

void preload(const gguf::ModelFile& file, uint64_t available_bytes) {
  const uint64_t all = file.file_bytes();
  if (all < kPreloadBytesMin || all > available_bytes) return;
  ProgressBar bar("loading", Unit::kBytes);
  uint64_t done = 0;
  for (size_t part = 0; part < file.parts(); ++part) {
    ByteSpan bytes = file.part_file(part).bytes();  // starts at a page
    for (size_t at = 0; at < bytes.size(); at += kPreloadStepBytes) {
      const size_t step = std::min(kPreloadStepBytes, bytes.size() - at);
      read_in(bytes.subspan(at, step));
      done += step;
      bar.update(done, all);
    }
  }
}

std::vector<text::TokenId> never_sampled(const text::Tokenizer& tokenizer, size_t n_vocab) {
  std::vector<text::TokenId> ids = tokenizer.unused();
  for (size_t id = tokenizer.vocabulary_size(); id < n_vocab; ++id)
    ids.push_back(static_cast<text::TokenId>(id));
  return ids;
}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const gguf::ModelFile> file,
                                               const ComputeFlags& flags, uint64_t context) {
  std::unique_ptr<Session> session(new Session());
  session->context_ = context;
  KVASIR_TRY(session->kernels_, kernels::select_table());
  KVASIR_TRY(session->model_, model::bind_model(file, kernels::is_supported));

  engine::EngineOptions options;
  options.kv_type = flags.kv_type;
  options.encoding = flags.encoding;
  options.rows_max = flags.chunk;
  session->memory_ = engine::memory_need(session->model_, options, 1, context);
  const uint64_t available = engine::available_memory();
  KVASIR_TRY_VOID(engine::check_fit(session->memory_, available, context));

  const uint32_t trained = session->model_.hp.context_length;
  if (trained != 0 && context > trained) {
    fmt::print(stderr, "note:  a context of {} tokens; the model was trained on {}\n", context,
               trained);
  }
  fmt::print(stderr, "{}", reading_note(file->tensor_bytes(), available));
  preload(*file, available);
  session->pool_ = std::make_unique<ThreadPool>(flags.threads.value_or(default_thread_count()));
  session->experts_ = std::make_unique<expert::LocalExpertService>(
      engine::local_experts(session->model_), *session->kernels_, *session->pool_);
  session->engine_ = std::make_unique<engine::Engine>(session->model_, *session->kernels_,
                                                      *session->pool_, *session->experts_, options);
  return session;
}

}  // namespace kvasir::cli
