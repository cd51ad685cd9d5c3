// Ranges of real files by both methods, and a backend that fails in every way a system may.
#include "base/file_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <random>

namespace kvasir {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr size_t kPage = FileReader::kPageBytes;
constexpr milliseconds kPatience = seconds(60);

// A file of random bytes, open for reading and writing, gone with the object.
class RandomFile {
 public:
  explicit RandomFile(size_t bytes) : contents_(bytes) {
    std::mt19937_64 random(bytes);
    for (std::byte& byte : contents_) byte = static_cast<std::byte>(random());
    std::string pattern = std::filesystem::temp_directory_path() / "kvasir-reader-XXXXXX";
    descriptor_ = ::mkstemp(pattern.data());
    path_ = pattern;
    EXPECT_EQ(::write(descriptor_, contents_.data(), bytes), static_cast<ssize_t>(bytes));
  }
  ~RandomFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  ReadableFile readable() const { return {descriptor_, path_}; }
  void cut_to(size_t bytes) const {
    ASSERT_EQ(::ftruncate(descriptor_, static_cast<off_t>(bytes)), 0);
  }
  const std::string& path() const { return path_; }
  const std::vector<std::byte>& contents() const { return contents_; }

 private:
  std::vector<std::byte> contents_;
  std::string path_;
  int descriptor_ = -1;
};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// A range of a file and pages to read it into, which are not zero before.
struct Target {
  Target(size_t file, uint64_t offset, uint64_t bytes, uint64_t tag) {
    const size_t size = (offset % kPage + bytes + kPage - 1) / kPage * kPage;
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
    std::fill_n(memory.get(), size, std::byte{0xA5});
    read = {file, offset, bytes, memory.get() + offset % kPage, tag};
  }
  bool holds(const RandomFile& file) const {
    return std::equal(read.to, read.to + read.bytes,
                      file.contents().begin() + static_cast<ptrdiff_t>(read.offset));
  }

