// What is at the path, in each of the ways that writing can end.
#include "base/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "base/test_folder.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

std::string text_at(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

Result<void> write_whole(const std::string& path, std::string_view text) {
  KVASIR_TRY(OutputFile file, OutputFile::create(path));
  KVASIR_TRY_VOID(file.write(bytes_of(text)));
  return file.finish();
}

TEST(OutputFile, AppearsWhenItIsFinished) {
  TestFolder folder;
  const std::string path = folder.path("a");
  OutputFile file = std::move(OutputFile::create(path).value());
  ASSERT_TRUE(file.write(bytes_of("new")));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file.finish());
  EXPECT_EQ(text_at(path), "new");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(OutputFile, LeavesTheOldFileIfItIsNotFinished) {
  TestFolder folder;
  const std::string path = folder.write("a", bytes_of("old"));
  {
    OutputFile file = std::move(OutputFile::create(path).value());
    ASSERT_TRUE(file.write(bytes_of("new")));
    EXPECT_TRUE(std::filesystem::exists(path + ".partial"));
  }
  EXPECT_EQ(text_at(path), "old");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

// Whatever the umask allows or takes away, and whatever an earlier partial file had.
TEST(OutputFile, KeepsThePermissionsOfTheFileItReplaces) {
  TestFolder folder;
  const std::string path = folder.write("a", bytes_of("old"));
  for (const mode_t mode : {0600, 0666, 0755}) {
    folder.write("a.partial", bytes_of("left over"));
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(write_whole(path, "new"));
    EXPECT_EQ(mode_of(path), mode);
    EXPECT_EQ(text_at(path), "new");
  }
  const mode_t mask = ::umask(027);
  ASSERT_TRUE(write_whole(folder.path("b"), "new"));
  ::umask(mask);
  EXPECT_EQ(mode_of(folder.path("b")), 0640u);
}

TEST(OutputFile, ReplacesWhatALinkNamesAndNotTheLink) {
  TestFolder folder;
  const std::string path = folder.write("a", bytes_of("old"));
  std::filesystem::create_symlink("a", folder.path("link"));
  ASSERT_TRUE(write_whole(folder.path("link"), "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(text_at(path), "new");
}

TEST(OutputFile, AFolderThatIsNotThereIsAnError) {
  TestFolder folder;
  auto written = write_whole(folder.path("none/a"), "new");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().kind, ErrorKind::kIo);
  EXPECT_THAT(written.error().message, HasSubstr("none/a: cannot create"));
  EXPECT_FALSE(write_whole(folder.path(""), "new"));
}

// Makes the operating system refuse to grow files beyond a few bytes, as a full disk would.
class SmallFilesOnly {
 public:
  SmallFilesOnly() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = {1000, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFilesOnly() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }
  SmallFilesOnly(const SmallFilesOnly&) = delete;
  SmallFilesOnly& operator=(const SmallFilesOnly&) = delete;

 private:
  rlimit before_;
};

TEST(OutputFile, LeavesTheOldFileOnAFullDisk) {
  TestFolder folder;
  const std::string path = folder.write("a", bytes_of("old"));
  for (const bool by_hole : {false, true}) {
    Result<void> written;
    {
      const SmallFilesOnly full_disk;
      OutputFile file = std::move(OutputFile::create(path).value());
      written = by_hole ? file.grow_to(2000) : file.write(bytes_of(std::string(2000, 'x')));
    }
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::kIo);
    EXPECT_THAT(written.error().message, HasSubstr(path));
    EXPECT_EQ(text_at(path), "old");
    EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  }
}

// Failing to write to a device must not remove it. A link stands for the device, in case it would.
TEST(OutputFile, WritesToADeviceAndLeavesItThere) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  TestFolder folder;
  const std::string path = folder.path("device");
  std::filesystem::create_symlink("/dev/full", path);
  EXPECT_FALSE(write_whole(path, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace
}  // namespace kvasir
