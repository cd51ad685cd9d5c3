// A small manifest read and written again, changed in one way each, and damaged at every byte.
#include "gguf/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/sha256.h"
#include "gguf/manifest_check.h"
#include "gguf/test_manifest.h"

namespace kvasir::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Manifest small() {
  auto manifest = ManifestPieces().build();
  if (!manifest) ADD_FAILURE() << manifest.error().message;
  return std::move(manifest.value());
}

TEST(Units, TensorsOfExpertsAreKnownByTheirNames) {
  for (ExpertRole role :
       {ExpertRole::kGate, ExpertRole::kUp, ExpertRole::kGateUp, ExpertRole::kDown}) {
    for (uint32_t layer : {0U, 7U, 10U, 1023U}) {
      const auto parsed = parse_expert_tensor_name(expert_tensor_name(layer, role));
      ASSERT_TRUE(parsed.has_value());
      EXPECT_EQ(parsed->layer, layer);
      EXPECT_EQ(parsed->role, role);
    }
  }
  for (const char* name :
       {"", "blk.", "blk.0", "blk..ffn_gate_exps.weight", "blk.00.ffn_gate_exps.weight",
        "blk.01.ffn_up_exps.weight", "blk.1024.ffn_up_exps.weight", "blk.-1.ffn_up_exps.weight",
        "blk.99999999999999999999.ffn_up_exps.weight", "blk.0.ffn_up_exps.weightx",
        "blk.0.ffn_up_exps.bias", "blk.0.ffn_gate_shexp.weight", "xblk.0.ffn_up_exps.weight"})
    EXPECT_FALSE(parse_expert_tensor_name(name).has_value()) << name;
}

TEST(Units, TheLastGroupMayBeSmaller) {
  EXPECT_EQ(group_experts(0, 8, 256), (ExpertRange{0, 8}));
  EXPECT_EQ(group_experts(2, 4, 10), (ExpertRange{8, 10}));
  EXPECT_EQ(group_experts(0, 8, 5), (ExpertRange{0, 5}));
  EXPECT_TRUE(is_whole_groups({4, 10}, 4, 10));
  EXPECT_TRUE(is_whole_groups({0, 4}, 4, 10));
  for (ExpertRange range : {ExpertRange{0, 0}, ExpertRange{0, 3}, ExpertRange{2, 4},
                            ExpertRange{8, 12}, ExpertRange{8, 4}, ExpertRange{12, 16}})
    EXPECT_FALSE(is_whole_groups(range, 4, 10)) << range.begin << " " << range.end;
}

TEST(Manifest, ReadsWhatItWrote) {
  const Manifest manifest = small();
  const std::string text = manifest.text();
  auto read = parse_manifest(text);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->text(), text);
  EXPECT_EQ(read->model_hash(), manifest.model_hash());
  EXPECT_TRUE(check_model_hash(*read));
  EXPECT_EQ(read->shape().n_experts, 10U);
  EXPECT_EQ(read->shape().group_size, 4U);
}

TEST(Manifest, FindsTheRangesOfEveryUnit) {
  const Manifest manifest = small();
  EXPECT_THAT(manifest.units(), ElementsAre(UnitId{0, 0}, UnitId{0, 1}, UnitId{0, 2}, UnitId{2, 0},
                                            UnitId{2, 1}, UnitId{2, 2}));
  EXPECT_EQ(manifest.experts({0, 2}), (ExpertRange{8, 10}));
  const auto names = [&](UnitId unit) {
    std::vector<std::string> found;
    for (const ManifestEntry* entry : manifest.ranges(unit)) {
      EXPECT_EQ(*entry->unit, manifest.experts(unit));
      found.push_back(entry->name);
    }
    return found;
  };
  EXPECT_THAT(names({0, 1}), ElementsAre("blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight",
                                         "blk.0.ffn_down_exps.weight"));
  EXPECT_THAT(names({2, 2}),
              ElementsAre("blk.2.ffn_gate_up_exps.weight", "blk.2.ffn_down_exps.weight"));
  EXPECT_THAT(names({1, 0}), ElementsAre());
  EXPECT_THAT(names({0, 3}), ElementsAre());
}

