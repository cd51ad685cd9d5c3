// kvasir ls and kvasir rm: the models that were fetched.
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/verbs.h"
#include "pull/model_cache.h"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const pull::CachedModel& model) {
  Json json = {{"reference", model.record.reference}, {"quantization", model.record.quantization},
               {"bytes", model.record.bytes()},       {"bytes_here", model.bytes_here},
               {"complete", model.complete},          {"path", model.path()}};
  for (const pull::RecordedFile& file : model.record.files)
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  return json;
}

std::string state_text(const pull::CachedModel& model) {
  if (model.complete) return "complete";
  return fmt::format("{} of {} bytes", model.bytes_here, model.record.bytes());
}

std::string table(const std::vector<pull::CachedModel>& models) {
  size_t width = 0;
  for (const pull::CachedModel& model : models)
    width = std::max(width, on_one_line(model.record.reference).size());
  std::string text;
  for (const pull::CachedModel& model : models)
    text += fmt::format(
        "{:<{}}  {:>10}  {:<10}  {}\n", on_one_line(model.record.reference), width,
        bytes_text(model.record.bytes()),
        model.record.quantization.empty() ? "-" : on_one_line(model.record.quantization),
        state_text(model));
  return text;
}

}  // namespace

Result<int> ls(const LsOptions& options) {
  KVASIR_TRY(const pull::ModelCache cache, pull::ModelCache::of_user());
  const std::vector<pull::CachedModel> models = cache.list();
  std::string text;
  if (options.json) {
    Json json = Json::array();
    for (const pull::CachedModel& model : models) json.push_back(to_json(model));
    text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  } else if (models.empty()) {
    fmt::print(stderr, "nothing was fetched yet; kvasir pull does\n");
  } else {
    text = table(models);
  }
  KVASIR_TRY_VOID(Output::standard().write(text));
  return kSuccess;
}

Result<int> rm(const RmOptions& options) {
  KVASIR_TRY(const pull::ModelReference reference, pull::parse_model_reference(options.reference));
  KVASIR_TRY(const pull::ModelCache cache, pull::ModelCache::of_user());
  if (reference.kind == pull::ModelReference::Kind::kPath) {
    return Error::invalid("'{}' is a path: only models that were fetched are removed",
                          on_one_line(options.reference))
        .with_hint("kvasir ls names them");
  }
  const std::vector<pull::CachedModel> models = cache.find(reference);
  if (models.empty())
    return Error::not_found("{}: is not here", options.reference).with_hint("kvasir ls lists");
  if (models.size() > 1) {
    std::string names;
    for (const pull::CachedModel& model : models)
      names += (names.empty() ? "" : ", ") + model.record.reference;
    return Error::invalid("{}: several of its models are here", options.reference)
        .with_hint("say which one: " + names);
  }
  const pull::CachedModel& model = models.front();
  uint64_t freed = model.disk_bytes;
  if (!options.dry_run) {
    KVASIR_TRY(freed, cache.remove(model));
  }
  KVASIR_TRY_VOID(Output::standard().write(
      fmt::format("{}: {} {}\n", on_one_line(model.record.reference),
                  options.dry_run ? "would free" : "freed", bytes_text(freed))));
  return kSuccess;
}

}  // namespace kvasir::cli
