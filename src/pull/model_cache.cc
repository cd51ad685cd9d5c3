#include "pull/model_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/output_file.h"
#include "base/sha256.h"
#include "gguf/manifest.h"
#include "pull/file_names.h"
#include "pull/part_file.h"

namespace kvasir::pull {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "kvasir-model 1";
constexpr std::string_view kRecordName = "model.record";
constexpr std::string_view kLockName = "pull.lock";
constexpr uint64_t kRecordBytesMax = uint64_t{32} << 20;
// Below the root: kind, host, organisation, repository, revision, model.
constexpr int kDepthMax = 6;
constexpr size_t kModelsMax = 10'000;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

Error no_record(std::string_view why) {
  return Error::corrupt("the record of a fetched model is damaged: {}", why);
}

std::string record_lines(const ModelRecord& record) {
  std::string text = fmt::format("{}\nreference {}\nquantization {}\n", kMagic,
                                 gguf::percent_encoded(record.reference),
                                 gguf::percent_encoded(record.quantization));
  for (const RecordedFile& file : record.files)
    text += fmt::format("file {} {} {} {}\n", file.bytes, file.sha256.empty() ? "-" : file.sha256,
                        gguf::percent_encoded(file.name), gguf::percent_encoded(file.address));
  return text;
}

Result<RecordedFile> parse_file(std::string_view line) {
  const auto words = split(line, ' ');
  if (words.size() != 5 || words[0] != "file") return no_record("a line is not one of a file");
  RecordedFile file;
  const auto [end, error] =
      std::from_chars(words[1].data(), words[1].data() + words[1].size(), file.bytes);
  if (error != std::errc() || end != words[1].data() + words[1].size() || file.bytes == 0 ||
      file.bytes > kFileBytesMax)
    return no_record("a size");
  if (words[2] != "-" && !is_sha256(words[2])) return no_record("a checksum");
  if (words[2] != "-") file.sha256 = words[2];
  const auto name = gguf::percent_decoded(words[3]);
  const auto address = gguf::percent_decoded(words[4]);
  if (!name || !is_file_name(*name) || !name->ends_with(".gguf")) return no_record("a name");
  if (!address || address->size() > kAddressBytesMax) return no_record("an address");
  file.name = *name;
  file.address = *address;
  return file;
}

uint64_t allocated_bytes(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

std::optional<uint64_t> regular_size(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return static_cast<uint64_t>(status.st_size);
}

void find_models(const fs::path& folder, int depth, std::vector<CachedModel>& models) {
  std::error_code error;
  std::vector<fs::path> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_symlink(error)) continue;
    if (entry.is_directory(error)) below.push_back(entry.path());
    if (entry.path().filename() != kRecordName || models.size() == kModelsMax) continue;
    if (auto model = ModelCache::read(folder.string())) models.push_back(std::move(*model));
  }
  if (depth == 0) return;
  for (const fs::path& path : below) find_models(path, depth - 1, models);
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

bool selects(const HubReference& wanted, const CachedModel& model) {
  auto recorded = parse_model_reference(model.record.reference);
  if (!recorded || recorded->kind != ModelReference::Kind::kHub) return false;
  const HubReference& hub = recorded->hub;
  if (hub.organization != wanted.organization || hub.repository != wanted.repository ||
      hub.revision != wanted.revision)
    return false;
  if (wanted.selector.empty()) return true;
  if (!wanted.selects_file()) return upper(wanted.selector) == model.record.quantization;
  return std::any_of(model.record.files.begin(), model.record.files.end(),
                     [&](const RecordedFile& file) {
                       return file.address.ends_with("/" + encoded_path(wanted.selector));
                     });
}

// The address of the first part stands for all.
std::string first_part(const std::string& url) {
  const auto address = parse_web_address(url);
  if (!address) return url;
  const auto name = parse_split_name(last_path_part(*address));
  if (!name) return address->text;
  const size_t query = address->text.find('?');
  const auto first = resolve_web_address(
      *address, encoded_path(name->of(1)) +
                    (query == std::string::npos ? std::string() : address->text.substr(query)));
  return first ? first->text : address->text;
}

}  // namespace

