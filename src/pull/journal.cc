#include "pull/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/output_file.h"
#include "base/sha256.h"
#include "gguf/manifest.h"
#include "pull/file_names.h"
#include "pull/remote_model.h"

namespace kvasir::pull {
namespace {

constexpr std::string_view kMagic = "kvasir-download 1\n";
constexpr size_t kEtagBytesMax = 1024;
constexpr size_t kCheckDigits = 16;

std::string head_lines(const JournalHead& head) {
  return fmt::format("{}bytes {}\netag {}\nsha256 {}\n", kMagic, head.bytes,
                     gguf::percent_encoded(head.etag), head.sha256.empty() ? "-" : head.sha256);
}

std::string head_hash(const JournalHead& head) {
  return sha256_hex(bytes_of(head_lines(head)));
}

std::string line_check(const std::string& head_hash, const std::string& line) {
  return sha256_hex(bytes_of(head_hash + line)).substr(0, kCheckDigits);
}

std::string checked_line(const std::string& head_hash, uint64_t index, const std::string& sha256) {
  const std::string line = fmt::format("range {} {}", index, sha256);
  return line + " " + line_check(head_hash, line) + "\n";
}

// The text up to the next line end, which is taken too; nothing if there is none.
std::optional<std::string_view> take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::optional<std::string_view> take_value(std::string_view& text, std::string_view name) {
  const auto line = take_line(text);
  if (!line || !line->starts_with(name) || line->size() <= name.size() ||
      (*line)[name.size()] != ' ')
    return std::nullopt;
  return line->substr(name.size() + 1);
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Error damaged(std::string_view what) {
  return Error::corrupt("the journal of a download is damaged: {}", what);
}

Result<JournalHead> take_head(std::string_view& text) {
  const std::string_view whole = text;
  if (!text.starts_with(kMagic)) return damaged("it does not begin like one");
  text.remove_prefix(kMagic.size());
  JournalHead head;
  const auto bytes = take_value(text, "bytes");
  const auto number = bytes ? whole_number(*bytes) : std::nullopt;
  if (!number || *number == 0 || *number > kFileBytesMax) return damaged("the size");
  head.bytes = *number;
  // percent_encoded("") is empty, and so is the value.
  auto etag = take_line(text);
  if (!etag || !etag->starts_with("etag ") || etag->size() > 3 * kEtagBytesMax)
    return damaged("the ETag");
  const auto decoded = gguf::percent_decoded(etag->substr(5));
  if (!decoded) return damaged("the ETag");
  head.etag = *decoded;
  const auto sha256 = take_value(text, "sha256");
  if (!sha256 || (*sha256 != "-" && !is_sha256(*sha256))) return damaged("the checksum");
  if (*sha256 != "-") head.sha256 = *sha256;
  const size_t length = static_cast<size_t>(text.data() - whole.data());
  const auto check = take_value(text, "head");
  if (!check || *check != sha256_hex(bytes_of(whole.substr(0, length)))) return damaged("the head");
  return head;
}

struct RangeLine {
  uint64_t index = 0;
  std::string sha256;
};

std::optional<RangeLine> parse_range_line(std::string_view line, const JournalHead& head,
                                          const std::string& head_hash) {
  constexpr std::string_view kName = "range ";
  if (!line.starts_with(kName)) return std::nullopt;
  const size_t hash_at = line.find(' ', kName.size());
  if (hash_at == std::string_view::npos || line.size() != hash_at + 1 + 64 + 1 + kCheckDigits)
    return std::nullopt;
  const auto index = whole_number(line.substr(kName.size(), hash_at - kName.size()));
  const std::string_view hash = line.substr(hash_at + 1, 64);
  if (!index || *index >= head.ranges() || !is_sha256(hash)) return std::nullopt;
  RangeLine range{*index, std::string(hash)};
  const std::string expected = checked_line(head_hash, range.index, range.sha256);
  if (expected.substr(0, expected.size() - 1) != line) return std::nullopt;
  return range;
}

}  // namespace

uint64_t Journal::bytes() const {
  uint64_t sum = 0;
  for (const auto& [index, hash] : ranges) sum += head.range_bytes(index);
  return sum;
}

Result<Journal> parse_journal(std::string_view text) {
  Journal journal;
  KVASIR_TRY(journal.head, take_head(text));
  const std::string hash = head_hash(journal.head);
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto range = line ? parse_range_line(*line, journal.head, hash) : std::nullopt;
    if (range)
      journal.ranges[range->index] = range->sha256;
    else
      journal.damaged = true;
    if (!line) break;  // torn while it was written
  }
  return journal;
}

std::string journal_text(const Journal& journal) {
  const std::string hash = head_hash(journal.head);
  std::string text = head_lines(journal.head) + "head " + hash + "\n";
  for (const auto& [index, sha256] : journal.ranges) text += checked_line(hash, index, sha256);
  return text;
}

std::string journal_line(const JournalHead& head, uint64_t index, const std::string& sha256) {
  return checked_line(head_hash(head), index, sha256);
}

Result<Journal> read_journal(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return Error::not_found("{}: no such file", path);
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) > kJournalBytesMax)
    return Error::corrupt("{}: no journal of a download", path);
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  auto journal = parse_journal(std::move(text).str());
  if (!journal) return std::move(journal.error()).in(path);
  return journal;
}

Result<JournalFile> JournalFile::create(const std::string& path, const Journal& journal) {
  KVASIR_TRY(OutputFile file, OutputFile::create(path));
  KVASIR_TRY_VOID(file.write(bytes_of(journal_text(journal))));
  KVASIR_TRY_VOID(file.finish());
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) return Error::io("{}: cannot write: {}", path, std::strerror(errno));
  return JournalFile(path, journal.head, descriptor);
}

JournalFile::JournalFile(JournalFile&& other) noexcept
    : path_(std::move(other.path_)),
      head_(std::move(other.head_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

JournalFile::~JournalFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> JournalFile::append(uint64_t index, const std::string& sha256) {
  const std::string line = journal_line(head_, index, sha256);
  ssize_t written;
  do {
    written = ::write(descriptor_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  // A torn line counts as absent, so there is nothing to take back.
  if (written != static_cast<ssize_t>(line.size()))
    return Error::io("{}: cannot write: {}", path_,
                     written < 0 ? std::strerror(errno) : "the disk is full");
  return {};
}

}  // namespace kvasir::pull
