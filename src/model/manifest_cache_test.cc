// A remembered manifest is found again for the same files and for no others; damage makes it
// absent.
#include "model/manifest_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/test_folder.h"
#include "model/model_manifest.h"
#include "model/test_model.h"

namespace kvasir::model {
namespace {

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_synthetic(tiny_plan(), path(), nullptr));
    file_ = open_file(path());
    const Model model = bind_model(file_, nullptr, VectorCheck::kNone).value();
    ThreadPool pool(1);
    manifest_ = make_manifest(model, pool, nullptr).value();
    const auto kept = cache_.keep(*file_, *manifest_);
    ASSERT_TRUE(kept) << kept.error().message;
  }
  std::string path() const { return folder_.path("m.gguf"); }
  std::string kept_text() const {
    std::ostringstream text;
    text << std::ifstream(cache_.path_for(*file_).value(), std::ios::binary).rdbuf();
    return text.str();
  }
  void write_kept(const std::string& text) const {
    std::ofstream(cache_.path_for(*file_).value(), std::ios::binary) << text;
  }

  TestFolder folder_;
  ManifestCache cache_{folder_.path("cache/kvasir")};
  std::shared_ptr<const gguf::ModelFile> file_;
  std::optional<gguf::Manifest> manifest_;
};

TEST_F(Cache, FindsWhatItKept) {
  const auto found = cache_.find(*file_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), manifest_->text());
  // By another name of the same file.
  std::filesystem::create_symlink(path(), folder_.path("link.gguf"));
  EXPECT_TRUE(cache_.find(*open_file(folder_.path("link.gguf"))).has_value());
  EXPECT_FALSE(ManifestCache(folder_.path("elsewhere")).find(*file_).has_value());
  EXPECT_FALSE(ManifestCache("").find(*file_).has_value());
  EXPECT_TRUE(ManifestCache("").keep(*file_, *manifest_));
}

TEST_F(Cache, ForgetsAFileThatChanged) {
  const auto changed = std::filesystem::last_write_time(path());
  std::filesystem::last_write_time(path(), changed + std::chrono::nanoseconds(1));
  EXPECT_FALSE(cache_.find(*file_).has_value());
  std::filesystem::last_write_time(path(), changed);
  EXPECT_TRUE(cache_.find(*file_).has_value());
  // Longer, with the old time.
  std::ofstream(path(), std::ios::app) << "x";
  std::filesystem::last_write_time(path(), changed);
  EXPECT_FALSE(cache_.find(*open_file(path())).has_value());
}

TEST_F(Cache, ACopyIsAnotherFile) {
  std::filesystem::copy(path(), folder_.path("copy.gguf"));
  std::filesystem::last_write_time(folder_.path("copy.gguf"),
                                   std::filesystem::last_write_time(path()));
  EXPECT_FALSE(cache_.find(*open_file(folder_.path("copy.gguf"))).has_value());
}

TEST_F(Cache, DamageCountsAsAbsent) {
  const std::string good = kept_text();
  for (size_t at = 0; at < good.size(); at += 1 + at / 50) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write_kept(bad);
    ASSERT_FALSE(cache_.find(*file_).has_value()) << "byte " << at;
    write_kept(good.substr(0, at));
    ASSERT_FALSE(cache_.find(*file_).has_value()) << "cut at " << at;
  }
  write_kept(good + "x");
  EXPECT_FALSE(cache_.find(*file_).has_value());
  write_kept(good);
  EXPECT_TRUE(cache_.find(*file_).has_value());
}

TEST_F(Cache, AFolderThatCannotBeMadeIsAnError) {
  folder_.write("file", bytes_of("x"));
  const ManifestCache cache(folder_.path("file/cache"));
  EXPECT_EQ(cache.keep(*file_, *manifest_).error().kind, ErrorKind::kIo);
  EXPECT_FALSE(cache.find(*file_).has_value());
}

}  // namespace
}  // namespace kvasir::model
