// Slices put together by hand: good ones, and ones that are wrong in one way each.
#include "gguf/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/test_folder.h"
#include "gguf/test_file.h"
#include "gguf/writer.h"

namespace kvasir::gguf {
namespace {

using testing::HasSubstr;

// Keys and tensors of a slice: experts 4-9 of layer 1, 0-3 of layer 3 (fused), of 10 in groups
// of 4.
struct Pieces {
  uint32_t version = 1;
  std::string source = std::string(64, 'a');
  std::optional<std::string> architecture = "qwen35moe";
  uint32_t n_experts = 10, n_embd = 64, group_size = 4;
  std::vector<uint32_t> layer = {1, 3}, first = {4, 0}, count = {6, 4};
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dims;
  };
  std::vector<Tensor> tensors = {
      {"blk.1.ffn_gate_exps.weight", TensorType::kQ8_0, {64, 32, 6}},
      {"blk.1.ffn_up_exps.weight", TensorType::kQ8_0, {64, 32, 6}},
      {"blk.1.ffn_down_exps.weight", TensorType::kF16, {32, 64, 6}},
      {"blk.3.ffn_gate_up_exps.weight", TensorType::kQ4_0, {64, 64, 4}},
      {"blk.3.ffn_down_exps.weight", TensorType::kF32, {32, 64, 4}},
  };