// Where the bytes lie and how files are called is no part of a model; everything else is.
TEST(Manifest, LayoutDoesNotEnterTheModelHash) {
  ManifestPieces moved;
  moved.parts[0] = {"other name.gguf", moved.parts[0].bytes + 4096};
  for (ManifestEntry& entry : moved.entries)
    if (entry.part == 0) entry.offset += 4096;
  EXPECT_EQ(moved.model_hash(), ManifestPieces().model_hash());
  EXPECT_TRUE(moved.build());

  const std::function<void(ManifestPieces&)> changes[] = {
      [](ManifestPieces& p) { p.entries[0].sha256[5] ^= 1; },
      [](ManifestPieces& p) { p.entries[0].type = TensorType::kQ4_0; },
      [](ManifestPieces& p) { p.entries[0].dims[1] += 1; },
      [](ManifestPieces& p) { p.entries[0].unit->end += 1; },
      [](ManifestPieces& p) { p.entries[0].name += "x"; },
      [](ManifestPieces& p) { p.entries.pop_back(); },
      [](ManifestPieces& p) { p.keys[2].value = "128"; },
      [](ManifestPieces& p) {
        p.keys.push_back({"z", "1"});
      },
  };
  for (const auto& change : changes) {
    ManifestPieces changed;
    change(changed);
    EXPECT_NE(changed.model_hash(), ManifestPieces().model_hash());
  }
}

