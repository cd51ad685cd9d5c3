#include "pull/pull.h"

#include <sys/statvfs.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "gguf/header.h"
#include "pull/file_names.h"
#include "pull/hub.h"

namespace kvasir::pull {
namespace {

namespace fs = std::filesystem;

// A header of a model with a large vocabulary has 10 MiB; most of it is read at the first or second
// attempt.
constexpr uint64_t kFirstHeaderBytes = uint64_t{1} << 20;

uint64_t verified_bytes(const std::string& path, const RemoteFile& file) {
  std::error_code error;
  if (is_complete_file(path, file.bytes)) return file.bytes;
  const auto journal = read_journal(journal_path(path));
  if (!journal || journal->head.bytes != file.bytes || !fs::exists(part_path(path), error))
    return 0;
  return journal->bytes();
}

// The nearest folder that exists.
uint64_t free_bytes(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path())
    folder = folder.parent_path();
  struct statvfs disk = {};
  if (::statvfs(folder.c_str(), &disk) != 0) return 0;
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

// True: the file is here, and the one that is meant.
Result<bool> is_here(const std::string& path, const RemoteFile& file, IfChanged if_changed) {
  std::error_code error;
  if (!fs::exists(path, error) || fs::exists(part_path(path), error)) return false;
  // With a checksum the journal of its download says whether it is this one.
  const auto journal = read_journal(journal_path(path));
  const bool other_checksum = journal && !journal->head.sha256.empty() && !file.sha256.empty() &&
                              journal->head.sha256 != file.sha256;
  if (is_complete_file(path, file.bytes) && !other_checksum) return true;
  if (if_changed == IfChanged::kRestart) return false;
  return Error::corrupt("{}: is another file than the one that is offered now", path)
      .with_hint("--restart fetches the new one in its place");
}

// Another state of the model that is here, complete or begun, is not silently mixed with this one.
Result<void> check_unchanged(const std::string& folder, const RemoteModel& model,
                             IfChanged if_changed) {
  const auto before = ModelCache::read(folder);
  if (!before || before->bytes_here == 0 || if_changed == IfChanged::kRestart) return {};
  for (const RecordedFile& old : before->record.files) {
    for (const RemoteFile& file : model.files) {
      if (file.name != old.name) continue;
      const bool other = file.bytes != old.bytes ||
                         (!file.sha256.empty() && !old.sha256.empty() && file.sha256 != old.sha256);
      if (!other) continue;
      return Error::corrupt("{}: {} has changed since it was fetched: {} bytes then, {} now",
                            model.reference, file.name, old.bytes, file.bytes)
          .with_hint("--restart fetches the new one in its place");
    }
  }
  return {};
}

// Bytes [begin, end) of a file, appended to `out`.
Result<void> fetch_bytes(const WebClient& web, const Located& from, ByteRange range,
                         OutputFile& out) {
  std::optional<Error> broken;
  uint64_t came = 0;
  const auto on_head = [&](const TransferHead& head) {
    const auto sent = parse_content_range(head.content_range);
    if (head.status == 206 && sent && sent->range.begin == range.begin &&
        sent->range.end == range.end && sent->total == from.bytes)
      return true;
    broken = head.status == 206 ? Error::corrupt("{}: sends another part than it was asked for",
                                                 origin_text(from.address))
                                : error_of_status(head.status, from.address);
    return false;
  };
  const auto on_body = [&](ByteSpan bytes) {
    came += bytes.size();
    if (came > range.bytes()) return false;
    auto written = out.write(bytes);
    if (!written) broken = std::move(written.error());
    return written.has_value();
  };
  KVASIR_TRY_VOID(web.get({from.address, range, "", {}}, on_head, on_body));
  if (broken) return *std::move(broken);
  if (came != range.bytes())
    return Error::corrupt("{}: sends {} instead of {} bytes", origin_text(from.address), came,
                          range.bytes());
  return {};
}

// Whether the header lies within the first `bytes` of the file.
Result<bool> has_whole_header(const std::string& path, uint64_t bytes) {
  KVASIR_TRY(const MappedFile file, MappedFile::open(path));
  const std::string_view magic = text_of(file.bytes().first(std::min<size_t>(4, bytes)));
  if (magic != "GGUF")
    return Error::corrupt("{}: is not a GGUF file", fs::path(path).filename().string());
  auto header = gguf::parse_header(file.bytes());
  if (header && header->data_offset <= bytes) return true;
  // What was not fetched reads as zeros, so an error may come from there.
  if (!header && bytes >= std::min<uint64_t>(gguf::kHeaderBytesMax, file.bytes().size()))
    return std::move(header.error());
  return false;
}

Result<void> fetch_header(const WebClient& web, const RemoteFile& file, const std::string& path) {
  KVASIR_TRY(const Located from, locate(web, file.address));
  if (from.bytes != file.bytes)
    return Error::corrupt("{}: {} bytes were promised, the server has {}", file.name, file.bytes,
                          from.bytes);
  if (!from.has_ranges)
    return Error::unsupported("{}: the server sends whole files only", origin_text(file.address))
        .with_hint("kvasir pull fetches the model");
  uint64_t bytes = 0;
  for (uint64_t next = kFirstHeaderBytes;; next *= 4) {
    const uint64_t end = std::min({next, gguf::kHeaderBytesMax, from.bytes});
    // Written anew: a header that needs a second attempt is rare, and small beside its model.
    KVASIR_TRY(OutputFile out, OutputFile::create(path));
    KVASIR_TRY_VOID(fetch_bytes(web, from, {0, end}, out));
    KVASIR_TRY_VOID(out.grow_to(from.bytes));
    KVASIR_TRY_VOID(out.finish());
    bytes = end;
    KVASIR_TRY(const bool whole, has_whole_header(path, bytes));
    if (whole) return {};
    if (bytes == std::min(gguf::kHeaderBytesMax, from.bytes))
      return Error::corrupt("{}: its header has no end", file.name);
  }
}

}  // namespace

Result<RemoteModel> find_remote_model(const WebClient& web, const WebAddress& hub,
                                      const ModelReference& reference) {
  switch (reference.kind) {
    case ModelReference::Kind::kHub:
      return find_hub_model(web, hub, reference.hub);
    case ModelReference::Kind::kUrl:
      return find_web_model(web, reference.url);
    case ModelReference::Kind::kPath:
      break;
  }
  return Error::invalid("'{}' is a file of this machine: there is nothing to fetch", reference.path)
      .with_hint("a model elsewhere is https://host/model.gguf or hf:org/repo:Q4_K_M");
}

PullPlan plan_pull(const ModelCache& cache, const RemoteModel& model) {
  PullPlan plan;
  plan.folder = cache.root() + "/" + model.folder;
  for (const RemoteFile& file : model.files) {
    const uint64_t here = verified_bytes(plan.folder + "/" + file.name, file);
    plan.bytes_here += here;
    plan.bytes_missing += file.bytes - here;
  }
  plan.bytes_free = free_bytes(plan.folder);
  return plan;
}

Result<void> check_space(const PullPlan& plan) {
  const uint64_t need = plan.bytes_missing + plan.bytes_missing / 20;
  if (need <= plan.bytes_free) return {};
  return Error::limit(
             "{}: {} bytes are needed (5 % more than the {} that are missing), the disk has "
             "{} left: {} too few",
             plan.folder, need, plan.bytes_missing, plan.bytes_free, need - plan.bytes_free)
      .with_hint(
          "kvasir ls shows what is here, kvasir rm frees it; XDG_CACHE_HOME names another "
          "disk");
}

Result<DownloadEnd> pull_model(const WebClient& web, const ModelCache& cache,
                               const RemoteModel& model, const DownloadOptions& options,
                               uint64_t bytes_per_s, const PullWatch& watch) {
  KVASIR_CHECK(!model.files.empty());
  for (const RemoteFile& file : model.files) KVASIR_CHECK(is_file_name(file.name));
  KVASIR_TRY_VOID(check_space(plan_pull(cache, model)));
  KVASIR_TRY(const std::string folder, cache.make_folder(model));
  KVASIR_TRY(const CacheLock lock, CacheLock::take(folder));
  KVASIR_TRY_VOID(check_unchanged(folder, model, options.if_changed));
  KVASIR_TRY_VOID(cache.keep_record(folder, record_of(model)));

  Pacer pacer(bytes_per_s);
  const PullPlan plan = plan_pull(cache, model);
  uint64_t others = plan.bytes_here;  // of all files but the current one
  for (size_t i = 0; i < model.files.size(); ++i) {
    const RemoteFile& file = model.files[i];
    const std::string path = folder + "/" + file.name;
    const uint64_t before = verified_bytes(path, file);
    others -= before;
    KVASIR_TRY(const bool here, is_here(path, file, options.if_changed));
    if (!here) {
      DownloadWatch file_watch;
      file_watch.stop = watch.stop;
      file_watch.progress = [&](DownloadStage stage, uint64_t done) {
        if (!watch.progress) return;
        const uint64_t verified = stage == DownloadStage::kFetching  ? done
                                  : stage == DownloadStage::kProving ? file.bytes
                                                                     : before;
        watch.progress({stage, i, done, others + verified});
      };
      KVASIR_TRY(const DownloadEnd end, download_file(web, file, path, options, pacer, file_watch));
      if (end == DownloadEnd::kStopped) return end;
    }
    others += file.bytes;
    if (watch.progress) watch.progress({DownloadStage::kFetching, i, file.bytes, others});
  }
  return DownloadEnd::kComplete;
}

Result<std::string> fetch_headers(const WebClient& web, const RemoteModel& model,
                                  const std::string& folder) {
  for (const RemoteFile& file : model.files) {
    KVASIR_CHECK(is_file_name(file.name));
    KVASIR_TRY_VOID(fetch_header(web, file, folder + "/" + file.name));
  }
  return folder + "/" + model.files.front().name;
}

}  // namespace kvasir::pull
