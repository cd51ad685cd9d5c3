// Which parts of a file have arrived, so that a download goes on after any interruption.
//
//   journal := "kvasir-download 1", "bytes" n, "etag" text, "sha256" (hash | "-"), "head" hash,
//   range* range   := "range" index hash check
//
// The texts are percent-encoded. "head" is the SHA-256 of the lines above it. A range is 1 MiB, the
// last one shorter; its hash is that of its bytes, its check the first 16 digits of the SHA-256 of
// the head's hash and the line before the check. Lines are only ever appended. One that was torn,
// or belongs to another head, counts as absent: its range is fetched again.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::pull {

// Smaller: more lines and checks. Larger: more to fetch again after a crash.
inline constexpr uint64_t kRangeBytes = uint64_t{1} << 20;
// 2 million ranges: files of 2 TB.
inline constexpr size_t kJournalBytesMax = size_t{256} << 20;

// Which state of which file the ranges belong to.
struct JournalHead {
  uint64_t bytes = 0;
  std::string etag;
  std::string sha256;  // of the whole file; empty: unknown

  uint64_t ranges() const { return bytes / kRangeBytes + (bytes % kRangeBytes != 0 ? 1 : 0); }
  uint64_t range_bytes(uint64_t index) const {
    return std::min(kRangeBytes, bytes - index * kRangeBytes);
  }
};

struct Journal {
  JournalHead head;
  std::map<uint64_t, std::string> ranges;  // index -> SHA-256
  bool damaged = false;                    // some lines counted as absent

  uint64_t bytes() const;  // of all its ranges
};

// Pure. kCorrupt if the head is damaged: then nothing is known.
Result<Journal> parse_journal(std::string_view text);
std::string journal_text(const Journal& journal);
std::string journal_line(const JournalHead& head, uint64_t index, const std::string& sha256);

// kNotFound if there is none, else as parse_journal().
Result<Journal> read_journal(const std::string& path);

// Appends to a file. One thread.
class JournalFile {
 public:
  // Writes `journal` anew, whole or not at all, and stays open for what is appended.
  static Result<JournalFile> create(const std::string& path, const Journal& journal);
  JournalFile(JournalFile&& other) noexcept;
  JournalFile& operator=(JournalFile&&) = delete;
  ~JournalFile();

  Result<void> append(uint64_t index, const std::string& sha256);

 private:
  JournalFile(std::string path, JournalHead head, int descriptor)
      : path_(std::move(path)), head_(std::move(head)), descriptor_(descriptor) {}

  std::string path_;
  JournalHead head_;
  int descriptor_;
};

}  // namespace kvasir::pull