uint64_t ModelRecord::bytes() const {
  uint64_t sum = 0;
  for (const RecordedFile& file : files) sum += file.bytes;
  return sum;
}

ModelRecord record_of(const RemoteModel& model) {
  ModelRecord record{model.reference, model.quantization, {}};
  for (const RemoteFile& file : model.files)
    record.files.push_back({file.name, file.bytes, file.sha256, file.address.text});
  return record;
}

std::string record_text(const ModelRecord& record) {
  const std::string lines = record_lines(record);
  return lines + "sha256 " + sha256_hex(bytes_of(lines)) + "\n";
}

Result<ModelRecord> parse_record(std::string_view text) {
  constexpr size_t kLastLineBytes = 7 + 64 + 1;  // "sha256 ", digits, line end
  if (text.size() < kLastLineBytes) return no_record("it is too short");
  const std::string_view lines = text.substr(0, text.size() - kLastLineBytes);
  if (text.substr(lines.size()) != "sha256 " + sha256_hex(bytes_of(lines)) + "\n")
    return no_record("its checksum is another");
  if (!lines.ends_with("\n")) return no_record("its last line has no end");
  const auto words = split(lines.substr(0, lines.size() - 1), '\n');
  if (words.size() < 4 || words.size() > 3 + kSplitPartsMax || words[0] != kMagic ||
      !words[1].starts_with("reference ") || !words[2].starts_with("quantization "))
    return no_record("its first lines");
  ModelRecord record;
  const auto reference = gguf::percent_decoded(words[1].substr(10));
  const auto quantization = gguf::percent_decoded(words[2].substr(13));
  if (!reference || !quantization) return no_record("its first lines");
  record.reference = *reference;
  record.quantization = *quantization;
  for (size_t i = 3; i < words.size(); ++i) {
    KVASIR_TRY(RecordedFile file, parse_file(words[i]));
    record.files.push_back(std::move(file));
  }
  if (record_text(record) != text) return no_record("it is spelt in another way");
  return record;
}

Result<CacheLock> CacheLock::take(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kLockName);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return Error::io("{}: cannot create: {}", path, std::strerror(errno));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return Error::invalid("{}: another kvasir is fetching this model", folder)
        .with_hint("wait until it has ended, or stop it");
  }
  return CacheLock(descriptor);
}

CacheLock::CacheLock(CacheLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

CacheLock::~CacheLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<ModelCache> ModelCache::of_user() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return ModelCache(std::string(cache) + "/kvasir/models");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/')
    return ModelCache(std::string(home) + "/.cache/kvasir/models");
  return Error::not_found("there is no folder for models")
      .with_hint("set XDG_CACHE_HOME or HOME to an absolute path");
}

std::optional<CachedModel> ModelCache::read(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kRecordName);
  const auto bytes = regular_size(path);
  if (!bytes || *bytes > kRecordBytesMax) return std::nullopt;
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  auto record = parse_record(std::move(text).str());
  if (!record) return std::nullopt;
  CachedModel model;
  model.folder = folder;
  model.record = std::move(*record);
  model.complete = true;
  for (const RecordedFile& file : model.record.files) {
    const std::string file_path = folder + "/" + file.name;
    model.disk_bytes += allocated_bytes(file_path) + allocated_bytes(part_path(file_path)) +
                        allocated_bytes(journal_path(file_path));
    if (is_complete_file(file_path, file.bytes)) {
      model.bytes_here += file.bytes;
      continue;
    }
    model.complete = false;
    const auto journal = read_journal(journal_path(file_path));
    if (journal && journal->head.bytes == file.bytes && regular_size(part_path(file_path)))
      model.bytes_here += journal->bytes();
  }
  return model;
}

