#include "gguf/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/test_data.h"
#include "base/test_folder.h"
#include "gguf/test_file.h"
#include "gguf/writer.h"

namespace kvasir::gguf {
namespace {

using testing::HasSubstr;

// What a part says about itself; tests change one thing.
struct PartPlan {
  std::optional<uint16_t> number;
  std::optional<uint16_t> count;
  std::optional<int32_t> tensors_count;
  std::vector<std::string> tensors;
};

// Each tensor is 8 floats, filled with the first letter of its name.
std::vector<std::byte> part_bytes(const PartPlan& plan) {
  Writer writer;
  if (plan.number == 0) writer.add_string("general.architecture", "test");
  if (plan.number) writer.add_u16("split.no", *plan.number);
  if (plan.count) writer.add_u16("split.count", *plan.count);
  if (plan.tensors_count) writer.add_i32("split.tensors.count", *plan.tensors_count);
  for (const std::string& name : plan.tensors) writer.add_tensor(name, TensorType::kF32, {8});
  return writer.write_to_memory(
      [](const Writer::Planned& tensor, uint64_t, std::span<std::byte> out) -> Result<void> {
        std::fill(out.begin(), out.end(), static_cast<std::byte>(tensor.name[0]));
        return {};
      });
}

std::string part_name(int part, int count = 3) {
  return fmt::format("m-{:05}-of-{:05}.gguf", part, count);
}

// Three good parts; the first holds no tensors.
std::vector<PartPlan> three_parts() {
  return {{0, 3, 3, {}}, {1, 3, 3, {"a", "b"}}, {2, 3, 3, {"c"}}};
}

// Writes the parts and opens the one with the given number (1-based).
Result<ModelFile> open_parts(const TestFolder& folder, const std::vector<PartPlan>& plans,
                             int named = 1) {
  for (size_t i = 0; i < plans.size(); ++i)
    folder.write(part_name(static_cast<int>(i) + 1), part_bytes(plans[i]));
  return ModelFile::open(folder.path(part_name(named)));
}

void expect_error(const Result<ModelFile>& model, ErrorKind kind,
                  const std::vector<std::string>& message) {
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  for (const std::string& part : message) EXPECT_THAT(model.error().message, HasSubstr(part));
}

TEST(ModelFile, OpensOneFile) {
  TestFolder folder;
  std::string path = folder.write("one.gguf", part_bytes({{}, {}, {}, {"x", "y"}}));
  auto model = ModelFile::open(path);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->parts(), 1u);
  EXPECT_EQ(model->tensors().size(), 2u);
  EXPECT_EQ(model->tensor_bytes(), 64u);
  EXPECT_EQ(model->file_bytes(), std::filesystem::file_size(path));
  const TensorView* y = model->find("y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->data.size(), 32u);
  EXPECT_EQ(y->data[31], std::byte{'y'});
  EXPECT_EQ(model->find("z"), nullptr);
}

TEST(ModelFile, AnyPartOfASplitModelMayBeNamed) {
  for (int named : {1, 2, 3}) {
    TestFolder folder;
    auto model = open_parts(folder, three_parts(), named);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->parts(), 3u);
    EXPECT_EQ(model->metadata().get_string("general.architecture").value(), "test");
    ASSERT_EQ(model->tensors().size(), 3u);
    EXPECT_EQ(model->find("a")->part, 1u);
    EXPECT_EQ(model->find("c")->part, 2u);
    EXPECT_EQ(model->find("c")->data[0], std::byte{'c'});
    EXPECT_EQ(model->part_file(2).path(), folder.path(part_name(3)));
    EXPECT_EQ(model->part_header(1).tensors.size(), 2u);
    EXPECT_EQ(model->tensor_bytes(), 96u);
  }
}

TEST(ModelFile, PointersStayGoodWhenItIsMoved) {
  TestFolder folder;
  auto opened = open_parts(folder, three_parts());
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const TensorView* before = opened->find("b");
  auto moved = std::make_unique<ModelFile>(std::move(*opened));
  opened = Error::invalid("the first owner is gone");
  std::vector<ModelFile> grown;
  grown.push_back(std::move(*moved));
  moved.reset();
  const TensorView* after = grown[0].find("b");
  EXPECT_EQ(after, before);
  EXPECT_EQ(after->info, &grown[0].part_header(1).tensors[1]);
  EXPECT_EQ(after->info->name, "b");
  EXPECT_EQ(after->data[0], std::byte{'b'});
  EXPECT_EQ(grown[0].metadata().get_uint("split.count").value(), 3u);
}

TEST(ModelFile, AllMissingPartsAreListedAtOnce) {
  for (int named : {1, 2, 3}) {  // also when the named one is among them
    TestFolder folder;
    folder.write(part_name(2), part_bytes(three_parts()[1]));
    auto model = ModelFile::open(folder.path(part_name(named)));
    expect_error(
        model, ErrorKind::kNotFound,
        {"2 of 3 parts are missing", folder.path(part_name(1)), folder.path(part_name(3))});
    EXPECT_THAT(model.error().hint, HasSubstr("same folder"));
  }
}

TEST(ModelFile, VeryManyMissingPartsAreCounted) {
  TestFolder folder;
  PartPlan plan{0, 500, 0, {}};
  std::string path = folder.write(part_name(1, 500), part_bytes(plan));
  auto model = ModelFile::open(path);
  expect_error(model, ErrorKind::kNotFound, {"499 of 500 parts are missing", "and 467 more"});
  EXPECT_LT(model.error().message.size(), 5000u);
}

TEST(ModelFile, MorePartsThanFileDescriptorsAreRefused) {
  TestFolder folder;
  PartPlan plan{0, 65'535, 0, {}};
  std::string path = folder.write(part_name(1, 65'535), part_bytes(plan));
  expect_error(ModelFile::open(path), ErrorKind::kLimit, {"65535 parts are more than 1000"});
}

TEST(ModelFile, ASinglePartIsAFileLikeAnyOther) {
  TestFolder folder;
  std::string path = folder.write(part_name(1, 1), part_bytes({0, 1, 1, {"x"}}));
  EXPECT_TRUE(ModelFile::open(path).has_value());
  path = folder.write("renamed.gguf", part_bytes({0, 1, 1, {"x"}}));
  EXPECT_TRUE(ModelFile::open(path).has_value());
}

// The other parts are found by the name, so a part under another name is useless.
TEST(ModelFile, APartUnderAnotherNameIsRefused) {
  for (const char* name : {"renamed.gguf", "m-00001-of-00002.gguf", "m-00001-of-00003.gguf.gguf",
                           "m-0001-of-0003.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf",
                           "m-0000x-of-00003.gguf", "m_00001-of-00003.gguf"}) {
    TestFolder folder;
    std::string path = folder.write(name, part_bytes(three_parts()[0]));
    expect_error(ModelFile::open(path), ErrorKind::kCorrupt, {path, "split.count", "3 parts"});
  }
}

struct Disagreement {
  const char* name;
  std::function<void(std::vector<PartPlan>&)> change;
  ErrorKind kind;
  std::vector<std::string> message;
};

TEST(ModelFile, PartsThatDisagreeAreRefused) {
  const std::vector<Disagreement> cases = {
      {"two parts say they are the same",
       [](auto& parts) { parts[2].number = 1; },
       ErrorKind::kCorrupt,
       {part_name(3), "'split.no' is 1, but must be 2"}},
      {"the first part says it is the second",
       [](auto& parts) { parts[0].number = 1; },
       ErrorKind::kCorrupt,
       {part_name(1), "'split.no' is 1, but must be 0"}},
      {"parts are numbered from 1",
       [](auto& parts) {
         for (auto& part : parts) ++*part.number;
       },
       ErrorKind::kCorrupt,
       {part_name(1), "'split.no' is 1, but must be 0"}},
      {"another part says another count",
       [](auto& parts) { parts[1].count = 4; },
       ErrorKind::kCorrupt,
       {part_name(2), "'split.count' is 4", "3 parts"}},
      {"another part says it is alone",
       [](auto& parts) { parts[2].count = 1; },
       ErrorKind::kCorrupt,
       {part_name(3), "'split.count' is 1"}},
      {"a part does not know its number",
       [](auto& parts) { parts[1].number.reset(); },
       ErrorKind::kNotFound,
       {part_name(2), "'split.no' is missing"}},
      {"a part does not know how many there are",
       [](auto& parts) { parts[2].count.reset(); },
       ErrorKind::kNotFound,
       {part_name(3), "'split.count' is missing"}},
      {"the first part does not know the number of tensors",
       [](auto& parts) { parts[0].tensors_count.reset(); },
       ErrorKind::kNotFound,
       {part_name(1), "'split.tensors.count' is missing"}},
      {"more tensors are announced than there are",
       [](auto& parts) {
         for (auto& part : parts) part.tensors_count = 4;
       },
       ErrorKind::kCorrupt,
       {"'split.tensors.count' is 4, but the 3 parts hold 3 tensors"}},
      {"fewer tensors are announced than there are",
       [](auto& parts) {
         for (auto& part : parts) part.tensors_count = 2;
       },
       ErrorKind::kCorrupt,
       {"'split.tensors.count' is 2, but the 3 parts hold 3 tensors"}},
      {"a negative number of tensors is announced",
       [](auto& parts) { parts[0].tensors_count = -1; },
       ErrorKind::kCorrupt,
       {part_name(1), "'split.tensors.count'", "-1 is not an unsigned integer"}},
      {"parts announce different numbers of tensors",
       [](auto& parts) { parts[2].tensors_count = 7; },
       ErrorKind::kCorrupt,
       {part_name(3), "'split.tensors.count' is 7, but 3 in the first part"}},
      {"a tensor is in two parts",
       [](auto& parts) { parts[2].tensors = {"a"}; },
       ErrorKind::kCorrupt,
       {part_name(3), "tensor 'a' is also in", part_name(2)}},
  };
  for (const Disagreement& test : cases) {
    SCOPED_TRACE(test.name);
    TestFolder folder;
    std::vector<PartPlan> parts = three_parts();
    test.change(parts);
    expect_error(open_parts(folder, parts), test.kind, test.message);
  }
}

TEST(ModelFile, LaterPartsNeedNotRepeatTheNumberOfTensors) {
  TestFolder folder;
  std::vector<PartPlan> parts = three_parts();
  parts[1].tensors_count.reset();
  parts[2].tensors_count.reset();
  EXPECT_TRUE(open_parts(folder, parts).has_value());
}

TEST(ModelFile, ACorruptPartIsNamed) {
  TestFolder folder;
  ASSERT_TRUE(open_parts(folder, three_parts()).has_value());
  folder.write(part_name(2), TestFile().raw("GGUF").u32(3).bytes());
  expect_error(ModelFile::open(folder.path(part_name(1))), ErrorKind::kCorrupt,
               {folder.path(part_name(2)), "header at byte 8"});
}

TEST(ModelFile, SplitCountOfAWrongTypeIsRefused) {
  TestFolder folder;
  Writer writer;
  writer.add_string("split.count", "3");
  std::string path = folder.write(part_name(1), writer.header());
  expect_error(ModelFile::open(path), ErrorKind::kCorrupt, {path, "'split.count'", "is string"});
}

TEST(ModelFile, AFileThatIsNotThereIsNotFound) {
  TestFolder folder;
  expect_error(ModelFile::open(folder.path("none.gguf")), ErrorKind::kNotFound, {"none.gguf"});
}

TEST(ModelFile, TheBundledModelOpens) {
  auto model = ModelFile::open(source_path("models/kvasir-tales-q4_k_m.gguf"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->metadata().get_string("general.architecture").value(), "qwen35moe");
  EXPECT_EQ(model->tensors().size(), 76u);
  EXPECT_EQ(model->part_header(0).unused_bytes, 0u);
}

TEST(ModelFile, AVocabularyWithoutTensorsOpens) {
  KVASIR_NEED_GOLDEN("tokenizer/qwen3-vocab.gguf");
  auto model = ModelFile::open(golden_data("tokenizer/qwen3-vocab.gguf"));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_TRUE(model->tensors().empty());
  EXPECT_EQ(model->tensor_bytes(), 0u);
  EXPECT_EQ(model->metadata().get_strings("tokenizer.ggml.tokens").value().size(), 151'669u);
}

}  // namespace
}  // namespace kvasir::gguf
