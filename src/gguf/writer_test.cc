#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/mapped_file.h"
#include "base/test_data.h"
#include "base/test_folder.h"
#include "gguf/header_promises.h"
#include "gguf/test_file.h"

namespace kvasir::gguf {
namespace {

using testing::ElementsAre;

// Every byte tells which tensor and where in it.
std::byte pattern(const Writer::Planned& tensor, uint64_t at) {
  return static_cast<std::byte>(tensor.offset / 32 + at * 7 + at / 251);
}

Result<void> fill_pattern(const Writer::Planned& tensor, uint64_t offset,
                          std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = pattern(tensor, offset + i);
  return {};
}

Writer example(uint64_t alignment = 32) {
  Writer writer(alignment);
  writer.add_string("general.architecture", "test");
  writer.add_tensor("norm", TensorType::kF32, {7});
  writer.add_tensor("experts", TensorType::kQ4_K, {256, 3, 2});
  writer.add_tensor("last", TensorType::kQ8_0, {32});
  return writer;
}

TEST(Writer, WhatIsWrittenIsReadBack) {
  Writer writer;
  writer.add_u8("u8", 255);
  writer.add_u16("u16", 65'535);
  writer.add_u32("u32", ~0u);
  writer.add_u64("u64", ~uint64_t{0});
  writer.add_i32("i32", -1);
  writer.add_f32("f32", 0.5f);
  writer.add_bool("bool", true);
  writer.add_string("string", "gr\xc3\xbc\xc3\x9f");
  writer.add_i32s("i32s", std::vector<int32_t>{-1, 2});
  writer.add_u32s("u32s", std::vector<uint32_t>{1, ~0u});
  writer.add_f32s("f32s", std::vector<float>{1.5f, -0.25f});
  writer.add_strings("strings", std::vector<std::string>{"a", "", "b c"});
  writer.add_i32s("none", {});
  std::vector<std::byte> file = writer.header();

  auto header = parse_header(file);
  ASSERT_TRUE(header.has_value()) << header.error().message;
  const Metadata& metadata = header->metadata;
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(metadata.values().size(), 13u);
  EXPECT_EQ(metadata.get_uint("u8").value(), 255u);
  EXPECT_EQ(metadata.get_uint("u16").value(), 65'535u);
  EXPECT_EQ(metadata.get_uint("u32").value(), ~0u);
  EXPECT_EQ(metadata.get_uint("u64").value(), ~uint64_t{0});
  EXPECT_EQ(metadata.get_int("i32").value(), -1);
  EXPECT_EQ(metadata.get_float("f32").value(), 0.5);
  EXPECT_TRUE(metadata.get_bool("bool").value());
  EXPECT_EQ(metadata.get_string("string").value(), "gr\xc3\xbc\xc3\x9f");
  EXPECT_THAT(metadata.get_ints("i32s").value(), ElementsAre(-1, 2));
  EXPECT_THAT(metadata.get_ints("u32s").value(), ElementsAre(1, 4'294'967'295));
  EXPECT_THAT(metadata.get_floats("f32s").value(), ElementsAre(1.5, -0.25));
  EXPECT_THAT(metadata.get_strings("strings").value(), ElementsAre("a", "", "b c"));
  EXPECT_THAT(metadata.get_ints("none").value(), ElementsAre());
}

TEST(Writer, TensorsLieOneAfterTheOtherOnTheAlignment) {
  for (uint64_t alignment : {8u, 32u, 64u, 4096u, 65'536u}) {
    Writer writer = example(alignment);
    std::vector<std::byte> file = writer.write_to_memory(fill_pattern);
    EXPECT_EQ(file.size(), writer.header().size() + writer.data_bytes());
    auto header = parse_header(file);
    ASSERT_TRUE(header.has_value()) << header.error().message;
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(header->data_offset, writer.header().size());
    EXPECT_EQ(header->unused_bytes, 0u);
    for (size_t i = 0; i < writer.tensors().size(); ++i) {
      const Writer::Planned& planned = writer.tensors()[i];
      const TensorInfo& tensor = header->tensors[i];
      EXPECT_EQ(tensor.name, planned.name);
      EXPECT_EQ(tensor.bytes, planned.bytes);
      EXPECT_EQ(tensor.offset, header->data_offset + planned.offset);
      for (uint64_t at = 0; at < tensor.bytes; ++at)
        ASSERT_EQ(file[tensor.offset + at], pattern(planned, at)) << planned.name << " " << at;
    }
    check_header_promises(*header, file);
  }
}

// The alignment is the writer's own: copying the key of another file must not write it twice.
TEST(Writer, TheAlignmentKeyOfAnotherFileIsNotCopied) {
  std::vector<std::byte> from = example(64).write_to_memory(fill_pattern);
  auto header = parse_header(from);
  ASSERT_TRUE(header.has_value());
  for (uint64_t alignment : {32u, 128u}) {
    Writer writer(alignment);
    for (const Value& value : header->metadata.values()) writer.add_value(value);
    std::vector<std::byte> file = writer.header();
    auto copy = parse_header(file);
    ASSERT_TRUE(copy.has_value()) << copy.error().message;
    EXPECT_EQ(copy->alignment, alignment);
    EXPECT_TRUE(copy->metadata.contains("general.architecture"));
  }
}

TEST(Writer, WritesTheSameToAFileAsToMemory) {
  TestFolder folder;
  Writer writer = example();
  ASSERT_TRUE(writer.write(folder.path("m.gguf"), fill_pattern).has_value());
  auto file = MappedFile::open(folder.path("m.gguf"));
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(same_bytes(file->bytes(), writer.write_to_memory(fill_pattern)));
}

TEST(Writer, AsksForLargeTensorsInPiecesOfAtMostOneMiB) {
  constexpr uint64_t kMiB = 1 << 20;
  Writer writer;
  writer.add_tensor("large", TensorType::kI8, {2 * kMiB + 5});
  writer.add_tensor("small", TensorType::kI8, {3});
  std::vector<std::pair<uint64_t, size_t>> pieces;
  std::vector<std::byte> file = writer.write_to_memory(
      [&](const Writer::Planned& tensor, uint64_t offset, std::span<std::byte> out) {
        pieces.emplace_back(offset, out.size());
        return fill_pattern(tensor, offset, out);
      });
  using Piece = std::pair<uint64_t, size_t>;
  EXPECT_THAT(pieces,
              ElementsAre(Piece(0, kMiB), Piece(kMiB, kMiB), Piece(2 * kMiB, 5), Piece(0, 3)));
  auto header = parse_header(file);
  ASSERT_TRUE(header.has_value());
  for (uint64_t at = 0; at < 2 * kMiB + 5; ++at)
    ASSERT_EQ(file[header->data_offset + at], pattern(writer.tensors()[0], at));
}

TEST(Writer, ASparseFileHasFullSizeAndReadsAsZeros) {
  TestFolder folder;
  std::string path = folder.path("sparse.gguf");
  Writer writer;
  writer.add_tensor("huge", TensorType::kQ4_K, {65'536, 65'536, 16});  // 36 GiB
  ASSERT_TRUE(writer.write_sparse(path).has_value());
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), writer.header().size() + writer.data_bytes());
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  auto header = parse_header(file->bytes());
  ASSERT_TRUE(header.has_value()) << header.error().message;
  const TensorInfo& tensor = header->tensors[0];
  EXPECT_EQ(tensor.bytes, uint64_t{65'536} * 256 * 144 * 16);
  EXPECT_EQ(file->bytes()[tensor.offset + tensor.bytes - 1], std::byte{0});
}

TEST(Writer, SaysWhatTheFileSays) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const bool sparse : {false, true}) {
    const auto written =
        sparse ? example().write_sparse("/dev/full") : example().write("/dev/full", fill_pattern);
    ASSERT_FALSE(written.has_value());
    EXPECT_EQ(written.error().kind, ErrorKind::kIo);
    EXPECT_THAT(written.error().message, testing::HasSubstr("/dev/full: cannot write"));
  }
}

TEST(Writer, LeavesTheOldFileWhenTheBytesDoNotCome) {
  TestFolder folder;
  const std::string path = folder.write("m.gguf", bytes_of("old"));
  size_t calls = 0;
  const auto written =
      example().write(path, [&](const auto&, uint64_t, std::span<std::byte>) -> Result<void> {
        if (++calls == 2) return Error::limit("no more");
        return {};
      });
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().message, "no more");
  EXPECT_EQ(calls, 2u);
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(Writer, ABrokenContractStops) {
  Writer writer;
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kQ4_K, {255}), "broken contract");
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kF32, {}), "broken contract");
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kF32, {4, 0}), "broken contract");
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kF32, {1ull << 62, 4}), "broken contract");
  EXPECT_DEATH(writer.add_tensor("t", TensorType::kF32, {1, 1, 1, 1, 1}), "broken contract");
  EXPECT_DEATH(writer.add_u32("general.alignment", 64), "broken contract");
}

TEST(Writer, ReferenceModelsAreTheSameWhenWrittenAgain) {
  KVASIR_NEED_GOLDEN("tiny-f32.gguf");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(golden_dir())) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().string());
    auto file = MappedFile::open(entry.path().string());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    auto header = parse_header(file->bytes());
    ASSERT_TRUE(header.has_value()) << header.error().message;
    EXPECT_EQ(header->unused_bytes, 0u);
    check_header_promises(*header, file->bytes());
  }
}

}  // namespace
}  // namespace kvasir::gguf
