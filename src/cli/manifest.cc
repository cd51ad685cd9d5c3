// kvasir manifest: what a model's tensors and units hash to; or whether a file has these hashes.
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/known_manifest.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/verbs.h"
#include "gguf/manifest_check.h"
#include "gguf/slice.h"
#include "model/model_manifest.h"

namespace kvasir::cli {
namespace {

Result<void> report_checked(const std::string& path, const std::string& what,
                            const gguf::Manifest& manifest) {
  return Output::standard().write(fmt::format("{}: {} as in the manifest of model {}\n",
                                              on_one_line(path), what, manifest.model_hash()));
}

// Entries of the same tensors and units, in the same order.
Result<size_t> compare(const gguf::Manifest& wanted, const gguf::Manifest& found) {
  size_t n_wrong = 0;
  std::string first;
  for (size_t i = 0; i < wanted.entries().size(); ++i) {
    const gguf::ManifestEntry& entry = wanted.entries()[i];
    if (entry.sha256 == found.entries()[i].sha256) continue;
    if (n_wrong++ == 0) first = gguf::wrong_hash(entry, found.entries()[i].sha256).message;
  }
  if (n_wrong == 0) return wanted.entries().size();
  return Error::corrupt("{} of {} hashes are wrong; the first: {}", n_wrong,
                        wanted.entries().size(), first)
      .with_hint("the file was damaged, or its weights are others: get it again");
}

Result<int> check_model_file(const ManifestOptions& options, const gguf::Manifest& wanted) {
  KVASIR_TRY(const model::Model model, open_for_hashing(options.path));
  KVASIR_TRY_VOID(model::check_same_model(wanted, model));
  KVASIR_TRY(const auto found, known_manifest(model, options.threads, CacheUse::kNone));
  if (!found) return kInterrupted;
  auto hashes = compare(wanted, found->manifest);
  if (!hashes) return std::move(hashes.error()).in(options.path);
  KVASIR_TRY_VOID(report_checked(options.path, fmt::format("{} hashes", *hashes), wanted));
  return kSuccess;
}

Result<int> check(const ManifestOptions& options) {
  KVASIR_TRY(const gguf::Manifest wanted, read_manifest(*options.check));
  KVASIR_TRY(const gguf::ModelFile file, gguf::ModelFile::open(options.path));
  if (!gguf::is_slice(file.metadata())) return check_model_file(options, wanted);
  KVASIR_TRY(const gguf::SliceFile slice, gguf::SliceFile::open(options.path));
  auto checked = gguf::check_slice(wanted, slice.slice());
  if (!checked) return std::move(checked.error()).in(options.path);
  KVASIR_TRY_VOID(report_checked(options.path, counted(slice.slice().n_units(), "unit"), wanted));
  return kSuccess;
}

}  // namespace

Result<int> manifest(const ManifestOptions& options) {
  const InterruptScope interrupts;
  if (options.check) return check(options);
  KVASIR_TRY(const model::Model model, open_for_hashing(options.path));
  KVASIR_TRY_VOID(check_no_input(options.output, part_paths(*model.file)));
  // First: nobody wants to learn after a minute of hashing that there is no such folder.
  KVASIR_TRY(Output output, Output::open(options.output));
  KVASIR_TRY(const auto known,
             known_manifest(model, options.threads,
                            options.no_cache ? CacheUse::kNone : CacheUse::kReadAndWrite));
  if (!known) return kInterrupted;
  KVASIR_TRY_VOID(output.write(known->manifest.text()));
  KVASIR_TRY_VOID(output.close());
  fmt::print(stderr, "note:  model hash {}; {}\n", known->manifest.model_hash(), known->how);
  return kSuccess;
}

}  // namespace kvasir::cli