  std::vector<std::byte> file() const {
    Writer writer;
    if (architecture) writer.add_string("general.architecture", *architecture);
    writer.add_string("general.name", "small");
    writer.add_u32("qwen35moe.expert_count", n_experts);
    writer.add_u32("qwen35moe.embedding_length", n_embd);
    writer.add_u32(kSliceVersionKey, version);
    writer.add_string(kSliceSourceKey, source);
    writer.add_u32s(kSliceLayerKey, layer);
    writer.add_u32s(kSliceFirstKey, first);
    writer.add_u32s(kSliceCountKey, count);
    writer.add_u32(kGroupSizeKey, group_size);
    for (const Tensor& tensor : tensors) writer.add_tensor(tensor.name, tensor.type, tensor.dims);
    return writer.write_to_memory([&](const Writer::Planned& planned, uint64_t offset,
                                      std::span<std::byte> out) -> Result<void> {
      for (std::byte& byte : out) byte = static_cast<std::byte>(planned.offset + 7 * offset++);
      return {};
    });
  }
};

Result<Slice> parse(ByteSpan file) {
  KVASIR_TRY(const Header header, parse_header(file));
  return parse_slice(header, file);
}

TEST(Slice, SaysWhichExpertsItHolds) {
  const auto file = Pieces().file();
  auto slice = parse(file);
  ASSERT_TRUE(slice.has_value()) << slice.error().message;
  EXPECT_EQ(slice->source, std::string(64, 'a'));
  EXPECT_EQ(slice->architecture, "qwen35moe");
  EXPECT_EQ(slice->name, "small");
  EXPECT_EQ(slice->n_experts, 10U);
  EXPECT_EQ(slice->group_size, 4U);
  EXPECT_EQ(slice->n_embd, 64U);
  EXPECT_EQ(slice->width, 32U);
  EXPECT_EQ(slice->expert_count(), 10U);
  EXPECT_EQ(slice->n_units(), 3U);
  ASSERT_EQ(slice->layers.size(), 2U);
  EXPECT_EQ(slice->layers[0].experts, (ExpertRange{4, 10}));
  ASSERT_EQ(slice->layers[0].matrices.size(), 3U);
  EXPECT_EQ(slice->layers[0].matrices[2].role, ExpertRole::kDown);
  EXPECT_EQ(slice->layers[0].matrices[2].expert_bytes, 32U * 64 * 2);
  EXPECT_EQ(slice->layers[0].matrices[2].data.size(), 6U * 32 * 64 * 2);
  ASSERT_EQ(slice->layers[1].matrices.size(), 2U);
  EXPECT_EQ(slice->layers[1].matrices[0].role, ExpertRole::kGateUp);
  EXPECT_EQ(slice->bytes(), 6U * (2 * 34 * 2 * 32 + 4096) + 4U * (18 * 2 * 64 + 8192));
}

TEST(Slice, RefusesWhatContradictsItself) {
  struct Case {
    const char* says;
    std::function<void(Pieces&)> change;
  };
  const Case cases[] = {
      {"version 2 of slices", [](Pieces& p) { p.version = 2; }},
      {"no hash of a model", [](Pieces& p) { p.source = "abc"; }},
      {"no hash of a model", [](Pieces& p) { p.source[3] = 'G'; }},
      {"general.architecture", [](Pieces& p) { p.architecture.reset(); }},
      {"other.expert_count", [](Pieces& p) { p.architecture = "other"; }},
      {"outside 1..4096", [](Pieces& p) { p.n_experts = 0; }},
      {"outside 1..4096", [](Pieces& p) { p.n_experts = 4097; }},
      {"outside 1..4096", [](Pieces& p) { p.group_size = 0; }},
      {"outside 1..65536", [](Pieces& p) { p.n_embd = 65'537; }},
      {"does not fit 32 embeddings", [](Pieces& p) { p.n_embd = 32; }},
      {"0 layers, 2 firsts", [](Pieces& p) { p.layer.clear(); }},
      {"2 layers, 1 firsts", [](Pieces& p) { p.first.pop_back(); }},
      {"2 firsts and 3 counts", [](Pieces& p) { p.count.push_back(1); }},
      {"1 comes after 1",
       [](Pieces& p) {
         p.layer = {1, 1};
       }},
      {"1 comes after 3",
       [](Pieces& p) {
         p.layer = {3, 1};
       }},
      {"1024 is outside",
       [](Pieces& p) {
         p.layer = {1, 1024};
       }},
      {"outside 0..1023",
       [](Pieces& p) {
         p.layer = {1, UINT32_MAX};
       }},
      {"no whole groups",
       [](Pieces& p) {
         p.first = {5, 0};
       }},
      {"no whole groups",
       [](Pieces& p) {
         p.count = {5, 4};
       }},
      {"no whole groups",
       [](Pieces& p) {
         p.count = {6, 0};
       }},
      {"no whole groups",
       [](Pieces& p) {
         p.first = {8, 0};
       }},
      {"10 is outside",
       [](Pieces& p) {
         p.first = {10, 0};
       }},
      {"outside 0..10",
       [](Pieces& p) {
         p.count = {UINT32_MAX, 4};
       }},
      {"entries are more than 1024", [](Pieces& p) { p.layer.resize(1025); }},
      {"'blk.2.ffn_gate_exps.weight' is missing",
       [](Pieces& p) {
         p.layer = {1, 2};
       }},
      {"'blk.1.ffn_up_exps.weight' is missing",
       [](Pieces& p) { p.tensors.erase(p.tensors.begin() + 1); }},
      {"1 tensors belong to none",
       [](Pieces& p) {
         p.tensors.push_back({"extra.weight", TensorType::kF32, {1}});
       }},
      {"2 tensors belong to none", [](Pieces& p) { p.layer = {1}, p.first = {4}, p.count = {6}; }},
      {"1 tensors belong to none",
       [](Pieces& p) {
         p.tensors.push_back({"blk.3.ffn_up_exps.weight", TensorType::kQ4_0, {64, 32, 4}});
       }},
      {"must hold 6 experts", [](Pieces& p) { p.tensors[1].dims[2] = 7; }},
      {"must hold 6 experts",
       [](Pieces& p) {
         p.tensors[1].dims = {64, 32 * 6};
       }},
      {"must hold 6 experts",
       [](Pieces& p) {
         p.tensors[1].dims = {64, 32, 6, 1};
       }},
      {"does not fit", [](Pieces& p) { p.tensors[1].dims[1] = 33; }},
      {"does not fit", [](Pieces& p) { p.tensors[2].dims[1] = 63; }},
      {"does not fit", [](Pieces& p) { p.tensors[3].dims[1] = 63; }},
      {"does not fit", [](Pieces& p) { p.tensors[4].dims[0] = 33; }},
      {"too large", [](Pieces& p) { p.tensors[1].dims[1] = 131'073; }},
  };
  for (const Case& bad : cases) {
    Pieces pieces;
    bad.change(pieces);
    const auto file = pieces.file();
    auto slice = parse(file);
    ASSERT_FALSE(slice.has_value()) << bad.says;
    EXPECT_THAT(slice.error().message, HasSubstr(bad.says));
  }
}

TEST(Slice, AModelIsNone) {
  Writer writer;
  writer.add_string("general.architecture", "qwen35moe");
  const auto file = writer.write_to_memory(nullptr);
  auto slice = parse(file);
  ASSERT_FALSE(slice.has_value());
  EXPECT_EQ(slice.error().message, "the file is no slice");
}

// Every bit of the header flipped: refused, or what is accepted lies inside the file.
TEST(Slice, EveryFlippedBitIsRefusedOrHarmless) {
  const auto good = Pieces().file();
  const size_t header = static_cast<size_t>(parse_header(good).value().data_offset);
  size_t accepted = 0;
  for (size_t bit = 0; bit < header * 8; ++bit) {
    auto flipped = good;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    GuardedCopy copy(flipped);
    auto slice = parse(copy.before_guard_page());
    if (!slice) continue;
    ++accepted;
    uint64_t sum = 0;
    for (const SliceLayer& layer : slice->layers) {
      for (const SliceMatrix& matrix : layer.matrices) {
        EXPECT_EQ(matrix.data.size(), matrix.expert_bytes * layer.experts.count());
        for (std::byte byte : matrix.data) sum += static_cast<uint8_t>(byte);
      }
    }
    EXPECT_GT(sum, 0U);
  }
  EXPECT_GT(accepted, 0U);  // a letter of the name, a digit of the hash
}

TEST(SliceFile, NamesTheFileInItsErrors) {
  TestFolder folder;
  const std::string path = folder.write("x.gguf", Pieces().file());
  EXPECT_TRUE(SliceFile::open(path));
  Pieces bad;
  bad.version = 9;
  folder.write("x.gguf", bad.file());
  EXPECT_THAT(SliceFile::open(path).error().message, HasSubstr("x.gguf: version 9"));
  EXPECT_EQ(SliceFile::open(folder.path("none")).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace kvasir::gguf
