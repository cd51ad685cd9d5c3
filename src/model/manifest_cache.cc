#include "model/manifest_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/output_file.h"
#include "base/sha256.h"
#include "gguf/manifest_check.h"
#include "model/file_state.h"

namespace kvasir::model {
namespace {

constexpr std::string_view kMagic = "kvasir-manifest-cache 1\n";
// Beside the manifest: the states of 1,000 parts, with long paths.
constexpr uint64_t kCacheBytesMax = gguf::kManifestBytesMax + (uint64_t{4} << 20);
constexpr size_t kHashLineBytes = 7 + 64 + 1;  // "sha256 ", digits, line end

std::string states_text(const std::vector<FileState>& states) {
  std::string text(kMagic);
  for (const FileState& state : states)
    text += fmt::format("file {} {} {}\n", state.bytes, state.changed_ns,
                        gguf::percent_encoded(state.path));
  return text;
}

std::string hash_line(std::string_view text) {
  return "sha256 " + sha256_hex(bytes_of(text)) + "\n";
}

std::string read_all(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kCacheBytesMax) return "";
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

}  // namespace

ManifestCache ManifestCache::of_user() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return ManifestCache(std::string(cache) + "/kvasir");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return ManifestCache(std::string(home) + "/.cache/kvasir");
  return ManifestCache("");
}

Result<std::string> ManifestCache::path_for(const gguf::ModelFile& file) const {
  KVASIR_TRY(const auto states, file_states(file));
  const std::string name = sha256_hex(bytes_of(states.front().path)).substr(0, 32);
  return folder_ + "/" + name + ".manifest";
}

std::optional<gguf::Manifest> ManifestCache::find(const gguf::ModelFile& file) const {
  if (folder_.empty()) return std::nullopt;
  const auto states = file_states(file);
  const auto path = path_for(file);
  if (!states || !path) return std::nullopt;
  const std::string text = read_all(*path);
  const std::string front = states_text(*states);
  if (!text.starts_with(front) || text.size() < front.size() + kHashLineBytes) return std::nullopt;
  const std::string_view hashed = std::string_view(text).substr(0, text.size() - kHashLineBytes);
  if (std::string_view(text).substr(hashed.size()) != hash_line(hashed)) return std::nullopt;
  auto manifest = gguf::parse_manifest(hashed.substr(front.size()));
  if (!manifest || !gguf::check_model_hash(*manifest)) return std::nullopt;
  return std::move(*manifest);
}

Result<void> ManifestCache::keep(const gguf::ModelFile& file,
                                 const gguf::Manifest& manifest) const {
  if (folder_.empty()) return {};
  KVASIR_TRY(const auto states, file_states(file));
  KVASIR_TRY(const std::string path, path_for(file));
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return Error::io("{}: cannot make this folder: {}", folder_, error.message());
  const std::string text = states_text(states) + manifest.text();
  KVASIR_TRY(auto out, OutputFile::create(path));
  KVASIR_TRY_VOID(out.write(bytes_of(text)));
  KVASIR_TRY_VOID(out.write(bytes_of(hash_line(text))));
  return out.finish();
}

}  // namespace kvasir::model
