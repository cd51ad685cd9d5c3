// Models that were fetched, or are being fetched: $XDG_CACHE_HOME/kvasir/models, else
// ~/.cache/kvasir/models.
//
//   hub/HOST/ORG/REPO/REVISION/NAME/     one folder per model, holding
//   web/HOST/HASH/                         model.record   what the model is
//                                          NAME.gguf      its files, each with a .journal; an
//                                          unfinished
//                                                         one ends in .part
//                                          pull.lock      held while somebody fetches or removes
//
//   record := "kvasir-model 1", "reference" text, "quantization" text, file+, "sha256" hash
//   file   := "file" bytes (hash | "-") name address
//
// The texts are percent-encoded; the last line is the SHA-256 of those above it. Folders are found
// by looking for records, files by the names in them: nothing a server says is ever joined to a
// path unchecked, and nothing is removed that a record does not name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pull/model_reference.h"
#include "pull/remote_model.h"

namespace kvasir::pull {

struct RecordedFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // empty: unknown
  std::string address;

  bool operator==(const RecordedFile&) const = default;
};

struct ModelRecord {
  std::string reference;
  std::string quantization;
  std::vector<RecordedFile> files;

  uint64_t bytes() const;
  bool operator==(const ModelRecord&) const = default;
};

ModelRecord record_of(const RemoteModel& model);
std::string record_text(const ModelRecord& record);
// Pure. kCorrupt for anything that record_text() does not write.
Result<ModelRecord> parse_record(std::string_view text);

struct CachedModel {
  std::string folder;
  ModelRecord record;
  uint64_t bytes_here = 0;  // complete files, and what the journals of the others say
  uint64_t disk_bytes = 0;  // used now
  bool complete = false;

  // Of the file to open: the first part.
  std::string path() const { return folder + "/" + record.files.front().name; }
};

// Held until it goes away. By the kernel: a process that dies holds nothing.
class CacheLock {
 public:
  // kInvalid if another process holds it.
  static Result<CacheLock> take(const std::string& folder);
  CacheLock(CacheLock&& other) noexcept;
  CacheLock& operator=(CacheLock&&) = delete;
  ~CacheLock();

 private:
  explicit CacheLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Thread-safe: keeps no state.
class ModelCache {
 public:
  // kNotFound where neither XDG_CACHE_HOME nor HOME says where it is.
  static Result<ModelCache> of_user();
  explicit ModelCache(std::string root) : root_(std::move(root)) {}
  const std::string& root() const { return root_; }

  // By reference. Folders without a readable record are passed over.
  std::vector<CachedModel> list() const;
  // Those that `reference` may mean: several if it leaves the quantisation open and the default one
  // is not here.
  std::vector<CachedModel> find(const ModelReference& reference) const;

  // What is in one folder; nothing without a readable record.
  static std::optional<CachedModel> read(const std::string& folder);

  // Makes the folder of a model that is about to be fetched.
  Result<std::string> make_folder(const RemoteModel& model) const;
  Result<void> keep_record(const std::string& folder, const ModelRecord& record) const;

  // Removes what the record names, and the folders that become empty; gives the bytes it freed.
  // kInvalid while somebody fetches the model.
  Result<uint64_t> remove(const CachedModel& model) const;

 private:
  std::string root_;
};

// The file that a person means by `text`: a path that exists, or what was fetched by that
// reference. kNotFound with the command that fetches it. Touches no network.
Result<std::string> resolve_model(const std::string& text);

}  // namespace kvasir::pull
