// Files made to be refused. The names begin with the class of bug in other GGUF readers that each
// reproduces (docs/gguf.md lists the classes).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/allocation_watch.h"
#include "gguf/header.h"
#include "gguf/test_file.h"

namespace kvasir::gguf {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};
constexpr uint64_t k2To63 = uint64_t{1} << 63;
constexpr size_t kAllocationMax = 64 << 10;

constexpr uint32_t kF32 = static_cast<uint32_t>(TensorType::kF32);
constexpr uint32_t kQ8_0 = static_cast<uint32_t>(TensorType::kQ8_0);
constexpr uint32_t kQ4_K = static_cast<uint32_t>(TensorType::kQ4_K);

struct BadFile {
  const char* name;
  TestFile file;
  ErrorKind kind;
  std::vector<const char*> message;  // all of these are in it
};

// The front of a file of one key, and of one tensor.
TestFile key_file() {
  return TestFile::with(0, 1);
}
TestFile tensor_file() {
  return TestFile::with(1, 0);
}

constexpr auto kCorrupt = ErrorKind::kCorrupt;
constexpr auto kUnsupported = ErrorKind::kUnsupported;
constexpr auto kLimit = ErrorKind::kLimit;

std::vector<BadFile> bad_preambles() {
  return {
      {"G17_empty_file", TestFile(), kCorrupt, {"header at byte 0", "magic", "ends after 0"}},
      {"G17_three_bytes", TestFile().raw("GGU"), kCorrupt, {"magic", "ends after 3"}},
      {"G17_another_magic",
       TestFile().raw("GGML").zeros(20),
       kCorrupt,
       {"not a GGUF file", "GGML"}},
      {"G17_magic_of_control_characters",
       TestFile().raw("\x1b[2J").zeros(20),
       kCorrupt,
       {"not a GGUF file", "\\x1b[2J"}},
      {"G17_version_0", TestFile::with(0, 0, 0), kUnsupported, {"byte 4", "version 0"}},
      {"G17_version_1", TestFile::with(0, 0, 1), kUnsupported, {"byte 4", "version 1"}},
      {"G17_version_of_the_future", TestFile::with(0, 0, 4), kUnsupported, {"byte 4", "version 4"}},
      {"G17_version_max", TestFile::with(0, 0, ~0u), kUnsupported, {"version 4294967295"}},
      {"G17_big_endian", TestFile::with(0, 0, 3u << 24), kUnsupported, {"byte 4", "big-endian"}},
      {"G17_no_counts", TestFile().raw("GGUF").u32(3), kCorrupt, {"byte 8", "number of tensors"}},
      {"G17_half_a_count",
       TestFile().raw("GGUF").u32(3).u64(0).u32(0),
       kCorrupt,
       {"byte 16", "number of keys", "ends after 4"}},
  };
}

