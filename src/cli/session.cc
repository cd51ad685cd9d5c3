#include "cli/session.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/parsing.h"
#include "cli/progress.h"
#include "expert/local_expert_service.h"
#include "pull/model_cache.h"

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

// The pages that a part of a mapping touches.
ByteSpan whole_pages(ByteSpan bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page;
  return {bytes.data() - before, bytes.size() + before};
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

// Huge pages make the processor look up fewer addresses: one thread read 28 instead of 22 GB/s of a
// mapped file. The kernel makes them while it reads the file, so they are for whole files only;
// around small pieces they would read in much that nobody wants.
enum class Pages : uint8_t { kHuge, kAsTheyAre };

// So that the first tokens do not wait for the disk, page by page. Not if the weights would push
// each other out again.
void preload_pieces(const std::vector<ByteSpan>& pieces, Pages pages, uint64_t available_bytes) {
  uint64_t all = 0;
  for (ByteSpan piece : pieces) all += piece.size();
  if (all < kPreloadBytesMin || all > available_bytes) return;
  if (pages == Pages::kHuge) {
    for (ByteSpan piece : pieces) {
      const ByteSpan bytes = whole_pages(piece);
      ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_HUGEPAGE);
    }
  }
  ProgressBar bar("loading", Unit::kBytes);
  uint64_t done = 0;
  for (ByteSpan piece : pieces) {
    const ByteSpan bytes = whole_pages(piece);
    for (size_t at = 0; at < bytes.size(); at += kPreloadStepBytes) {
      const size_t step = std::min(kPreloadStepBytes, bytes.size() - at);
      read_in(bytes.subspan(at, step));
      done += step;
      bar.update(done, all);
    }
  }
}

}  // namespace