// Each is wrong in one way, in its parts: Manifest::build() refuses it.
TEST(Manifest, RefusesContradictions) {
  struct Case {
    const char* says;
    std::function<void(ManifestPieces&)> change;
  };
  const auto entry = [](ManifestPieces& pieces, const std::string& name,
                        uint32_t first) -> ManifestEntry& {
    for (ManifestEntry& one : pieces.entries)
      if (one.name == name && (!one.unit || one.unit->begin == first)) return one;
    KVASIR_CHECK(false);
  };
  const std::string kGate = "blk.0.ffn_gate_exps.weight";
  const auto erase = [](ManifestPieces& pieces, const std::string& name) {
    std::erase_if(pieces.entries, [&](const ManifestEntry& one) { return one.name == name; });
  };
  const Case cases[] = {
      {"no part is named", [](auto& p) { p.parts.clear(); }},
      {"is empty",
       [](auto& p) {
         p.parts.push_back({"x", 0});
       }},
      {"no file name", [](auto& p) { p.parts[0].name = "../x.gguf"; }},
      {"no file name", [](auto& p) { p.parts[0].name = ".."; }},
      {"no file name", [](auto& p) { p.parts[0].name = ""; }},
      {"no file name", [](auto& p) { p.parts[0].name = std::string("a\0b", 3); }},
      {"more than 1000",
       [](auto& p) {
         p.parts.resize(1001, {"x", 1});
       }},
      {"is not behind", [](auto& p) { std::swap(p.keys[0], p.keys[1]); }},
      {"is not behind", [](auto& p) { p.keys.insert(p.keys.begin(), p.keys[0]); }},
      {"cannot stand", [](auto& p) { p.keys[0].value = "a b"; }},
      {"cannot stand", [](auto& p) { p.keys[0].value = ""; }},
      {"'general.architecture' is missing", [](auto& p) { p.keys.erase(p.keys.begin()); }},
      {"'kvasir.expert_group_size' is missing", [](auto& p) { p.keys.erase(p.keys.begin() + 1); }},
      {"no whole number from 1", [](auto& p) { p.keys[1].value = "0"; }},
      {"no whole number from 1", [](auto& p) { p.keys[1].value = "4097"; }},
      {"no whole number from 1", [](auto& p) { p.keys[1].value = "-4"; }},
      {"no whole number from 1", [](auto& p) { p.keys[1].value = "04"; }},
      {"no whole number from 1", [](auto& p) { p.keys[3].value = "99999999999999999999"; }},
      {"the keys imply", [](auto& p) { p.keys[2].value = "32"; }},
      {"the keys imply", [](auto& p) { p.keys[3].value = "11"; }},
      {"no group of 8", [](auto& p) { p.keys[1].value = "8"; }},
      {"cannot stand", [&](auto& p) { entry(p, kGate, 0).name = "a b"; }},
      {"cannot stand", [&](auto& p) { entry(p, kGate, 0).name = ""; }},
      {"cannot stand", [&](auto& p) { entry(p, kGate, 0).name = std::string(64, 'x'); }},
      {"is unknown", [&](auto& p) { entry(p, kGate, 0).type = static_cast<TensorType>(5); }},
      {"dimension 0 is 0", [&](auto& p) { entry(p, kGate, 0).dims[0] = 0; }},
      {"no whole blocks", [&](auto& p) { entry(p, kGate, 0).dims[0] = 63; }},
      {"fit 64 bits",
       [&](auto& p) { entry(p, "output_norm.weight", 0).dims[0] = uint64_t{1} << 62; }},
      {"the keys imply", [&](auto& p) { entry(p, kGate, 0).dims[1] = 31; }},
      {"type and shape make", [&](auto& p) { entry(p, kGate, 0).type = TensorType::kQ4_0; }},
      {"no SHA-256", [&](auto& p) { entry(p, kGate, 0).sha256.pop_back(); }},
      {"no SHA-256", [&](auto& p) { entry(p, kGate, 0).sha256[0] = 'A'; }},
      {"type and shape make", [&](auto& p) { entry(p, kGate, 0).bytes -= 1; }},
      {"in part 2 of 2", [&](auto& p) { entry(p, kGate, 0).part = 2; }},
      {"do not fit part", [](auto& p) { p.parts[0].bytes -= 1; }},
      {"do not fit part", [&](auto& p) { entry(p, kGate, 0).offset = UINT64_MAX; }},
      {"overlaps", [&](auto& p) { entry(p, kGate, 4).offset -= 1; }},
      {"overlaps", [&](auto& p) { entry(p, kGate, 4).offset = entry(p, kGate, 0).offset; }},
      {"names no unit", [&](auto& p) { entry(p, kGate, 0).unit.reset(); }},
      {"holds no experts",
       [&](auto& p) {
         entry(p, "output_norm.weight", 0).unit = {0, 4};
       }},
      {"no group of 4",
       [&](auto& p) {
         entry(p, kGate, 0).unit = {0, 3};
       }},
      {"no group of 4",
       [&](auto& p) {
         entry(p, kGate, 8).unit = {8, 12};
       }},
      {"no group of 4",
       [&](auto& p) {
         entry(p, kGate, 4).unit = {5, 9};
       }},
      {"comes where", [&](auto& p) { p.entries.push_back(entry(p, kGate, 4)); }},
      {"comes where 4 must",
       [&](auto& p) {
         std::erase_if(p.entries,
                       [&](const auto& e) { return e.name == kGate && e.unit->begin == 4; });
       }},
      {"experts from 8 on are missing",
       [&](auto& p) {
         std::erase_if(p.entries,
                       [&](const auto& e) { return e.name == kGate && e.unit->begin == 8; });
       }},
      {"is there twice", [&](auto& p) { p.entries.push_back(entry(p, "output_norm.weight", 0)); }},
      {"layer 0: gate, up or down", [&](auto& p) { erase(p, kGate); }},
      {"layer 0: gate, up or down", [&](auto& p) { erase(p, "blk.0.ffn_up_exps.weight"); }},
      {"layer 2: gate, up or down", [&](auto& p) { erase(p, "blk.2.ffn_down_exps.weight"); }},
  };
  for (const Case& bad : cases) {
    ManifestPieces pieces;
    bad.change(pieces);
    auto built = Manifest::build(std::string(64, '0'), pieces.parts, pieces.keys, pieces.entries);
    ASSERT_FALSE(built.has_value()) << bad.says;
    EXPECT_THAT(built.error().message, HasSubstr(bad.says));
  }
}