std::vector<CachedModel> ModelCache::list() const {
  std::vector<CachedModel> models;
  find_models(root_, kDepthMax, models);
  std::sort(models.begin(), models.end(), [](const CachedModel& a, const CachedModel& b) {
    return std::pair(a.record.reference, a.folder) < std::pair(b.record.reference, b.folder);
  });
  return models;
}

std::vector<CachedModel> ModelCache::find(const ModelReference& reference) const {
  std::vector<CachedModel> found;
  for (CachedModel& model : list()) {
    const bool matches = reference.kind == ModelReference::Kind::kHub
                             ? selects(reference.hub, model)
                             : reference.kind == ModelReference::Kind::kUrl &&
                                   model.record.reference == first_part(reference.url);
    if (matches) found.push_back(std::move(model));
  }
  if (reference.kind != ModelReference::Kind::kHub || !reference.hub.selector.empty()) return found;
  for (const CachedModel& model : found)
    if (model.record.quantization == kDefaultQuantization) return {model};
  return found;
}

Result<std::string> ModelCache::make_folder(const RemoteModel& model) const {
  KVASIR_CHECK(is_file_path(model.folder));
  const std::string folder = root_ + "/" + model.folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error::io("{}: cannot create: {}", folder, error.message());
  return folder;
}

Result<void> ModelCache::keep_record(const std::string& folder, const ModelRecord& record) const {
  KVASIR_TRY(OutputFile file, OutputFile::create(folder + "/" + std::string(kRecordName)));
  KVASIR_TRY_VOID(file.write(bytes_of(record_text(record))));
  return file.finish();
}

Result<uint64_t> ModelCache::remove(const CachedModel& model) const {
  KVASIR_TRY(const CacheLock lock, CacheLock::take(model.folder));
  uint64_t freed = 0;
  const auto remove_file = [&](const std::string& path) -> Result<void> {
    const uint64_t bytes = allocated_bytes(path);
    if (::unlink(path.c_str()) == 0)
      freed += bytes;
    else if (errno != ENOENT)
      return Error::io("{}: cannot remove: {}", path, std::strerror(errno));
    return {};
  };
  for (const RecordedFile& file : model.record.files) {
    const std::string path = model.folder + "/" + file.name;
    for (const std::string& each : {path, part_path(path), journal_path(path)})
      KVASIR_TRY_VOID(remove_file(each));
  }
  KVASIR_TRY_VOID(remove_file(model.folder + "/" + std::string(kRecordName)));
  KVASIR_TRY_VOID(remove_file(model.folder + "/" + std::string(kLockName)));
  // rmdir refuses what is not empty.
  for (fs::path folder = model.folder; folder != root_ && folder.has_parent_path();
       folder = folder.parent_path())
    if (::rmdir(folder.c_str()) != 0) break;
  return freed;
}

Result<std::string> resolve_model(const std::string& text) {
  std::error_code ignored;
  if (fs::exists(text, ignored)) return text;
  KVASIR_TRY(const ModelReference reference, parse_model_reference(text));
  if (reference.kind == ModelReference::Kind::kPath) return reference.path;
  KVASIR_TRY(const ModelCache cache, ModelCache::of_user());
  const std::vector<CachedModel> models = cache.find(reference);
  if (models.empty())
    return Error::not_found("{}: was not fetched yet", text)
        .with_hint("kvasir pull " + text + " fetches it");
  if (models.size() > 1) {
    std::string names;
    for (const CachedModel& model : models)
      names += (names.empty() ? "" : ", ") + model.record.reference;
    return Error::invalid("{}: several of its models are here", text)
        .with_hint("say which one: " + names);
  }
  const CachedModel& model = models.front();
  if (!model.complete)
    return Error::not_found("{}: {} of {} bytes are here", text, model.bytes_here,
                            model.record.bytes())
        .with_hint("kvasir pull " + text + " fetches the others");
  return model.path();
}

}  // namespace kvasir::pull
