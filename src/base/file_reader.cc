#include "base/file_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

// Larger: a needed read waits longer behind one that only might be. Smaller: more work for the
// system per byte; 128 KiB gave 5/6 of the rate of 1 MiB (docs/offload.md).
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// A system that says "try again" this often for one read is not going to do it.
constexpr size_t kRetriesMax = 1000;

// At destruction. Disks that need longer are broken.
constexpr std::chrono::minutes kLastWait{2};

uint64_t page_begin(uint64_t offset) {
  return offset / FileReader::kPageBytes * FileReader::kPageBytes;
}
uint64_t page_end(uint64_t offset) {
  return page_begin(offset + FileReader::kPageBytes - 1);
}

Result<std::unique_ptr<ReadBackend>> make_backend(ReadMethod method) {
  if (method == ReadMethod::kAuto) {
    const char* wanted = std::getenv("KVASIR_READER");
    if (wanted != nullptr && std::string_view(wanted) == "threads") return make_thread_backend();
    auto backend = make_io_uring_backend();
    return backend ? std::move(backend) : make_thread_backend();
  }
  return method == ReadMethod::kIoUring ? make_io_uring_backend() : make_thread_backend();
}

}  // namespace

Result<std::unique_ptr<FileReader>> FileReader::open(std::vector<ReadableFile> files,
                                                     ReadMethod method) {
  KVASIR_TRY(auto backend, make_backend(method));
  return open(std::move(files), std::move(backend));
}

std::unique_ptr<FileReader> FileReader::open(std::vector<ReadableFile> sources,
                                             std::unique_ptr<ReadBackend> backend) {
  std::vector<File> files;
  for (ReadableFile& source : sources) {
    files.push_back({std::move(source), -1, false, false});
    open_again(files.back());
  }
  return std::unique_ptr<FileReader>(new FileReader(std::move(files), std::move(backend)));
}

// By way of /proc, which leads to the same file even if its name means another one by now.
void FileReader::open_again(File& file) {
  const std::string link = fmt::format("/proc/self/fd/{}", file.source.descriptor);
  file.own = ::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  file.is_direct = file.own >= 0;
  if (!file.is_direct) file.own = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
}

FileReader::FileReader(std::vector<File> files, std::unique_ptr<ReadBackend> backend)
    : files_(std::move(files)), backend_(std::move(backend)) {
  started_.resize(backend_->depth());
  for (size_t slot = started_.size(); slot-- > 0;)
    free_slots_.push_back(static_cast<uint32_t>(slot));
}

FileReader::~FileReader() {
  queues_[0].clear();
  queues_[1].clear();
  const Clock::time_point deadline = Clock::now() + kLastWait;
  while (free_slots_.size() < started_.size()) {
    // Going on would free memory that the disk still may write to.
    KVASIR_CHECK(Clock::now() < deadline);
    results_.clear();
    backend_->wait(std::chrono::seconds(1), results_);
    for (const PieceResult& result : results_) free_slots_.push_back(result.slot);
  }
  backend_.reset();
  for (const File& file : files_)
    if (file.own >= 0) ::close(file.own);
}

bool FileReader::direct() const {
  return std::all_of(files_.begin(), files_.end(), [](const File& file) { return file.is_direct; });
}

void FileReader::submit(std::span<const RangeRead> reads, Urgency urgency) {
  for (const RangeRead& range : reads) {
    KVASIR_CHECK(range.file < files_.size() && range.bytes != 0);
    const uint64_t begin = page_begin(range.offset), end = page_end(range.offset + range.bytes);
    std::byte* to = range.to - (range.offset - begin);
    KVASIR_CHECK(reinterpret_cast<uintptr_t>(to) % kPageBytes == 0);

    if (free_reads_.empty()) {
      free_reads_.push_back(reads_.size());
      reads_.emplace_back();
    }
    const size_t index = free_reads_.back();
    free_reads_.pop_back();
    Read& read = reads_[index];
    read = {range, 0, 0, std::nullopt};
    for (uint64_t at = begin; at < end; at += kPieceBytes) {
      queue(urgency).push_back({index, at, std::min(kPieceBytes, end - at), to + (at - begin)});
      ++read.pieces_left;
    }
    ++n_reads_;
  }
  start_pieces();
}

void FileReader::hurry(uint64_t tag) {
  auto& soon = queue(Urgency::kSoon);
  const auto is_other = [&](const Piece& piece) { return reads_[piece.read].range.tag != tag; };
  const auto hurried = std::stable_partition(soon.begin(), soon.end(), is_other);
  queue(Urgency::kNeeded).insert(queue(Urgency::kNeeded).end(), hurried, soon.end());
  soon.erase(hurried, soon.end());
}