std::vector<BadFile> bad_counts() {
  TestFile one_key = TestFile::with(0, 2).key_u32("a", 1);
  TestFile crowded_keys = TestFile::with(0, kKeysMax + 1).zeros(13 * (kKeysMax + 1));
  TestFile crowded_tensors = TestFile::with(kTensorsMax + 1, 0).zeros(32 * (kTensorsMax + 1));
  return {
      {"G1_key_count_max", TestFile::with(0, kMax).zeros(64), kCorrupt, {"byte 16", "keys", "64"}},
      {"G1_key_count_negative", TestFile::with(0, k2To63).zeros(64), kCorrupt, {"byte 16", "keys"}},
      {"G1_key_count_times_least_size_just_fits_64_bits",
       TestFile::with(0, kMax / 13).zeros(64),
       kCorrupt,
       {"byte 16", "keys do not fit"}},
      {"G1_key_count_times_least_size_wraps_to_small",
       TestFile::with(0, kMax / 13 + 1).zeros(64),
       kCorrupt,
       {"byte 16", "keys do not fit"}},
      {"G1_key_count_one_more_than_the_bytes_can_hold",
       TestFile::with(0, 6).zeros(13 * 6 - 1),
       kCorrupt,
       {"byte 16", "6 keys do not fit the 77 bytes left"}},
      {"G1_one_key_more_than_there_are", one_key.zeros(9), kCorrupt, {"key ''", "value"}},
      {"G1_one_key_less_than_there_are",
       TestFile::with(1, 1).key_u32("a", 1).key_u32("b", 7).tensor("t", {4}, kF32, 0).data(16),
       kCorrupt,
       {"tensor 'b' at byte", "7"}},
      {"G1_key_count_0_but_keys_follow",
       TestFile::with(1, 0)
           .key_string("general.architecture", "x")
           .tensor("t", {4}, kF32, 0)
           .data(16),
       kCorrupt,
       {"tensor 'general.architecture' at byte", "8 dimensions"}},
      {"G8_more_keys_than_the_limit", crowded_keys, kLimit, {"byte 16", "65537 keys"}},
      {"G1_tensor_count_max", TestFile::with(kMax, 0).zeros(64), kCorrupt, {"byte 8", "tensors"}},
      {"G1_tensor_count_negative",
       TestFile::with(k2To63, 0).zeros(64),
       kCorrupt,
       {"byte 8", "tensors do not fit"}},
      {"G5_tensor_count_near_2_64_over_overhead",
       TestFile::with(kMax / 32 - 1, 0).zeros(64),
       kCorrupt,
       {"byte 8", "tensors do not fit"}},
      {"G5_tensor_count_wraps_to_small",
       TestFile::with(kMax / 32 + 2, 0).zeros(64),
       kCorrupt,
       {"byte 8", "tensors do not fit"}},
      {"G1_tensor_count_one_more_than_the_bytes_can_hold",
       TestFile::with(3, 0).zeros(95),
       kCorrupt,
       {"byte 8", "3 tensors do not fit the 95 bytes left"}},
      {"G1_one_tensor_more_than_there_are",
       TestFile::with(2, 0).tensor("t", {4}, kF32, 0).data(64),
       kCorrupt,
       {"tensor '' at byte 65", "0 dimensions"}},
      {"G8_more_tensors_than_the_limit", crowded_tensors, kLimit, {"byte 8", "65537 tensors"}},
  };
}

