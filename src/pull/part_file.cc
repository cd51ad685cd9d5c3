#include "pull/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/sha256.h"

namespace kvasir::pull {
namespace {

// False if the file ends before; an error if it cannot be read.
Result<bool> read_at(int descriptor, uint64_t offset, std::span<std::byte> out,
                     const std::string& path) {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::io("{}: cannot read: {}", path, std::strerror(errno));
    if (count == 0) return false;
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return true;
}

Error stopped(const std::string& path) {
  return Error::io("{}: stopped", path);
}

// Drops every range that the file does not hold as it came. `whole` gets all bytes, if it is given.
Result<void> check_ranges(int descriptor, const std::string& path, Journal& journal, Sha256* whole,
                          const PartFile::Watch& watch) {
  std::vector<std::byte> buffer(kRangeBytes);
  uint64_t done = 0;
  for (auto it = journal.ranges.begin(); it != journal.ranges.end();) {
    const std::span bytes =
        std::span(buffer).first(static_cast<size_t>(journal.head.range_bytes(it->first)));
    KVASIR_TRY(const bool there, read_at(descriptor, it->first * kRangeBytes, bytes, path));
    done += bytes.size();
    if (whole != nullptr) whole->update(bytes);
    if (there && sha256_hex(bytes) == it->second)
      ++it;
    else
      it = journal.ranges.erase(it);
    if (watch && !watch(done)) return stopped(path);
  }
  return {};
}

Result<int> open_part(const std::string& path, uint64_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return Error::io("{}: cannot write: {}", path, std::strerror(errno));
  // As long as it will be, by a hole; what was cut off reads as zeros and fails its check.
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    ::close(descriptor);
    return Error::io("{}: cannot grow to {} bytes: {}", path, bytes, std::strerror(error));
  }
  return descriptor;
}

// What was fetched before and may be used; its head is `head` in any case.
Result<Journal> journal_before(const std::string& path, const JournalHead& head,
                               IfChanged if_changed) {
  Journal journal;
  journal.head = head;
  auto before = read_journal(journal_path(path));
  if (!before) return journal;  // nobody knows what is in the part: all of it is fetched
  if (is_same_file(before->head, head)) {
    journal.ranges = std::move(before->ranges);
  } else if (if_changed == IfChanged::kRefuse) {
    return Error::corrupt(
               "{}: has changed where it comes from: {} of {} bytes of the earlier one "
               "are here, the new one has {} bytes",
               path, before->bytes(), before->head.bytes, head.bytes)
        .with_hint("--restart fetches this file from its beginning");
  }
  return journal;
}

}  // namespace

std::string part_path(const std::string& path) {
  return path + ".part";
}

std::string journal_path(const std::string& path) {
  return path + ".journal";
}

bool is_complete_file(const std::string& path, uint64_t bytes) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (static_cast<uint64_t>(status.st_size) != bytes) return false;
  // A restart leaves the old file where it is until the new one is proved.
  return ::lstat(part_path(path).c_str(), &status) != 0;
}

bool is_same_file(const JournalHead& before, const JournalHead& now) {
  if (before.bytes != now.bytes) return false;
  if (!before.sha256.empty() && !now.sha256.empty()) return before.sha256 == now.sha256;
  return !now.etag.empty() && before.etag == now.etag;
}

Result<PartFile> PartFile::open(const std::string& path, const JournalHead& head,
                                IfChanged if_changed, const Watch& watch) {
  KVASIR_TRY(Journal journal, journal_before(path, head, if_changed));
  KVASIR_TRY(const int descriptor, open_part(part_path(path), head.bytes));
  auto checked = check_ranges(descriptor, path, journal, nullptr, watch);
  if (!checked) {
    ::close(descriptor);
    return std::move(checked.error());
  }
  auto file = JournalFile::create(journal_path(path), journal);
  if (!file) {
    ::close(descriptor);
    return std::move(file.error());
  }
  return PartFile(path, descriptor, std::move(journal), std::move(*file));
}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      journal_(std::move(other.journal_)),
      verified_bytes_(other.verified_bytes_),
      file_(std::move(other.file_)) {}

PartFile::~PartFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

PartFile::Gap PartFile::next_gap(uint64_t from, uint64_t ranges_max) const {
  const uint64_t ranges = journal_.head.ranges();
  uint64_t first = from;
  auto next = journal_.ranges.lower_bound(from);
  while (next != journal_.ranges.end() && next->first == first) {
    ++first;
    ++next;
  }
  if (first >= ranges) return {ranges, ranges};
  const uint64_t known = next == journal_.ranges.end() ? ranges : next->first;
  return {first, std::min(known, first + ranges_max)};
}

Result<WrittenRange> PartFile::write(uint64_t index, ByteSpan bytes) const {
  KVASIR_CHECK(index < head().ranges() && bytes.size() == head().range_bytes(index));
  WrittenRange range{index, sha256_hex(bytes)};
  uint64_t offset = index * kRangeBytes;
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::io("{}: cannot write: {}", path_, std::strerror(errno));
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return range;
}

Result<void> PartFile::record(const WrittenRange& range) {
  KVASIR_TRY_VOID(file_->append(range.index, range.sha256));
  if (journal_.ranges.insert_or_assign(range.index, range.sha256).second)
    verified_bytes_ += head().range_bytes(range.index);
  return {};
}

Result<void> PartFile::rewrite_journal() {
  verified_bytes_ = journal_.bytes();
  KVASIR_TRY(JournalFile file, JournalFile::create(journal_path(path_), journal_));
  file_ = std::make_unique<JournalFile>(std::move(file));
  return {};
}

Result<bool> PartFile::prove(const Watch& watch) {
  KVASIR_CHECK(complete());
  Sha256 whole;
  KVASIR_TRY_VOID(check_ranges(descriptor_, path_, journal_, &whole, watch));
  if (!complete()) {
    KVASIR_TRY_VOID(rewrite_journal());
    return false;
  }
  if (head().sha256.empty() || whole.hex() == head().sha256) return true;
  journal_.ranges.clear();
  KVASIR_TRY_VOID(rewrite_journal());
  return Error::corrupt("{}: what came has the SHA-256 {}, but should have {}", path_, whole.hex(),
                        head().sha256)
      .with_hint(
          "it was damaged on its way, or where it comes from; the same command fetches it "
          "again");
}

Result<void> PartFile::finish() {
  const auto failed = [&] {
    return Error::io("{}: cannot finish writing: {}", path_, std::strerror(errno));
  };
  if (::fsync(descriptor_) != 0) return failed();
  if (::close(std::exchange(descriptor_, -1)) != 0) return failed();
  if (::rename(part_path(path_).c_str(), path_.c_str()) != 0) return failed();
  return {};
}

}  // namespace kvasir::pull
