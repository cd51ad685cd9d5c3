// A file that is being fetched: "<path>.part", as long as it will be, with a journal of what has
// arrived in "<path>.journal". The journal stays when the file is complete: it says what was
// fetched.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "pull/journal.h"

namespace kvasir::pull {

std::string part_path(const std::string& path);
std::string journal_path(const std::string& path);

// `path` is there, so long, and not about to be replaced.
bool is_complete_file(const std::string& path, uint64_t bytes);

enum class IfChanged : uint8_t {
  kRefuse,   // an error that says so
  kRestart,  // from nothing
};

// Whether ranges of `before` may be used for `now`: equal length and checksum, or, where one of
// them has no checksum, an equal ETag.
bool is_same_file(const JournalHead& before, const JournalHead& now);

// What a range is called when it has been written but is not yet in the journal.
struct WrittenRange {
  uint64_t index = 0;
  std::string sha256;
};

// write() is thread-safe; everything else is one thread's, or guarded by the caller.
class PartFile {
 public:
  // Called with the bytes looked at so far; false stops.
  using Watch = std::function<bool(uint64_t done_bytes)>;

  // Takes over what is there: each range of the journal is read and hashed again, since a machine
  // that lost its power may have kept the journal and lost the data. Nothing is ever deleted.
  // kCorrupt if another state of the file was being fetched, and `if_changed` refuses; kIo also if
  // `watch` stops it.
  static Result<PartFile> open(const std::string& path, const JournalHead& head,
                               IfChanged if_changed, const Watch& watch);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();

  const JournalHead& head() const { return journal_.head; }
  bool has(uint64_t index) const { return journal_.ranges.count(index) != 0; }
  bool complete() const { return journal_.ranges.size() == journal_.head.ranges(); }
  uint64_t verified_bytes() const { return verified_bytes_; }
  const std::string& hash_of(uint64_t index) const { return journal_.ranges.at(index); }
  // Half-open, in bytes: the first gap at or behind `from`, at most `bytes_max` long; empty if
  // there is none. bytes_max is a multiple of kRangeBytes.
  struct Gap {
    uint64_t first = 0, end = 0;  // ranges
  };
  Gap next_gap(uint64_t from, uint64_t ranges_max) const;

  // One whole range of bytes to its place.
  Result<WrittenRange> write(uint64_t index, ByteSpan bytes) const;
  Result<void> record(const WrittenRange& range);

  // Reads everything again. Ranges that are not what came are dropped from the journal, to be
  // fetched again: false. kCorrupt if every range is what came but the whole is not what it should
  // be: then none of it counts any more.
  Result<bool> prove(const Watch& watch);
  // Gives it its name, after prove() has said true. Nothing may follow.
  Result<void> finish();

 private:
  PartFile(std::string path, int descriptor, Journal journal, JournalFile file)
      : path_(std::move(path)),
        descriptor_(descriptor),
        journal_(std::move(journal)),
        verified_bytes_(journal_.bytes()),
        file_(std::make_unique<JournalFile>(std::move(file))) {}
  Result<void> rewrite_journal();

  std::string path_;
  int descriptor_;
  Journal journal_;
  uint64_t verified_bytes_;
  std::unique_ptr<JournalFile> file_;
};

}  // namespace kvasir::pull