// Each is one edit of good text: the place and what stands there instead.
TEST(Manifest, RefusesEverySpellingButItsOwn) {
  struct Case {
    std::string from, to;
    const char* says;
  };
  const std::string hash = ManifestPieces().model_hash();
  const Case cases[] = {
      {"kvasir-manifest 1", "kvasir-manifest 2", "line 1: this is another version"},
      {"kvasir-manifest 1", "GGUF", "line 1: this is no manifest"},
      {"kvasir-manifest 1\n", "", "line 1: this is no manifest"},
      {"model " + hash + "\n", "", "line 2: this line does not belong here"},
      {"model ", "model  ", "line 2: the hash is empty"},
      {hash, hash + " x", "line 2: 'x' is too much"},
      {hash, hash.substr(1), "is no SHA-256 of a model"},
      {hash, std::string(64, 'g'), "is no SHA-256 of a model"},
      {"\npart ", "\nPart ", "line 3: 'Part' is no kind of line"},
      {"small-00001-of-00002.gguf", "small%2", "line 3: 'small%2' is no encoded file name"},
      {"small-00001-of-00002.gguf", "small%2f", "line 3: 'small%2f' is no encoded file name"},
      {"small-00001-of-00002.gguf", "%73mall", "is no encoded file name"},
      {"small-00001-of-00002.gguf", "..%2Fx", "is no file name"},
      {"\nkey ", "\nkey\t", "is no kind of line"},
      {"\nkey ", "\n key ", "the kind of line is empty"},
      {"\nkey ", "\n\nkey ", "the kind of line is empty"},
      {"\ntensor ", "\r\ntensor ", "cannot stand in a manifest"},
      {"architecture qwen35moe", "architecture", "line 5: the value is missing"},
      {" Q8_0 ", " q8_0 ", "type 'q8_0' is unknown"},
      {" Q8_0 ", " 8 ", "type '8' is unknown"},
      {" 64,32,10 ", " 64,32,10,1 ", "the keys imply"},
      {" 64,32,10 ", " 64,32,10,1,1 ", "more than 4 dimensions"},
      {" 64,32,10 ", " 64,,10 ", "dimension '' is no number"},
      {" 64,32,10 ", " 64,32, ", "dimension '' is no number"},
      {" 64,32,10 ", " 064,32,10 ", "dimension '064' is no number"},
      {" 64,32,10 ", " +64,32,10 ", "dimension '+64' is no number"},
      {" 64,32,10 ", " 18446744073709551616,32,10 ", "is no number"},
      {" 0-3 ", " 3-0 ", "is no range of experts"},
      {" 0-3 ", " 0 ", "unit '0' is no range"},
      {" 0-3 ", " 0-4294967296 ", "is no range of experts"},
      {" 0-3 ", " 0-18446744073709551615 ", "is no range of experts"},
      {" 0-3 ", " 0-03 ", "expert '03' is no number"},
      {"\nend\n", "\nend", "ends without its last line"},
      {"\nend\n", "\n", "ends without its last line"},
      {"\nend\n", "\nend\nend\n", "nothing may follow the end"},
      {"\nend\n", "\nend \n", "is no kind of line"},
      {"tensor output_norm.weight", "tensor a", "is not behind the one before"},
  };
  const std::string good = small().text();
  for (const Case& bad : cases) {
    std::string text = good;
    const size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, bad.from.size(), bad.to);
    auto read = parse_manifest(text);
    ASSERT_FALSE(read.has_value()) << bad.from << " -> " << bad.to;
    EXPECT_THAT(read.error().message, HasSubstr(bad.says)) << bad.from << " -> " << bad.to;
  }
  EXPECT_EQ(parse_manifest("").error().message, "line 1: the manifest ends without its last line");
  EXPECT_EQ(parse_manifest(std::string(kManifestBytesMax + 1, 'x')).error().kind,
            ErrorKind::kLimit);
}