  std::unique_ptr<std::byte, Free> memory;
  RangeRead read;
};

std::map<uint64_t, std::string> wait_for_all(FileReader& reader) {
  std::map<uint64_t, std::string> messages;  // by tag; empty: no error
  while (reader.in_flight() != 0) {
    const auto finished = reader.wait(kPatience);
    EXPECT_FALSE(finished.empty());
    if (finished.empty()) break;
    for (const FinishedRead& read : finished) {
      EXPECT_FALSE(messages.contains(read.tag));
      messages[read.tag] = read.error ? read.error->message : "";
    }
  }
  return messages;
}

class FileReaders : public testing::TestWithParam<ReadMethod> {
 protected:
  static std::unique_ptr<FileReader> open(std::vector<ReadableFile> files) {
    auto reader = FileReader::open(std::move(files), GetParam());
    return reader ? std::move(*reader) : nullptr;
  }
};

// More reads than any backend takes at once, of all sizes and places, from two files; the last
// bytes of a file that is no multiple of a page included.
TEST_P(FileReaders, ReadWhatIsInTheFiles) {
  const RandomFile large(9'000'001), small(4097);
  const auto reader = open({large.readable(), small.readable()});
  if (reader == nullptr) GTEST_SKIP() << "no io_uring on this system";
  std::mt19937_64 random(1);
  std::vector<Target> targets;
  for (uint64_t tag = 0; tag < 300; ++tag) {
    const RandomFile& file = tag % 3 == 0 ? small : large;
    const size_t size = file.contents().size();
    const uint64_t offset = tag % 7 == 1 ? size - 1 : random() % size;
    const uint64_t room = size - offset;
    const uint64_t bytes = tag % 50 == 2 ? room : 1 + random() % std::min<uint64_t>(room, 20'000);
    targets.emplace_back(tag % 3 == 0 ? 1 : 0, offset, bytes, tag);
  }
  for (size_t i = 0; i < targets.size(); ++i)
    reader->submit({&targets[i].read, 1}, i % 2 == 0 ? Urgency::kNeeded : Urgency::kSoon);
  const auto messages = wait_for_all(*reader);
  ASSERT_EQ(messages.size(), targets.size());
  for (const Target& target : targets) {
    EXPECT_EQ(messages.at(target.read.tag), "");
    EXPECT_TRUE(target.holds(target.read.file == 0 ? large : small)) << target.read.tag;
  }
  EXPECT_GT(reader->bytes_read(), 9'000'001U);
}

// What was cut off fails, with file and offset; what is still there is read.
TEST_P(FileReaders, NameFileAndOffsetWhereAFileWasCutOff) {
  const RandomFile file(3'000'000);
  const auto reader = open({file.readable()});
  if (reader == nullptr) GTEST_SKIP() << "no io_uring on this system";
  file.cut_to(1'000'000);
  std::vector<Target> targets;
  targets.emplace_back(0, 999'000, 1000, 0);
  targets.emplace_back(0, 999'000, 1001, 1);
  targets.emplace_back(0, 2'000'000, 500'000, 2);
  targets.emplace_back(0, 10, 5000, 3);
  for (const Target& target : targets) reader->submit({&target.read, 1});
  const auto messages = wait_for_all(*reader);
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages.at(0), "");
  EXPECT_THAT(messages.at(1), HasSubstr(file.path() + ": cannot read"));
  EXPECT_THAT(messages.at(1), HasSubstr("the file ends at 1000000"));
  EXPECT_THAT(messages.at(2), HasSubstr("at offset 1998848"));
  EXPECT_EQ(messages.at(3), "");
  EXPECT_TRUE(targets[0].holds(file));
  EXPECT_TRUE(targets[3].holds(file));
}

// Destroyed with reads in flight, the memory of which is freed right after.
TEST_P(FileReaders, WaitForReadsInFlightWhenDestroyed) {
  const RandomFile file(8'000'000);
  for (int round = 0; round < 20; ++round) {
    std::vector<Target> targets;
    for (uint64_t tag = 0; tag < 30; ++tag) targets.emplace_back(0, tag * 200'000, 199'000, tag);
    auto reader = open({file.readable()});
    if (reader == nullptr) GTEST_SKIP() << "no io_uring on this system";
    for (const Target& target : targets) reader->submit({&target.read, 1});
    reader.reset();
  }
}

// The name may mean another file by now; what was opened is what counts.
TEST_P(FileReaders, ReadTheOpenFileNotTheName) {
  const RandomFile file(10'000);
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  const auto reader = open({file.readable()});
  if (reader == nullptr) GTEST_SKIP() << "no io_uring on this system";
  const Target target(0, 5000, 5000, 0);
  reader->submit({&target.read, 1});
  EXPECT_EQ(wait_for_all(*reader).at(0), "");
  EXPECT_TRUE(target.holds(file));
}

INSTANTIATE_TEST_SUITE_P(Both, FileReaders,
                         testing::Values(ReadMethod::kIoUring, ReadMethod::kThreads),
                         [](const auto& instance) {
                           return instance.param == ReadMethod::kIoUring ? "IoUring" : "Threads";
                         });

// Reads at once when asked for results, unless `answer` says otherwise for the n-th piece:
// a count to read at most, or -errno. Keeps the order in which pieces were started.
class ScriptedBackend final : public ReadBackend {
 public:
  using Answer = std::function<std::optional<int64_t>(size_t n, const PieceRead& piece)>;
  ScriptedBackend(size_t depth, Answer answer) : depth_(depth), answer_(std::move(answer)) {}

  std::string_view name() const override { return "scripted"; }
  size_t depth() const override { return depth_; }
  void start(std::span<const PieceRead> pieces) override {
    for (const PieceRead& piece : pieces) {
      pieces_.push_back(piece);
      offsets.push_back(piece.offset);
    }
    EXPECT_LE(pieces_.size(), depth_);
  }
  void wait(milliseconds, std::vector<PieceResult>& results) override {
    if (pieces_.empty() || silent) return;
    const PieceRead piece = pieces_.front();
    pieces_.pop_front();
    const auto answer = answer_(n_++, piece);
    if (answer && *answer < 0) {
      results.push_back({piece.slot, *answer});
      return;
    }
    const size_t most = answer ? static_cast<size_t>(*answer) : piece.bytes;
    // By way of the page cache: a direct descriptor does not take any count.
    const std::string link = fmt::format("/proc/self/fd/{}", piece.descriptor);
    const int buffered = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t count =
        ::pread(buffered, piece.to, std::min(most, piece.bytes), static_cast<off_t>(piece.offset));
    ::close(buffered);
    results.push_back({piece.slot, count});
  }

  std::vector<uint64_t> offsets;
  bool silent = false;

 private:
  size_t depth_;
  Answer answer_;
  std::deque<PieceRead> pieces_;
  size_t n_ = 0;
};

struct ScriptedReader {
  ScriptedReader(const RandomFile& file, size_t depth, ScriptedBackend::Answer answer) {
    auto made = std::make_unique<ScriptedBackend>(depth, std::move(answer));
    backend = made.get();
    reader = FileReader::open({file.readable()}, std::move(made));
  }
  ScriptedBackend* backend;
  std::unique_ptr<FileReader> reader;
};

std::optional<int64_t> as_asked(size_t, const PieceRead&) {
  return std::nullopt;
}

// Interrupted, busy, and short reads, in random order: the bytes are the right ones all the same.
TEST(FileReader, GoesOnAfterReadsThatWereCutShort) {
  const RandomFile file(5'000'000);
  std::mt19937_64 random(3);
  ScriptedReader scripted(file, 4, [&](size_t, const PieceRead&) -> std::optional<int64_t> {
    switch (random() % 5) {
      case 0:
        return -EINTR;
      case 1:
        return -EAGAIN;
      case 2:
        return static_cast<int64_t>(kPage * (1 + random() % 100));
      default:
        return std::nullopt;
    }
  });
  std::vector<Target> targets;
  for (uint64_t tag = 0; tag < 20; ++tag)
    targets.emplace_back(0, tag * 200'000 + 7, 1'100'000, tag);
  for (const Target& target : targets) scripted.reader->submit({&target.read, 1});
  for (const auto& [tag, message] : wait_for_all(*scripted.reader)) {
    EXPECT_EQ(message, "");
    EXPECT_TRUE(targets[tag].holds(file)) << tag;
  }
}

TEST(FileReader, DoesNotTryAgainForever) {
  const RandomFile file(5000);
  ScriptedReader scripted(file, 1, [](size_t, const PieceRead&) { return -EAGAIN; });
  const Target target(0, 0, 5000, 0);
  scripted.reader->submit({&target.read, 1});
  EXPECT_THAT(wait_for_all(*scripted.reader).at(0), HasSubstr("temporarily unavailable"));
}

// The second of five pieces fails: one error, none of the later pieces is started in vain, and the
// next read is not affected.
TEST(FileReader, FailsTheReadWhosePieceFailed) {
  const RandomFile file(6'000'000);
  ScriptedReader scripted(file, 1, [](size_t n, const PieceRead&) -> std::optional<int64_t> {
    if (n == 1) return -EIO;
    return std::nullopt;
  });
  const Target broken(0, 4096, 5'000'000, 1), whole(0, 100, 100, 2);
  scripted.reader->submit({&broken.read, 1});
  scripted.reader->submit({&whole.read, 1});
  const auto messages = wait_for_all(*scripted.reader);
  EXPECT_EQ(messages.at(1), file.path() + ": cannot read 1048576 bytes at offset 1052672: " +
                                std::string(std::strerror(EIO)));
  EXPECT_EQ(messages.at(2), "");
  EXPECT_EQ(scripted.backend->offsets, (std::vector<uint64_t>{4096, 1052672, 0}));
}

// Some file systems open files for direct reading and then refuse to do it.
TEST(FileReader, ReadsThroughThePageCacheWhereDirectReadingIsRefused) {
  const RandomFile file(3'000'000);
  ScriptedReader scripted(file, 3, [](size_t n, const PieceRead&) -> std::optional<int64_t> {
    if (n < 3) return -EINVAL;
    return std::nullopt;
  });
  if (!scripted.reader->direct()) GTEST_SKIP() << "no direct reading in the temporary folder";
  const Target target(0, 5, 2'999'990, 0);
  scripted.reader->submit({&target.read, 1});
  EXPECT_EQ(wait_for_all(*scripted.reader).at(0), "");
  EXPECT_TRUE(target.holds(file));
  EXPECT_FALSE(scripted.reader->direct());
}

TEST(FileReader, StartsWhatIsNeededBeforeWhatMayBe) {
  const RandomFile file(100'000);
  ScriptedReader scripted(file, 1, as_asked);
  std::vector<Target> targets;
  for (uint64_t tag = 0; tag < 5; ++tag) targets.emplace_back(0, tag * kPage, kPage, tag);
  const Urgency urgency[] = {Urgency::kSoon, Urgency::kSoon, Urgency::kSoon, Urgency::kNeeded,
                             Urgency::kNeeded};
  for (const Target& target : targets)
    scripted.reader->submit({&target.read, 1}, urgency[target.read.tag]);
  scripted.reader->hurry(2);
  wait_for_all(*scripted.reader);
  EXPECT_EQ(scripted.backend->offsets,
            (std::vector<uint64_t>{0, 3 * kPage, 4 * kPage, 2 * kPage, 1 * kPage}));
}

TEST(FileReader, DoesNotWaitLongerThanItsPatience) {
  const RandomFile file(5000);
  ScriptedReader scripted(file, 2, as_asked);
  scripted.backend->silent = true;
  const Target target(0, 0, 5000, 0);
  EXPECT_TRUE(scripted.reader->wait(kPatience).empty());  // nothing in flight
  scripted.reader->submit({&target.read, 1});
  EXPECT_TRUE(scripted.reader->wait(milliseconds(5)).empty());
  EXPECT_EQ(scripted.reader->in_flight(), 1U);
  scripted.backend->silent = false;
  EXPECT_EQ(scripted.reader->wait(kPatience).size(), 1U);
}

}  // namespace
}  // namespace kvasir
