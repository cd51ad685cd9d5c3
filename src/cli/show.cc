// kvasir show: what a model is, from its headers, wherever it lies.
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/verbs.h"
#include "cli/web.h"
#include "gguf/units.h"
#include "model/inspection.h"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;

// Memory that workers are asked for in examples.
constexpr uint64_t kWorkerBytes = uint64_t{1} << 30;

// For headers of models that are elsewhere. Goes away with its contents.
class HeaderFolder {
 public:
  static Result<HeaderFolder> create() {
    std::error_code error;
    const auto root = std::filesystem::temp_directory_path(error);
    if (error) return Error::io("no folder for temporary files: {}", error.message());
    std::string pattern = (root / "kvasir-headers-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return Error::io("{}: cannot create a folder", root.string());
    return HeaderFolder(std::move(pattern));
  }
  HeaderFolder(HeaderFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  HeaderFolder& operator=(HeaderFolder&&) = delete;
  ~HeaderFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit HeaderFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct Shown {
  std::string reference;
  uint64_t bytes = 0;
  uint64_t bytes_here = 0;
  uint64_t bytes_fetched = 0;
  model::Inspection facts;
  uint64_t unit_experts = 0;
  uint64_t unit_bytes = 0;  // of the largest experts
};

Result<void> inspect_headers(const std::string& path, Shown& shown) {
  KVASIR_TRY(const gguf::ModelFile file, gguf::ModelFile::open(path));
  KVASIR_TRY(shown.facts, model::inspect(file));
  KVASIR_TRY(shown.unit_experts,
             file.metadata().get_uint_or(gguf::kGroupSizeKey, gguf::kGroupSizeDefault));
  shown.unit_experts = std::min<uint64_t>(shown.unit_experts, shown.facts.hp.n_experts);
  shown.unit_bytes = checked_mul(shown.unit_experts, shown.facts.expert_bytes_max).value_or(0);
  return {};
}

uint64_t experts_in(const Shown& shown, uint64_t bytes) {
  if (shown.unit_bytes == 0) return 0;
  return std::min(bytes / shown.unit_bytes * shown.unit_experts, shown.facts.experts_total);
}

Json to_json(const Shown& shown) {
  const model::Inspection& facts = shown.facts;
  Json json = {{"reference", shown.reference},
               {"bytes", shown.bytes},
               {"bytes_here", shown.bytes_here},
               {"architecture", facts.architecture},
               {"name", facts.name},
               {"parts", facts.parts},
               {"tensors", facts.tensors},
               {"weight_bytes", facts.weight_bytes},
               {"supported", facts.supported}};
  if (!facts.supported) json["why_unsupported"] = facts.why_unsupported;
  if (facts.experts_total == 0) return json;
  json["layers"] = facts.hp.n_layers;
  json["context_length"] = facts.hp.context_length;
  json["experts"] = {{"total", facts.experts_total},        {"per_layer", facts.hp.n_experts},
                     {"active", facts.hp.n_experts_used},   {"bytes_min", facts.expert_bytes_min},
                     {"bytes_max", facts.expert_bytes_max}, {"all_bytes", facts.all_expert_bytes}};
  json["backbone_bytes"] = facts.weight_bytes - facts.all_expert_bytes;
  json["worker"] = {{"unit_experts", shown.unit_experts},
                    {"unit_bytes", shown.unit_bytes},
                    {"experts_per_gib", experts_in(shown, kWorkerBytes)}};
  return json;
}

std::string to_text(const Shown& shown) {
  const model::Inspection& facts = shown.facts;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<20}{}\n", name, on_one_line(value));
  };
  line("model", shown.reference);
  line("name", facts.name);
  line("architecture", facts.architecture);
  line("size", fmt::format("{} ({} bytes) in {}", bytes_text(shown.bytes), shown.bytes,
                           counted(facts.parts, "file")));
  line("here", shown.bytes_here == shown.bytes
                   ? std::string("all of it")
                   : fmt::format("{} of {} bytes", shown.bytes_here, shown.bytes));
  if (!facts.supported) line("cannot run here", facts.why_unsupported);
  if (facts.experts_total == 0) return text;
  line("layers", std::to_string(facts.hp.n_layers));
  line("context", fmt::format("{} tokens", facts.hp.context_length));
  line("experts", fmt::format("{} per layer, {} active, {} in all", facts.hp.n_experts,
                              facts.hp.n_experts_used, facts.experts_total));
  line("bytes per expert",
       fmt::format("{} min, {} max", facts.expert_bytes_min, facts.expert_bytes_max));
  line("backbone needs", fmt::format("{} beside its caches, without experts",
                                     bytes_text(facts.weight_bytes - facts.all_expert_bytes)));
  line("a worker needs",
       fmt::format("{} for the least it can hold, {}", bytes_text(shown.unit_bytes),
                   counted(shown.unit_experts, "expert")));
  line("", fmt::format("1 GiB holds {} of the {} experts", experts_in(shown, kWorkerBytes),
                       facts.experts_total));
  return text;
}

Result<Shown> show_here(const std::string& reference, const std::string& path) {
  Shown shown;
  shown.reference = reference;
  KVASIR_TRY_VOID(inspect_headers(path, shown));
  shown.bytes = shown.bytes_here = shown.facts.file_bytes;
  return shown;
}

Result<Shown> show_elsewhere(const Web& web, const pull::ModelReference& reference) {
  KVASIR_TRY(const pull::RemoteModel model,
             pull::find_remote_model(*web.client, web.hub, reference));
  KVASIR_TRY(const HeaderFolder folder, HeaderFolder::create());
  KVASIR_TRY(const std::string path, pull::fetch_headers(*web.client, model, folder.path()));
  Shown shown;
  shown.reference = model.reference;
  KVASIR_TRY_VOID(inspect_headers(path, shown));
  shown.bytes = model.bytes();
  if (auto cache = pull::ModelCache::of_user())
    shown.bytes_here = pull::plan_pull(*cache, model).bytes_here;
  return shown;
}

Result<int> print(const Shown& shown, bool json) {
  KVASIR_TRY_VOID(Output::standard().write(
      json ? to_json(shown).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
           : to_text(shown)));
  return kSuccess;
}

}  // namespace

Result<int> show(const ShowOptions& options) {
  auto path = pull::resolve_model(options.reference);
  if (path) {
    KVASIR_TRY(const Shown shown, show_here(options.reference, *path));
    return print(shown, options.json);
  }
  if (options.web.offline || path.error().kind != ErrorKind::kNotFound)
    return std::move(path.error());
  KVASIR_TRY(const pull::ModelReference reference, pull::parse_model_reference(options.reference));
  const InterruptScope interrupts;
  KVASIR_TRY(const Web web, open_web(options.web, reference, InterruptScope::requested));
  auto shown = show_elsewhere(web, reference);
  if (!shown) {
    if (InterruptScope::requested()) return kInterrupted;
    return std::move(shown.error());
  }
  return print(*shown, options.json);
}

}  // namespace kvasir::cli