std::vector<FinishedRead> FileReader::wait(std::chrono::milliseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  auto left = patience;
  while (free_slots_.size() < started_.size()) {
    results_.clear();
    backend_->wait(left, results_);
    for (const PieceResult& result : results_) {
      const Piece piece = started_[result.slot];
      free_slots_.push_back(result.slot);
      finish_piece(piece, result.result);
    }
    start_pieces();
    if (!finished_.empty()) break;
    left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) break;
  }
  return std::exchange(finished_, {});
}

void FileReader::start_pieces() {
  batch_.clear();
  for (auto& pieces : queues_) {
    while (!pieces.empty() && !free_slots_.empty()) {
      const Piece piece = pieces.front();
      pieces.pop_front();
      const uint32_t slot = free_slots_.back();
      free_slots_.pop_back();
      started_[slot] = piece;
      batch_.push_back({files_[reads_[piece.read].range.file].descriptor(), piece.offset,
                        static_cast<size_t>(piece.bytes), piece.to, slot});
    }
  }
  if (!batch_.empty()) backend_->start(batch_);
}

void FileReader::finish_piece(const Piece& piece, int64_t result) {
  Read& read = reads_[piece.read];
  File& file = files_[read.range.file];
  if (read.error) return end_piece(piece.read);  // an earlier piece's; this one does not matter
  if (result < 0) {
    const int code = static_cast<int>(-result);
    const bool again = code == EINTR || code == EAGAIN;
    // A file system that opens files for direct reading and then will not do it.
    const bool refuses_direct = code == EINVAL && file.is_direct;
    if (refuses_direct) {
      const std::string link = fmt::format("/proc/self/fd/{}", file.source.descriptor);
      const int buffered = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
      // Other pieces may be in flight on the descriptor: it keeps its number.
      if (buffered >= 0) {
        ::dup3(buffered, file.own, O_CLOEXEC);
        ::close(buffered);
        file.is_direct = false;
        file.was_direct = true;
        return read_on(piece, 0);
      }
    }
    // Refused before another piece's refusal changed how the file is read.
    const bool is_late = code == EINVAL && file.was_direct;
    if ((again || is_late) && ++read.retries < kRetriesMax) return read_on(piece, 0);
    fail(read, Error::io("{}: cannot read {} bytes at offset {}: {}", file.source.name, piece.bytes,
                         piece.offset, std::strerror(code)));
    return end_piece(piece.read);
  }

  const auto count = static_cast<uint64_t>(result);
  bytes_read_ += count;
  if (!file.is_direct)
    ::posix_fadvise(file.descriptor(), static_cast<off_t>(piece.offset),
                    static_cast<off_t>(piece.bytes), POSIX_FADV_DONTNEED);
  // What follows the range on its last page need not be there.
  const uint64_t need_end =
      std::min(piece.offset + piece.bytes, read.range.offset + read.range.bytes);
  if (piece.offset + count >= need_end) return end_piece(piece.read);
  // Direct reads go on at whole pages; one that ends inside of a page ends with the file.
  const uint64_t done = file.is_direct ? page_begin(count) : count;
  if (done != 0 && ++read.retries < kRetriesMax) return read_on(piece, done);
  fail(read, Error::io("{}: cannot read {} bytes at offset {}: the file ends at {}",
                       file.source.name, piece.bytes, piece.offset, piece.offset + count)
                 .with_hint("it was cut off while in use: restore it and start again"));
  end_piece(piece.read);
}

void FileReader::read_on(Piece piece, uint64_t done) {
  piece.offset += done;
  piece.bytes -= done;
  piece.to += done;
  queue(Urgency::kNeeded).push_front(piece);
}

// Pieces of the read that have not been started never are.
void FileReader::fail(Read& read, Error error) {
  read.error = std::move(error);
  const auto index = static_cast<size_t>(&read - reads_.data());
  for (auto& pieces : queues_)
    read.pieces_left -=
        std::erase_if(pieces, [&](const Piece& piece) { return piece.read == index; });
}

void FileReader::end_piece(size_t read_index) {
  Read& read = reads_[read_index];
  if (--read.pieces_left != 0) return;
  finished_.push_back({read.range.tag, std::move(read.error)});
  free_reads_.push_back(read_index);
  --n_reads_;
}

}  // namespace kvasir