std::vector<BadFile> bad_keys() {
  auto named = [](std::string_view name) { return key_file().key_u32(name, 1); };
  return {
      {"G1_key_length_max",
       key_file().u64(kMax).zeros(32),
       kCorrupt,
       {"key 1 of 1 at byte 24", "name is 18446744073709551615 bytes long", "32 are left"}},
      {"G14_key_length_negative_seeks_backwards",
       key_file().u64(kMax - 7).zeros(32),
       kCorrupt,
       {"key 1 of 1 at byte 24", "18446744073709551608"}},
      {"G14_key_length_2_63", key_file().u64(k2To63).zeros(32), kCorrupt, {"key 1 of 1", "left"}},
      {"G1_key_length_one_past_the_end",
       key_file().u64(33).zeros(32),
       kCorrupt,
       {"key 1 of 1", "33 bytes long, but only 32"}},
      {"G17_key_longer_than_65535",
       named(std::string(65'536, 'k')),
       kLimit,
       {"key 1 of 1", "65536 bytes long, more than 65535"}},
      {"G17_key_with_nul", named(std::string("a\0b", 3)), kCorrupt, {"'a\\x00b'", "NUL"}},
      {"G17_key_in_latin1", named("caf\xe9"), kCorrupt, {"'caf\\xe9'", "not valid UTF-8"}},
      {"G17_key_overlong_slash", named("a\xc0\xaf"), kCorrupt, {"not valid UTF-8"}},
      {"G17_key_with_surrogate", named("\xed\xa0\x80"), kCorrupt, {"not valid UTF-8"}},
      {"G10_duplicate_key",
       TestFile::with(0, 3).key_u32("a", 1).key_u32("b", 1).key_string("a", "x"),
       kCorrupt,
       {"key 'a' at byte 58", "twice"}},
      {"G17_value_type_13",
       key_file().string("a").u32(13).zeros(8),
       kCorrupt,
       {"key 'a' at byte 33", "value type 13"}},
      {"G17_value_type_negative",
       key_file().string("a").u32(~0u).zeros(8),
       kCorrupt,
       {"key 'a'", "value type 4294967295"}},
      {"G1_value_cut_off",
       key_file().key("a", ValueType::kU64).u32(0),
       kCorrupt,
       {"key 'a' at byte 37", "value needs 8 bytes", "ends after 4"}},
      {"G1_string_length_max",
       key_file().key("a", ValueType::kString).u64(kMax),
       kCorrupt,
       {"key 'a' at byte 37", "string is 18446744073709551615 bytes"}},
      {"G14_string_length_2_63",
       key_file().key("a", ValueType::kString).u64(k2To63).zeros(8),
       kCorrupt,
       {"key 'a'", "string is 9223372036854775808 bytes"}},
      {"G14_string_length_one_past_the_end",
       key_file().key("a", ValueType::kString).u64(9).zeros(8),
       kCorrupt,
       {"key 'a'", "9 bytes long, but only 8"}},
      {"G16_string_longer_than_16_mib",
       key_file().key_string("a", std::string(kStringBytesMax + 1, 'x')),
       kLimit,
       {"key 'a' at byte 37", "16777217 bytes long"}},
  };
}

std::vector<BadFile> bad_arrays() {
  auto array = [](ValueType type, uint64_t count) {
    return key_file().key_array("a", type, count);
  };
  return {
      {"G10_array_longer_than_the_file",
       array(ValueType::kU32, 3).zeros(11),
       kCorrupt,
       {"key 'a' at byte 37", "3 u32 values does not fit the 11 bytes"}},
      {"G10_array_count_max",
       array(ValueType::kU8, kMax).zeros(64),
       kCorrupt,
       {"key 'a'", "18446744073709551615 u8 values"}},
      {"G10_array_size_wraps_to_0",
       array(ValueType::kU64, uint64_t{1} << 61).zeros(64),
       kCorrupt,
       {"key 'a'", "u64 values does not fit"}},
      {"G10_array_size_wraps_to_small",
       array(ValueType::kF32, (uint64_t{1} << 62) + 1).zeros(64),
       kCorrupt,
       {"key 'a'", "f32 values does not fit"}},
      {"G16_string_array_of_billions",
       array(ValueType::kString, uint64_t{1} << 32).zeros(64),
       kCorrupt,
       {"key 'a'", "string values does not fit"}},
      {"G16_array_longer_than_the_limit",
       array(ValueType::kU8, kArrayCountMax + 1).zeros(kArrayCountMax + 1),
       kLimit,
       {"key 'a'", "16777217 values"}},
      {"G10_nested_array",
       array(ValueType::kArray, 1).u32(4).u64(1).u32(7),
       kCorrupt,
       {"key 'a' at byte 37", "array of arrays"}},
      {"G10_array_of_unknown_type",
       key_file().key("a", ValueType::kArray).u32(77).u64(1).zeros(8),
       kCorrupt,
       {"key 'a' at byte 37", "element type 77"}},
      {"G1_string_in_array_past_the_end",
       array(ValueType::kString, 2).string("ok").u64(100).raw("short"),
       kCorrupt,
       {"key 'a' at byte 59", "100 bytes long, but only 5"}},
      {"G14_string_in_array_of_negative_length",
       array(ValueType::kString, 2).u64(kMax - 15).zeros(16),
       kCorrupt,
       {"key 'a'", "18446744073709551600"}},
      {"G1_string_array_ends_early",
       array(ValueType::kString, 2).string("eight by"),
       kCorrupt,
       {"key 'a'", "a string of the array needs 8 bytes", "ends after 0"}},
      {"G17_array_without_length",
       key_file().key("a", ValueType::kArray).u32(4).u32(0),
       kCorrupt,
       {"key 'a'", "array's length needs 8 bytes"}},
  };
}

std::vector<BadFile> bad_alignments() {
  auto aligned = [](uint32_t value) {
    return TestFile::with(1, 1)
        .key_u32("general.alignment", value)
        .tensor("t", {4}, kF32, 0)
        .data(16);
  };
  auto of_type = [](ValueType type) {
    return std::move(TestFile::with(0, 1).key("general.alignment", type));
  };
  const char* key = "key 'general.alignment' at byte 53";
  return {
      {"G9_alignment_is_a_string",
       of_type(ValueType::kString).string("32"),
       kCorrupt,
       {key, "is string, but must be u32"}},
      {"G9_alignment_is_u64", of_type(ValueType::kU64).u64(32), kCorrupt, {key, "is u64"}},
      {"G9_alignment_is_i32", of_type(ValueType::kI32).u32(32), kCorrupt, {key, "is i32"}},
      {"G9_alignment_is_a_byte", of_type(ValueType::kU8).u8(32), kCorrupt, {key, "is u8"}},
      {"G9_alignment_is_an_array",
       of_type(ValueType::kArray).u32(4).u64(1).u32(32),
       kCorrupt,
       {key, "is array"}},
      {"G9_alignment_0", aligned(0), kCorrupt, {key, "0 is not a power of two"}},
      {"G9_alignment_3", aligned(3), kCorrupt, {key, "3 is not a power of two"}},
      {"G9_alignment_4", aligned(4), kCorrupt, {key, "4 is not a power of two from 8"}},
      {"G9_alignment_33", aligned(33), kCorrupt, {key, "33 is not"}},
      {"G8_alignment_131072", aligned(131'072), kCorrupt, {key, "131072", "to 65536"}},
      {"G8_alignment_2_30", aligned(1u << 30), kCorrupt, {key, "1073741824"}},
      {"G9_alignment_2_31", aligned(1u << 31), kCorrupt, {key, "2147483648"}},
      {"G9_alignment_max", aligned(~0u), kCorrupt, {key, "4294967295"}},
  };
}

std::vector<BadFile> bad_tensor_descriptions() {
  auto named = [](std::string_view name) {
    return tensor_file().tensor(name, {4}, kF32, 0).data(16);
  };
  auto shaped = [](const std::vector<uint64_t>& dims, uint32_t type) {
    return tensor_file().tensor("t", dims, type, 0).data(4096);
  };
  auto n_dims = [](uint32_t n) { return tensor_file().string("t").u32(n).zeros(64); };
  auto typed = [&](uint32_t type) { return shaped({256}, type); };
  return {
      {"G17_tensor_name_of_64_bytes",
       named(std::string(64, 'n')),
       kLimit,
       {"tensor 1 of 1 at byte 24", "64 bytes long, more than 63"}},
      {"G1_tensor_name_length_max",
       tensor_file().u64(kMax).zeros(32),
       kCorrupt,
       {"tensor 1 of 1 at byte 24", "18446744073709551615"}},
      {"G14_tensor_name_length_negative",
       tensor_file().u64(kMax - 23).zeros(32),
       kCorrupt,
       {"tensor 1 of 1", "18446744073709551592"}},
      {"G17_tensor_name_with_nul", named(std::string("t\0", 2)), kCorrupt, {"'t\\x00'", "NUL"}},
      {"G17_tensor_name_not_utf8", named("\xff"), kCorrupt, {"'\\xff'", "not valid UTF-8"}},
      {"G17_duplicate_tensor",
       TestFile::with(2, 0).tensor("t", {4}, kF32, 0).tensor("t", {4}, kF32, 32).data(48),
       kCorrupt,
       {"tensor 't' at byte 57", "twice"}},
      {"G1_no_dimensions", n_dims(0), kCorrupt, {"tensor 't' at byte 33", "0 dimensions"}},
      {"G1_five_dimensions", n_dims(5), kCorrupt, {"tensor 't' at byte 33", "5 dimensions"}},
      {"G12_nine_dimensions", n_dims(9), kCorrupt, {"tensor 't'", "9 dimensions"}},
      {"G11_n_dims_max", n_dims(~0u), kCorrupt, {"tensor 't'", "4294967295 dimensions"}},
      {"G17_dimension_0_is_0",
       shaped({0, 4}, kF32),
       kCorrupt,
       {"tensor 't' at byte 37", "dimension 0 is 0"}},
      {"G17_dimension_3_is_0",
       shaped({4, 1, 1, 0}, kF32),
       kCorrupt,
       {"tensor 't' at byte 61", "dimension 3 is 0"}},
      {"G6_product_of_dims_wraps_to_0",
       shaped({uint64_t{1} << 32, uint64_t{1} << 32}, kF32),
       kCorrupt,
       {"tensor 't'", "does not fit 64 bits"}},
      {"G13_product_of_dims_wraps_to_small",
       shaped({uint64_t{1} << 22, uint64_t{1} << 21, (uint64_t{1} << 21) + 1, 1}, kF32),
       kCorrupt,
       {"tensor 't'", "does not fit 64 bits"}},
      {"G6_size_in_bytes_wraps_to_4",
       shaped({(uint64_t{1} << 62) + 1}, kF32),
       kCorrupt,
       {"tensor 't'", "does not fit 64 bits"}},
      {"G17_dimension_negative", shaped({4, kMax}, kF32), kCorrupt, {"tensor 't'", "does not fit"}},
      {"G7_dimension_2_42_plus_1",
       shaped({(uint64_t{1} << 42) + 1}, kF32),
       kCorrupt,
       {"tensor 't'", "17592186044420 bytes", "data section of 4096"}},
      {"G7_stride_2_64_in_blocks",
       shaped({uint64_t{1} << 63, 4}, kQ4_K),
       kCorrupt,
       {"tensor 't'", "does not fit 64 bits"}},
      {"G17_row_is_half_a_superblock",
       shaped({128, 2}, kQ4_K),
       kCorrupt,
       {"tensor 't' at byte 33", "128 values", "blocks of 256 (Q4_K)"}},
      {"G17_row_is_one_value_too_long", shaped({33}, kQ8_0), kCorrupt, {"33 values", "(Q8_0)"}},
      {"G17_removed_type_4", typed(4), kUnsupported, {"tensor 't' at byte 45", "type 4"}},
      {"G17_removed_type_36", typed(36), kUnsupported, {"tensor 't'", "type 36"}},
      {"G17_type_past_the_table", typed(64), kUnsupported, {"tensor 't'", "type 64"}},
      {"G10_type_negative", typed(~0u), kUnsupported, {"tensor 't'", "type 4294967295"}},
      {"G10_type_most_negative", typed(1u << 31), kUnsupported, {"tensor 't'", "type 2147483648"}},
      {"G1_tensor_cut_off_before_its_offset",
       tensor_file().string("a longer name").u32(1).u64(4).u32(kF32).u32(0),
       kCorrupt,
       {"tensor 'a longer name' at byte 61", "offset needs 8 bytes"}},
  };
}

std::vector<BadFile> bad_extents() {
  auto at = [](uint64_t offset) { return tensor_file().tensor("t", {16}, kF32, offset).data(64); };
  auto two = [](const std::vector<uint64_t>& dims, uint64_t first, uint64_t second) {
    return TestFile::with(2, 0)
        .tensor("a", dims, kF32, first)
        .tensor("b", {8}, kF32, second)
        .data(256);
  };
  uint64_t half = uint64_t{1} << 61;  // 2^63 bytes of f32
  return {
      {"G17_offset_not_aligned", at(8), kCorrupt, {"tensor 't'", "offset 8", "alignment 32"}},
      {"G17_offset_aligned_to_the_default_only",
       TestFile::with(1, 1)
           .key_u32("general.alignment", 64)
           .tensor("t", {4}, kF32, 32)
           .data(64, 64),
       kCorrupt,
       {"tensor 't'", "offset 32", "alignment 64"}},
      {"G15_offset_at_the_end",
       at(64),
       kCorrupt,
       {"tensor 't' at byte 24", "64 bytes at offset 64", "data section of 64"}},
      {"G15_offset_beyond_the_file", at(1 << 20), kCorrupt, {"tensor 't'", "offset 1048576"}},
      {"G15_last_bytes_beyond_the_file", at(32), kCorrupt, {"tensor 't'", "64 bytes at offset 32"}},
      {"G4_end_wraps_2_64",
       at(kMax - 31),
       kCorrupt,
       {"tensor 't'", "offset 18446744073709551584", "do not fit"}},
      {"G14_offset_negative", at(k2To63), kCorrupt, {"tensor 't'", "offset 9223372036854775808"}},
      {"G4_two_tensors_wrap_2_64",
       TestFile::with(2, 0).tensor("a", {half}, kF32, 0).tensor("b", {half}, kF32, k2To63).data(64),
       kCorrupt,
       {"tensor 'a'", "9223372036854775808 bytes at offset 0", "64 bytes"}},
      {"G4_padded_size_wraps_2_64",
       tensor_file().tensor("t", {kMax}, static_cast<uint32_t>(TensorType::kI8), 0).data(64),
       kCorrupt,
       {"tensor 't'", "18446744073709551615 bytes"}},
      {"G17_no_data_section",
       tensor_file().tensor("t", {4}, kF32, 0),
       kCorrupt,
       {"data section starts at byte 64", "the file has 57"}},
      {"G17_data_one_byte_short",
       tensor_file().tensor("t", {16}, kF32, 0).data(63),
       kCorrupt,
       {"tensor 't'", "64 bytes at offset 0", "63 bytes"}},
      {"G17_two_tensors_at_the_same_place", two({8}, 32, 32), kCorrupt, {"'a'", "overlaps", "'b'"}},
      {"G17_tensor_reaches_into_the_next",
       two({9}, 0, 32),
       kCorrupt,
       {"tensor 'b'", "overlaps that of 'a'"}},
      {"G17_tensor_reaches_into_the_one_described_before",
       TestFile::with(2, 0).tensor("a", {8}, kF32, 32).tensor("b", {9}, kF32, 0).data(64),
       kCorrupt,
       {"tensor 'a' at byte 24", "overlaps that of 'b'"}},
      {"G17_tensor_inside_another", two({64}, 0, 128), kCorrupt, {"tensor 'b'", "overlaps"}},
  };
}

const std::vector<BadFile>& all_bad_files() {
  static const std::vector<BadFile> files = [] {
    std::vector<BadFile> all;
    for (auto group : {bad_preambles, bad_counts, bad_keys, bad_arrays, bad_alignments,
                       bad_tensor_descriptions, bad_extents})
      for (BadFile& file : group()) all.push_back(std::move(file));
    return all;
  }();
  return files;
}

TEST(BadFiles, AreAllRefusedWithPlaceAndReason) {
  EXPECT_GE(all_bad_files().size(), 60u);
  for (const BadFile& bad : all_bad_files()) {
    SCOPED_TRACE(bad.name);
    GuardedCopy copy(bad.file.bytes());
    for (ByteSpan bytes : {copy.before_guard_page(), copy.exact_heap_block()}) {
      auto header = parse_header(bytes);
      ASSERT_FALSE(header.has_value());
      EXPECT_EQ(header.error().kind, bad.kind) << header.error().message;
      for (const char* part : bad.message)
        EXPECT_THAT(header.error().message, testing::HasSubstr(part));
    }
  }
}

TEST(BadFiles, NeverMakeTheReaderAllocateMuch) {
  for (const BadFile& bad : all_bad_files()) {
    largest_allocation = 0;
    auto header = parse_header(bad.file.bytes());
    EXPECT_LT(largest_allocation, kAllocationMax) << bad.name;
  }
}

TEST(BadFiles, HeaderLongerThan64MiBIsRefused) {
  constexpr int kStrings = 5;
  std::string text(14 << 20, 'x');
  TestFile file = TestFile::with(0, kStrings);
  for (int i = 0; i < kStrings; ++i)
    file.key_string(std::string(1, static_cast<char>('a' + i)), text);
  auto header = parse_header(file.bytes());
  ASSERT_FALSE(header.has_value());
  EXPECT_EQ(header.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(header.error().message, testing::HasSubstr("key 'e'"));
  EXPECT_THAT(header.error().message, testing::HasSubstr("header is longer than 67108864 bytes"));
}

TEST(BadFiles, HostileNamesAreShownHarmless) {
  TestFile file = TestFile::with(0, 2)
                      .key_u32("\x1b]0;owned\x07\xe2\x80\xae", 1)
                      .key_u32("\x1b]0;owned\x07\xe2\x80\xae", 1);
  auto header = parse_header(file.bytes());
  ASSERT_FALSE(header.has_value());
  EXPECT_THAT(header.error().message, testing::HasSubstr("'\\x1b]0;owned\\x07\\xe2\\x80\\xae'"));
  TestFile long_name = TestFile::with(0, 1).key(std::string(60'000, 'k'), ValueType{99});
  header = parse_header(long_name.bytes());
  ASSERT_FALSE(header.has_value());
  EXPECT_LT(header.error().message.size(), 300u);
}

}  // namespace
}  // namespace kvasir::gguf