TEST(Manifest, BoundsPartsAndKeys) {
  std::string parts = "kvasir-manifest 1\nmodel " + std::string(64, '0') + "\n";
  for (int i = 0; i < 1001; ++i) parts += "part 1 x\n";
  EXPECT_THAT(parse_manifest(parts + "end\n").error().message, HasSubstr("more than 1000 parts"));
  std::string keys = "kvasir-manifest 1\nmodel " + std::string(64, '0') + "\npart 1 x\n";
  for (int i = 0; i < 257; ++i) keys += fmt::format("key k{:04} v\n", i);
  EXPECT_THAT(parse_manifest(keys + "end\n").error().message, HasSubstr("more than 256 keys"));
}

// A cut or a flipped bit is refused by the reader, or by the model hash, or it hit the layout,
// which no hash protects: then what is accepted is written as it was read.
TEST(Manifest, DamageIsRefusedOrKeepsTheModel) {
  const Manifest manifest = small();
  const std::string text = manifest.text();
  for (size_t size = 0; size < text.size(); ++size)
    ASSERT_FALSE(parse_manifest(std::string_view(text).substr(0, size))) << size;
  const std::string identity = identity_text(manifest.keys(), manifest.entries());
  size_t only_layout = 0;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    auto read = parse_manifest(flipped);
    if (!read) continue;
    ASSERT_EQ(read->text(), flipped);
    if (!check_model_hash(*read)) continue;
    ASSERT_EQ(identity_text(read->keys(), read->entries()), identity) << "bit " << bit;
    ++only_layout;
  }
  EXPECT_GT(only_layout, 0U);
}

TEST(Manifest, ChecksBytesAgainstTheirHashes) {
  ManifestPieces pieces;
  std::vector<std::vector<std::byte>> bytes;
  for (ManifestEntry& entry : pieces.entries) {
    if (entry.name.find("blk.0") != 0 || entry.unit->begin != 4) continue;
    bytes.emplace_back(entry.bytes, static_cast<std::byte>(bytes.size()));
    entry.sha256 = sha256_hex(bytes.back());
  }
  const Manifest manifest = pieces.build().value();
  // Entries are sorted by name: down, gate, up. Units want gate, up, down.
  const std::vector<ByteSpan> ranges = {bytes[1], bytes[2], bytes[0]};
  EXPECT_TRUE(check_unit(manifest, {0, 1}, ranges));
  EXPECT_THAT(check_unit(manifest, {0, 0}, ranges).error().message,
              HasSubstr("tensor 'blk.0.ffn_gate_exps.weight', experts 0-3: SHA-256 is"));
  EXPECT_EQ(check_unit(manifest, {0, 3}, ranges).error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(check_unit(manifest, {0, 1}, std::span(ranges).first(2)).error().message,
              HasSubstr("2 ranges, must be 3"));
  bytes[2].back() ^= std::byte{1};
  EXPECT_THAT(check_unit(manifest, {0, 1}, ranges).error().message,
              HasSubstr("blk.0.ffn_up_exps.weight"));
  EXPECT_THAT(check_range(*manifest.ranges({0, 1})[0], ByteSpan(bytes[1]).first(1)).error().message,
              HasSubstr("1 bytes, must be"));
}

TEST(Manifest, EncodesFileNames) {
  for (const std::string& name :
       {std::string("a.gguf"), std::string("with space"), std::string("100 %"),
        std::string("\xc3\xa4\n"), std::string("a/b"), std::string("\0", 1)}) {
    const std::string encoded = percent_encoded(name);
    EXPECT_EQ(encoded.find_first_of(" /\n"), std::string::npos);
    EXPECT_EQ(percent_decoded(encoded), name);
  }
  EXPECT_EQ(percent_encoded("a b/%"), "a%20b%2F%25");
  for (const char* bad : {"%", "%2", "%zz", "%2f", "%41", "a b", "a/b"})
    EXPECT_FALSE(percent_decoded(bad).has_value()) << bad;
}

}  // namespace
}  // namespace kvasir::gguf
