#include "pull/model_cache.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/sha256.h"
#include "base/test_folder.h"
#include "pull/part_file.h"
#include "pull/pull.h"
#include "pull/test_web_server.h"

namespace kvasir::pull {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

RemoteModel example(const std::string& quantization = "Q4_K_M", const std::string& repo = "r") {
  RemoteModel model;
  model.reference = "hf:o/" + repo + ":" + quantization;
  model.folder = "hub/h/o/" + repo + "/main/m-" + quantization;
  model.quantization = quantization;
  for (int part : {1, 2}) {
    const std::string name = fmt::format("m-{}-{:05}-of-00002.gguf", quantization, part);
    model.files.push_back({name, *parse_web_address("https://h.example/o/r/resolve/main/" + name),
                           uint64_t{3} * kRangeBytes, std::string(64, 'b')});
  }
  return model;
}

class Cache : public ::testing::Test {
 protected:
  std::string add(const RemoteModel& model) {
    const std::string folder = *cache_.make_folder(model);
    EXPECT_TRUE(cache_.keep_record(folder, record_of(model)).has_value());
    return folder;
  }
  void complete(const std::string& folder, const RemoteFile& file) {
    std::ofstream(folder + "/" + file.name).put('x');
    fs::resize_file(folder + "/" + file.name, file.bytes);
  }

  TestFolder folder_;
  ModelCache cache_{folder_.path("models")};
};

TEST_F(Cache, ARecordIsReadAsItWasWritten) {
  const ModelRecord record = record_of(example());
  const auto read = parse_record(record_text(record));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, record);
}

TEST_F(Cache, NoChangedByteOfARecordIsTaken) {
  const std::string text = record_text(record_of(example()));
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 1;
    EXPECT_FALSE(parse_record(changed).has_value()) << at;
    EXPECT_FALSE(parse_record(text.substr(0, at)).has_value()) << at;
  }
}

// Its checksum is right, its names are not.
TEST_F(Cache, NoRecordNamesFilesElsewhere) {
  for (const char* name : {"../x.gguf", "/etc/x.gguf", "a/b.gguf", ".x.gguf", "x", ""}) {
    ModelRecord record = record_of(example());
    record.files[0].name = name;
    EXPECT_FALSE(parse_record(record_text(record)).has_value()) << name;
  }
  ModelRecord record = record_of(example());
  record.files[0].sha256 = std::string(64, 'B');
  EXPECT_FALSE(parse_record(record_text(record)).has_value());
}

TEST_F(Cache, ListsWhatIsHereAndHowMuchOfIt) {
  EXPECT_TRUE(cache_.list().empty());
  const RemoteModel model = example();
  const std::string folder = add(model);
  ASSERT_EQ(cache_.list().size(), 1U);
  EXPECT_EQ(cache_.list()[0].bytes_here, 0U);
  complete(folder, model.files[0]);
  {
    const JournalHead head{model.files[1].bytes, "\"e\"", model.files[1].sha256};
    auto part = PartFile::open(folder + "/" + model.files[1].name, head, IfChanged::kRefuse, {});
    ASSERT_TRUE(part.has_value());
    const std::string range = test_bytes(kRangeBytes);
    ASSERT_TRUE(part->record(*part->write(1, bytes_of(range))).has_value());
  }
  EXPECT_EQ(cache_.list()[0].bytes_here, 4 * kRangeBytes);
  EXPECT_FALSE(cache_.list()[0].complete);
  complete(folder, model.files[1]);
  EXPECT_FALSE(cache_.list()[0].complete);  // a part is there: the file is about to be replaced
  fs::remove(part_path(folder + "/" + model.files[1].name));
  EXPECT_TRUE(cache_.list()[0].complete);
  EXPECT_EQ(cache_.list()[0].bytes_here, model.bytes());
}

TEST_F(Cache, FindsByEverySpelling) {
  add(example());
  add(example("Q8_0"));
  add(example("Q8_0", "other"));
  const auto count = [&](std::string_view text) {
    return cache_.find(*parse_model_reference(text)).size();
  };
  EXPECT_EQ(count("hf:o/r"), 1U);  // the default quantisation is here
  EXPECT_EQ(count("o/r:q8_0"), 1U);
  EXPECT_EQ(count("hf:o/other"), 1U);  // the only one
  EXPECT_EQ(count("hf:o/r:m-Q8_0-00002-of-00002.gguf"), 1U);
  EXPECT_EQ(count("hf:o/r:Q2_K"), 0U);
  EXPECT_EQ(count("hf:o/r@v1"), 0U);
  EXPECT_EQ(count("hf:o/none"), 0U);
}

TEST_F(Cache, RemovesWhatTheRecordNamesAndNothingElse) {
  const RemoteModel model = example();
  const std::string folder = add(model);
  const std::string other = add(example("Q8_0"));
  complete(folder, model.files[0]);
  std::ofstream(folder + "/mine.txt") << "kept";
  const auto freed = cache_.remove(cache_.find(*parse_model_reference("hf:o/r:Q4_K_M"))[0]);
  ASSERT_TRUE(freed.has_value()) << freed.error().message;
  EXPECT_GT(*freed, 0U);
  EXPECT_FALSE(fs::exists(folder + "/" + model.files[0].name));
  EXPECT_TRUE(fs::exists(folder + "/mine.txt"));
  EXPECT_TRUE(fs::exists(other));
  ASSERT_TRUE(cache_.remove(cache_.list()[0]).has_value());
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(fs::exists(cache_.root()));
}

TEST_F(Cache, RemovesNothingThatSomebodyFetches) {
  const std::string folder = add(example());
  {
    const auto lock = CacheLock::take(folder);
    ASSERT_TRUE(lock.has_value());
    EXPECT_FALSE(CacheLock::take(folder).has_value());
    EXPECT_EQ(cache_.remove(cache_.list()[0]).error().kind, ErrorKind::kInvalid);
  }
  EXPECT_TRUE(cache_.remove(cache_.list()[0]).has_value());
}

TEST_F(Cache, FollowsNoLinks) {
  const std::string folder = add(example());
  fs::create_directories(folder_.path("elsewhere"));
  fs::copy(folder + "/model.record", folder_.path("elsewhere/model.record"));
  fs::create_directory_symlink(folder_.path("elsewhere"), cache_.root() + "/hub/link");
  EXPECT_EQ(cache_.list().size(), 1U);
}

TEST(Space, NeedsFivePercentMoreThanIsMissing) {
  PullPlan plan;
  plan.bytes_missing = 1000;
  plan.bytes_free = 1050;
  EXPECT_TRUE(check_space(plan).has_value());
  plan.bytes_free = 1049;
  const auto space = check_space(plan);
  ASSERT_FALSE(space.has_value());
  EXPECT_EQ(space.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(space.error().message, HasSubstr("1 too few"));
}

}  // namespace
}  // namespace kvasir::pull
