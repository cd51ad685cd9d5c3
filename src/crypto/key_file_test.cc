// Key files: made once, private, and never replaced.
#include "crypto/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace kvasir::crypto {
namespace {

namespace fs = std::filesystem;

class KeyFile : public testing::Test {
 protected:
  KeyFile() {
    std::string pattern = (fs::temp_directory_path() / "kvasir-key-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = (folder_ / "node.key").string();
  }
  ~KeyFile() override { fs::remove_all(folder_); }

  void write(std::string_view text) {
    std::ofstream(path_, std::ios::binary) << text;
    fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(KeyFile, IsMadeOnceAndKeepsTheIdentity) {
  auto first = load_or_create_identity(path_);
  ASSERT_TRUE(first) << first.error().message;
  auto second = load_or_create_identity(path_);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->public_key(), second->public_key());
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(KeyFile, HoldsTheSeedInHex) {
  write(std::string(64, '0'));
  auto identity = load_or_create_identity(path_);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->public_key(), Identity::from_seed(Seed{}).public_key());
}

TEST_F(KeyFile, WithSomethingElseInItIsRefusedAndKept) {
  const std::string zeros(63, '0');
  std::vector<std::string> texts = {"", zeros};
  texts.push_back(zeros + "00");
  texts.push_back(zeros + "000");
  texts.push_back(zeros + 'g');
  texts.push_back(zeros + "0\n\n");
  for (const std::string& text : texts) {
    write(text);
    auto identity = load_or_create_identity(path_);
    ASSERT_FALSE(identity) << text;
    EXPECT_EQ(identity.error().kind, ErrorKind::kCorrupt);
    EXPECT_EQ(fs::file_size(path_), text.size());
  }
}

TEST_F(KeyFile, ThatOthersMayReadIsRefused) {
  write(std::string(64, '0'));
  fs::permissions(path_, fs::perms::group_read, fs::perm_options::add);
  auto identity = load_or_create_identity(path_);
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().kind, ErrorKind::kInvalid);
}

TEST_F(KeyFile, InAFolderThatIsNotThereIsAnError) {
  auto identity = load_or_create_identity((folder_ / "none" / "node.key").string());
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().kind, ErrorKind::kIo);
}

}  // namespace
}  // namespace kvasir::crypto
