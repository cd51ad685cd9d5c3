// kvasir slice: cuts experts out of a model, byte for byte.
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/known_manifest.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "gguf/slice_writer.h"
#include "model/model_manifest.h"

namespace kvasir::cli {
namespace {

// The manifest that was named, or the best there is.
Result<std::optional<KnownManifest>> manifest_for(const SliceOptions& options,
                                                  const model::Model& model) {
  if (!options.manifest) {
    return known_manifest(model, options.threads,
                          options.no_cache ? CacheUse::kNone : CacheUse::kReadAndWrite);
  }
  KVASIR_TRY(gguf::Manifest manifest, read_manifest(*options.manifest));
  KVASIR_TRY_VOID(model::check_same_model(manifest, model));
  return std::optional(KnownManifest{std::move(manifest), *options.manifest});
}

gguf::SliceRequest make_request(const SliceOptions& options, const gguf::Manifest& manifest) {
  gguf::SliceRequest request{options.layers, {0, manifest.shape().n_experts}};
  if (options.experts) request.experts = {options.experts->first, options.experts->last + 1};
  if (!request.layers.empty()) return request;
  for (const gguf::UnitId& unit : manifest.units())
    if (request.layers.empty() || request.layers.back() != unit.layer)
      request.layers.push_back(unit.layer);
  return request;
}

// A disk that runs full is found out before the first byte, a request that cannot be met before
// that.
Result<void> check_room(const SliceOptions& options, const gguf::Manifest& manifest,
                        const gguf::SliceRequest& request) {
  KVASIR_TRY(const uint64_t bytes, gguf::slice_bytes(manifest, request));
  auto space = check_free_space(options.output, bytes);
  if (!space)
    return std::move(space.error()).with_hint("choose another place, fewer --layers or --experts");
  return {};
}

Result<void> report(const std::string& path, const KnownManifest& known,
                    const gguf::SliceRequest& request) {
  KVASIR_TRY(const uint64_t bytes, gguf::slice_bytes(known.manifest, request));
  const size_t n_layers = request.layers.size();
  const uint32_t group_size = known.manifest.shape().group_size;
  const uint32_t n_groups = (request.experts.count() + group_size - 1) / group_size;
  return Output::standard().write(fmt::format(
      "{}: experts {}-{} of {} {}: {} in {}, {}\nmodel {}\nhashes checked: {}\n", on_one_line(path),
      request.experts.begin, request.experts.end - 1, n_layers == 1 ? "layer" : "layers",
      ranges_text(request.layers), counted(n_layers * request.experts.count(), "expert"),
      counted(n_layers * n_groups, "unit"), bytes_text(bytes), known.manifest.model_hash(),
      on_one_line(known.how)));
}

}  // namespace

Result<int> slice(const SliceOptions& options) {
  if (options.output == "-") {
    return Error::invalid("slice cannot write to standard output: a slice needs a file")
        .with_hint("name one:  kvasir slice model.gguf --layers 0-3 -o part.gguf");
  }
  const InterruptScope interrupts;
  KVASIR_TRY(const model::Model model, open_for_hashing(options.path));
  std::vector<std::string> inputs = part_paths(*model.file);
  if (options.manifest) inputs.push_back(*options.manifest);
  KVASIR_TRY_VOID(check_no_input(options.output, inputs));
  KVASIR_TRY(const auto known, manifest_for(options, model));
  if (!known) return kInterrupted;
  const gguf::SliceRequest request = make_request(options, known->manifest);
  KVASIR_TRY_VOID(check_room(options, known->manifest, request));

  bool done = false;
  {
    ProgressBar bar("slicing", Unit::kBytes);
    const gguf::SliceWatch watch = [&](uint64_t bytes, uint64_t all) {
      bar.update(bytes, all);
      return !InterruptScope::requested();
    };
    KVASIR_TRY(done,
               gguf::write_slice(*model.file, known->manifest, request, options.output, watch));
  }
  if (!done) {
    fmt::print(stderr, "note:  interrupted; {} was not written\n", on_one_line(options.output));
    return kInterrupted;
  }
  KVASIR_TRY_VOID(report(options.output, *known, request));
  return kSuccess;
}

}  // namespace kvasir::cli