Result<std::shared_ptr<const gguf::ModelFile>> open_model_file(const ModelFlags& flags) {
  KVASIR_TRY(const std::string named, model_path(flags));
  KVASIR_TRY(const std::string path, pull::resolve_model(named));
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

std::string store_note(uint64_t weight_bytes, uint64_t available_bytes, uint64_t store_bytes) {
  return fmt::format(
      "note:  the weights are {}, {} of memory are available: up to {} of experts are kept in "
      "memory, the others are read when they are needed\n",
      bytes_text(weight_bytes), bytes_text(available_bytes), bytes_text(store_bytes));
}

void preload(const gguf::ModelFile& file, uint64_t available_bytes) {
  std::vector<ByteSpan> whole_files;
  for (size_t part = 0; part < file.parts(); ++part)
    whole_files.push_back(file.part_file(part).bytes());
  preload_pieces(whole_files, Pages::kHuge, available_bytes);
}

std::vector<text::TokenId> never_sampled(const text::Tokenizer& tokenizer, size_t n_vocab) {
  std::vector<text::TokenId> ids = tokenizer.unused();
  for (size_t id = tokenizer.vocabulary_size(); id < n_vocab; ++id)
    ids.push_back(static_cast<text::TokenId>(id));
  return ids;
}

Result<std::unique_ptr<Session>> Session::open(const std::shared_ptr<const gguf::ModelFile>& file,
                                               const ComputeFlags& flags, uint64_t context) {
  KVASIR_TRY(auto session, open_parts(file, flags, context));
  if (flags.swarm.listen) KVASIR_TRY_VOID(session->open_swarm(flags, session->options_));
  expert::ExpertService& experts =
      session->backbone_ ? session->backbone_->experts() : *session->experts_;
  session->engine_ = std::make_unique<engine::Engine>(session->model_, *session->kernels_,
                                                      *session->pool_, experts, session->options_);
  return session;
}

Result<std::unique_ptr<Session>> Session::open_parts(
    const std::shared_ptr<const gguf::ModelFile>& file, const ComputeFlags& flags, uint64_t context,
    uint64_t extra_bytes) {
  std::unique_ptr<Session> session(new Session());
  session->context_ = context;
  KVASIR_TRY(session->kernels_, kernels::select_table());
  KVASIR_TRY(session->model_, model::bind_model(file, kernels::is_supported));

  engine::EngineOptions& options = session->options_;
  options.kv_type = flags.kv_type;
  options.encoding = flags.encoding;
  options.rows_max = flags.chunk;
  session->memory_ = engine::memory_need(session->model_, options, 1, context);
  session->memory_.scratch += extra_bytes;
  const uint64_t available = engine::available_memory();
  KVASIR_TRY(std::optional<uint64_t> store_bytes, session->plan_store(flags.expert_ram, available));
  KVASIR_TRY_VOID(engine::check_fit(session->memory_, available, context));

  const uint32_t trained = session->model_.hp.context_length;
  if (trained != 0 && context > trained) {
    fmt::print(stderr, "note:  a context of {} tokens; the model was trained on {}\n", context,
               trained);
  }
  if (store_bytes) {
    if (flags.expert_ram.kind == ExpertRam::Kind::kAuto)
      fmt::print(stderr, "{}", store_note(file->tensor_bytes(), available, *store_bytes));
    // Neighbours of an embedding row are of no use, and would take memory from what is.
    const model::Matrix& embedding = session->model_.token_embedding;
    const ByteSpan rows =
        whole_pages({embedding.data, size_t{embedding.n_out} * embedding.row_bytes});
    if (embedding.data != session->model_.output.data)
      ::madvise(const_cast<std::byte*>(rows.data()), rows.size(), MADV_RANDOM);
    preload_pieces(model::dense_tensors(session->model_), Pages::kAsTheyAre, available);
  } else {
    fmt::print(stderr, "{}", reading_note(file->tensor_bytes(), available));
    preload(*file, available);
  }
  session->pool_ = std::make_unique<ThreadPool>(flags.threads.value_or(default_thread_count()));
  KVASIR_TRY_VOID(session->make_experts(store_bytes));
  return session;
}

Session::~Session() {
  if (trace_ && !trace_->close()) fmt::print(stderr, "note:  the trace could not be written\n");
}

Result<void> Session::open_swarm(const ComputeFlags& flags, const engine::EngineOptions& options) {
  if (flags.swarm.trace) {
    KVASIR_TRY(Output trace, Output::open(*flags.swarm.trace));
    trace_.emplace(std::move(trace));
  }
  KVASIR_TRY(const ModelIdentity identity, identify_model(model_, flags.threads));
  KVASIR_TRY(backbone_,
             Backbone::open(flags.swarm, model_, identity, options, *experts_, *kernels_, *pool_));
  return {};
}

Result<std::vector<engine::SequenceFailure>> Session::forward(const engine::Sequence& sequence,
                                                              std::span<const engine::Row> rows,
                                                              std::span<float> logits) {
  if (!backbone_) return engine_->forward(rows, logits);
  const swarm::TimeUs start = swarm::now_us();
  KVASIR_TRY(auto failures, engine_->forward(rows, logits));
  if (trace_) {
    KVASIR_TRY_VOID(trace_->write(step_json(steps_, rows.size(), swarm::now_us() - start,
                                            backbone_->experts().take_records())));
  }
  ++steps_;
  for (uint64_t owner : backbone_->experts().take_doubted()) {
    if (owner == sequence.id() || owner == expert::ExpertService::kEveryOwner)
      return Error::untrusted("a worker gave a wrong answer for this text")
          .with_hint("it does not compute any more; run this again, or with --verify all");
  }
  return failures;
}

Result<std::optional<uint64_t>> Session::plan_store(const ExpertRam& flag, uint64_t available) {
  if (flag.kind == ExpertRam::Kind::kMapped) return std::optional<uint64_t>();
  const auto layers = engine::stored_experts(model_);
  const uint64_t one = expert::StoredExpertService::slot_bytes(layers);
  const uint64_t least = one * expert::StoredExpertService::slots_min(model_.hp.n_experts_used);
  std::optional<uint64_t> bytes;
  if (flag.kind == ExpertRam::Kind::kStore) {
    if (flag.bytes < least) {
      return Error::invalid("--expert-ram: {} hold {}, a token needs {} of {} each at once",
                            bytes_text(flag.bytes), counted(flag.bytes / one, "expert"),
                            model_.hp.n_experts_used, bytes_text(one))
          .with_hint(fmt::format("the least is {}", bytes_text(least)));
    }
    bytes = flag.bytes;
  } else {
    uint64_t dense = 0;
    for (ByteSpan tensor : model::dense_tensors(model_)) dense += tensor.size();
    bytes = engine::automatic_store_bytes(memory_, dense, least, available);
  }
  if (!bytes) return bytes;
  bytes = expert::StoredExpertService::slots_of(layers, *bytes) * one;
  memory_.experts = *bytes;
  return bytes;
}

Result<void> Session::make_experts(std::optional<uint64_t> store_bytes) {
  if (!store_bytes) {
    experts_ = std::make_unique<expert::LocalExpertService>(engine::local_experts(model_),
                                                            *kernels_, *pool_);
    return {};
  }
  std::vector<ReadableFile> files;
  for (size_t part = 0; part < model_.file->parts(); ++part)
    files.push_back(
        {model_.file->part_file(part).descriptor(), model_.file->part_file(part).path()});
  KVASIR_TRY(auto reader, FileReader::open(std::move(files)));
  expert::StoredExpertService::Options options;
  options.budget_bytes = *store_bytes;
  KVASIR_TRY(auto store,
             expert::StoredExpertService::create(engine::stored_experts(model_), std::move(reader),
                                                 options, *kernels_, *pool_));
  store_ = store.get();
  experts_ = std::move(store);
  return {};
}

}  // namespace kvasir::cli
