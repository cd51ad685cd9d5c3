// Reads ranges of files in the background, around the page cache where the file system allows it:
// many reads are asked for at once and reported in the order in which they finish.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/read_backend.h"

namespace kvasir {

// A file to read from. The descriptor belongs to somebody else and outlives the reader; the reader
// opens the same file (not the same name) once more for direct reading.
struct ReadableFile {
  int descriptor = -1;
  std::string name;  // for error messages
};

struct RangeRead {
  size_t file = 0;  // index into the files of the reader
  uint64_t offset = 0;
  uint64_t bytes = 0;  // not 0
  // Where byte `offset` goes. Has the same place within its page as `offset` has within the file's,
  // and all of the pages that the range touches belong to the caller: they are overwritten.
  std::byte* to = nullptr;
  uint64_t tag = 0;
};

struct FinishedRead {
  uint64_t tag = 0;
  std::optional<Error> error;  // names file and offset
};

// kAuto: io_uring where the system lets us have it, else threads.
enum class ReadMethod : uint8_t { kAuto, kIoUring, kThreads };

// kNeeded reads are started before all kSoon ones that have not been started yet.
enum class Urgency : uint8_t { kNeeded, kSoon };

// One thread. Destruction waits for the reads that are in flight.
class FileReader {
 public:
  static constexpr size_t kPageBytes = 4096;

  // KVASIR_READER=threads in the environment turns kAuto into kThreads. kUnsupported if io_uring is
  // asked for and not there.
  static Result<std::unique_ptr<FileReader>> open(std::vector<ReadableFile> files,
                                                  ReadMethod method = ReadMethod::kAuto);
  // With a backend of the caller's: for tests.
  static std::unique_ptr<FileReader> open(std::vector<ReadableFile> files,
                                          std::unique_ptr<ReadBackend> backend);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  // Starts reads, the first ones first. Never waits: what the backend has no room for is started
  // by a later call, once something has finished.
  void submit(std::span<const RangeRead> reads, Urgency urgency = Urgency::kNeeded);
  // Reads with this tag become kNeeded.
  void hurry(uint64_t tag);
  // The reads that have finished since the last call. Waits for at least one, but no longer than
  // `patience`; empty when nothing is in flight or time ran out.
  std::vector<FinishedRead> wait(std::chrono::milliseconds patience);

  size_t in_flight() const { return n_reads_; }
  // Bytes of all reads that finished well, as the device saw them: whole pages.
  uint64_t bytes_read() const { return bytes_read_; }
  const std::string& name(size_t file) const { return files_[file].source.name; }
  std::string_view method() const { return backend_->name(); }  // "io_uring", "threads"
  bool direct() const;  // every file is read around the page cache

 private:
  struct File {
    ReadableFile source;
    int own = -1;  // opened by us; -1: the source's descriptor has to do
    bool is_direct = false;
    bool was_direct = false;  // until its file system refused to read so

    int descriptor() const { return own >= 0 ? own : source.descriptor; }
  };
  // A part of a read that goes to the system in one go.
  struct Piece {
    size_t read = 0;  // index into reads_
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::byte* to = nullptr;
  };
  struct Read {
    RangeRead range;
    size_t pieces_left = 0;
    size_t retries = 0;
    std::optional<Error> error;
  };

  FileReader(std::vector<File> files, std::unique_ptr<ReadBackend> backend);
  static void open_again(File& file);
  std::deque<Piece>& queue(Urgency urgency) { return queues_[static_cast<size_t>(urgency)]; }
  void start_pieces();
  void finish_piece(const Piece& piece, int64_t result);
  // The piece goes back to the front of the queue, less what has been read of it.
  void read_on(Piece piece, uint64_t done);
  void fail(Read& read, Error error);
  void end_piece(size_t read_index);

  std::vector<File> files_;
  std::vector<Read> reads_;
  std::vector<size_t> free_reads_;
  std::vector<Piece> started_;  // by slot of the backend
  std::vector<uint32_t> free_slots_;
  std::deque<Piece> queues_[2];  // by urgency; not started
  std::vector<PieceRead> batch_;
  std::vector<PieceResult> results_;
  std::vector<FinishedRead> finished_;
  size_t n_reads_ = 0;
  uint64_t bytes_read_ = 0;
  std::unique_ptr<ReadBackend> backend_;
};

}  // namespace kvasir
