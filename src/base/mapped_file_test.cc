#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <vector>

#include "base/test_folder.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

class MappedFileTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_.path(name); }
  std::string write(const char* name, std::string_view text) const {
    return folder_.write(name, bytes_of(text));
  }

 private:
  TestFolder folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  std::string text(10'000, 'x');
  text.back() = 'y';
  auto file = MappedFile::open(write("a", text));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(text_of(file->bytes()), text);
  EXPECT_EQ(file->path(), path("a"));
  EXPECT_GE(file->descriptor(), 0);
}

TEST_F(MappedFileTest, MovingKeepsTheMappingInOnePlace) {
  auto first = MappedFile::open(write("a", "first"));
  auto second = MappedFile::open(write("b", "second"));
  ASSERT_TRUE(first.has_value() && second.has_value());
  const std::byte* memory = first->bytes().data();
  MappedFile moved = std::move(*first);
  EXPECT_EQ(moved.bytes().data(), memory);
  EXPECT_TRUE(first->bytes().empty());
  moved = std::move(*second);
  EXPECT_EQ(text_of(moved.bytes()), "second");
  EXPECT_EQ(moved.path(), path("b"));
}

TEST_F(MappedFileTest, AnAbsentFileIsNotFound) {
  auto file = MappedFile::open(path("none"));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(file.error().message, path("none") + ": no such file");
}

TEST_F(MappedFileTest, AnEmptyFileIsCorrupt) {
  auto file = MappedFile::open(write("a", ""));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(file.error().message, HasSubstr("the file is empty"));
}

TEST_F(MappedFileTest, AFolderIsRefused) {
  auto file = MappedFile::open(path("."));
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().kind, ErrorKind::kIo);
  EXPECT_THAT(file.error().message, HasSubstr("not a regular file"));
}

// Opening a FIFO that nobody writes to would wait for ever.
TEST_F(MappedFileTest, AFifoIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  auto file = MappedFile::open(path("fifo"));
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("not a regular file"));
}

TEST_F(MappedFileTest, OpeningAndClosingLeavesNoDescriptorsBehind) {
  std::string name = write("a", "text");
  int first = MappedFile::open(name)->descriptor();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(MappedFile::open(name)->descriptor(), first);
  EXPECT_FALSE(MappedFile::open(path(".")).has_value());
  EXPECT_EQ(MappedFile::open(name)->descriptor(), first);
}

// Reads the last byte after the file was cut to nothing: the access itself is the error.
void read_behind_the_end(const std::string& name) {
  install_sigbus_reporter();
  auto file = MappedFile::open(name);
  KVASIR_CHECK(file.has_value());
  std::filesystem::resize_file(name, 0);
  volatile std::byte last = file->bytes().back();
  static_cast<void>(last);
}

TEST_F(MappedFileTest, ATruncatedFileEndsTheProcessWithItsName) {
  std::string name = write("model", std::string(100'000, 'x'));
  EXPECT_EXIT(read_behind_the_end(name), testing::ExitedWithCode(1),
              "error: .*model: the file was truncated or its disk failed while it was in use\n"
              "hint:  restore the file");
}

// The name must be that of the file that failed, not of one mapped before or already gone.
TEST_F(MappedFileTest, TheTruncatedFileIsToldFromOthers) {
  std::string name = write("guilty", std::string(100'000, 'x'));
  auto other = MappedFile::open(write("innocent", std::string(100'000, 'x')));
  ASSERT_TRUE(other.has_value());
  ASSERT_TRUE(MappedFile::open(write("gone", std::string(100'000, 'x'))).has_value());
  EXPECT_EXIT(read_behind_the_end(name), testing::ExitedWithCode(1), "error: [^:]*guilty: ");
}

TEST_F(MappedFileTest, TheNameOfATruncatedFileStaysOnItsLine) {
  std::string name = write("a\nhint: \x1b[2J", std::string(100'000, 'x'));
  EXPECT_EXIT(read_behind_the_end(name), testing::ExitedWithCode(1), "a.hint: .\\[2J: the file");
}

TEST_F(MappedFileTest, MoreMappingsThanTheReporterKnowsStillWork) {
  std::string name = write("a", "text");
  std::vector<MappedFile> files;
  for (int i = 0; i < 100; ++i) files.push_back(std::move(MappedFile::open(name).value()));
  for (const MappedFile& file : files) EXPECT_EQ(text_of(file.bytes()), "text");
}

TEST(SigbusReporter, AnotherBusErrorIsReportedAsSuch) {
  EXPECT_EXIT(
      {
        install_sigbus_reporter();
        ::raise(SIGBUS);
      },
      testing::ExitedWithCode(1), "bus error outside any mapped file");
}

}  // namespace
}  // namespace kvasir
