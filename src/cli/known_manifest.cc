#include "cli/known_manifest.h"

#include <chrono>
#include <memory>

#include "base/thread_pool.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/progress.h"
#include "gguf/manifest_check.h"
#include "model/manifest_cache.h"
#include "model/model_manifest.h"

namespace kvasir::cli {

Result<std::optional<KnownManifest>> known_manifest(const model::Model& model,
                                                    std::optional<uint64_t> threads,
                                                    CacheUse cache_use) {
  const model::ManifestCache cache =
      cache_use == CacheUse::kNone ? model::ManifestCache("") : model::ManifestCache::of_user();
  // What is remembered must fit what this program reads from the file: a newer one may know more.
  if (auto found = cache.find(*model.file); found && model::check_same_model(*found, model))
    return std::optional(KnownManifest{std::move(*found), "known from an earlier run"});

  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(threads.value_or(default_thread_count()));
  std::optional<gguf::Manifest> made;
  {
    ProgressBar bar("hashing", Unit::kBytes);
    const model::HashWatch watch = [&](uint64_t done, uint64_t all) {
      bar.update(done, all);
      return !InterruptScope::requested();
    };
    KVASIR_TRY(made, model::make_manifest(model, pool, watch));
  }
  if (!made) return std::nullopt;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (auto kept = cache.keep(*model.file, *made); !kept)
    fmt::print(stderr, "note:  the hashes are not remembered: {}\n",
               on_one_line(kept.error().message));
  return std::optional(KnownManifest{
      std::move(*made), fmt::format("hashed now, {} in {:.1f} s",
                                    bytes_text(model.file->tensor_bytes()), seconds.count())});
}

Result<gguf::Manifest> read_manifest(const std::string& path) {
  KVASIR_TRY(const std::string text, read_input(path, gguf::kManifestBytesMax));
  auto manifest = gguf::parse_manifest(text);
  if (!manifest) return std::move(manifest.error()).in(path);
  auto checked = gguf::check_model_hash(*manifest);
  if (!checked) return std::move(checked.error()).in(path);
  return std::move(*manifest);
}

Result<model::Model> open_for_hashing(const std::string& path) {
  KVASIR_TRY(gguf::ModelFile file, gguf::ModelFile::open(path));
  return model::bind_model(std::make_shared<const gguf::ModelFile>(std::move(file)), nullptr,
                           model::VectorCheck::kNone);
}

std::vector<std::string> part_paths(const gguf::ModelFile& file) {
  std::vector<std::string> paths;
  for (size_t part = 0; part < file.parts(); ++part) paths.push_back(file.part_file(part).path());
  return paths;
}

}  // namespace kvasir::cli
