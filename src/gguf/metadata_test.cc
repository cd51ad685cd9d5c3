#include "gguf/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "gguf/header.h"
#include "gguf/test_file.h"

namespace kvasir::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file of one key 'k', kept alive with the metadata parsed from it.
class OneKey {
 public:
  explicit OneKey(TestFile file) : file_(std::move(file)) {
    auto header = parse_header(file_.bytes());
    if (!header) ADD_FAILURE() << header.error().message;
    metadata_ = std::move(header->metadata);
  }
  template <typename T>
  static OneKey scalar(ValueType type, T value) {
    return OneKey(TestFile::with(0, 1).key("k", type).number(value));
  }
  const Metadata* operator->() const { return &metadata_; }

 private:
  TestFile file_;
  Metadata metadata_;
};

TEST(Metadata, EveryIntegerWidthIsAnInteger) {
  EXPECT_EQ(OneKey::scalar(ValueType::kU8, uint8_t{200})->get_uint("k").value(), 200u);
  EXPECT_EQ(OneKey::scalar(ValueType::kI8, int8_t{100})->get_uint("k").value(), 100u);
  EXPECT_EQ(OneKey::scalar(ValueType::kU16, uint16_t{60'000})->get_uint("k").value(), 60'000u);
  EXPECT_EQ(OneKey::scalar(ValueType::kI16, int16_t{-5})->get_int("k").value(), -5);
  EXPECT_EQ(OneKey::scalar(ValueType::kU32, ~0u)->get_uint("k").value(), 4'294'967'295u);
  EXPECT_EQ(OneKey::scalar(ValueType::kI32, -7)->get_int("k").value(), -7);
  EXPECT_EQ(OneKey::scalar(ValueType::kU64, ~uint64_t{0})->get_uint("k").value(), ~uint64_t{0});
  EXPECT_EQ(OneKey::scalar(ValueType::kBool, uint8_t{1})->get_uint("k").value(), 1u);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(OneKey::scalar(ValueType::kI64, kLeast)->get_int("k").value(), kLeast);
}

TEST(Metadata, IntegersThatDoNotFitAreErrorsWithTheirValue) {
  auto negative = OneKey::scalar(ValueType::kI32, -7)->get_uint("k");
  ASSERT_FALSE(negative.has_value());
  EXPECT_EQ(negative.error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(negative.error().message, "key 'k' at byte 37: i32 -7 is not an unsigned integer");

  auto large = OneKey::scalar(ValueType::kU64, uint64_t{1} << 63)->get_int("k");
  ASSERT_FALSE(large.has_value());
  EXPECT_THAT(large.error().message, HasSubstr("u64 9223372036854775808 is not a signed"));

  OneKey array(TestFile::with(0, 1).key_array("k", ValueType::kU64, 2).u64(1).u64(~uint64_t{0}));
  EXPECT_FALSE(array->get_ints("k").has_value());
}

TEST(Metadata, FloatsOfBothWidthsMustBeFinite) {
  EXPECT_EQ(OneKey::scalar(ValueType::kF32, 0.5f)->get_float("k").value(), 0.5);
  EXPECT_EQ(OneKey::scalar(ValueType::kF64, 1e-300)->get_float("k").value(), 1e-300);
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto result = OneKey::scalar(ValueType::kF64, bad)->get_float("k");
    ASSERT_FALSE(result.has_value());
    EXPECT_THAT(result.error().message, HasSubstr("is not a finite number"));
  }
}

TEST(Metadata, TruthValuesAre0Or1OfAnyIntegerType) {
  EXPECT_TRUE(OneKey::scalar(ValueType::kBool, uint8_t{1})->get_bool("k").value());
  EXPECT_FALSE(OneKey::scalar(ValueType::kU8, uint8_t{0})->get_bool("k").value());
  EXPECT_TRUE(OneKey::scalar(ValueType::kI32, 1)->get_bool("k").value());
  EXPECT_FALSE(OneKey::scalar(ValueType::kBool, uint8_t{2})->get_bool("k").has_value());
  EXPECT_FALSE(OneKey::scalar(ValueType::kI8, int8_t{-1})->get_bool("k").has_value());
}

TEST(Metadata, StringsMustBeText) {
  EXPECT_EQ(
      OneKey(TestFile::with(0, 1).key_string("k", "gr\xc3\xbc\xc3\x9f"))->get_string("k").value(),
      "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(OneKey(TestFile::with(0, 1).key_string("k", ""))->get_string("k").value(), "");
  for (std::string bad : {std::string("\xff"), std::string("a\0b", 3)}) {
    OneKey file(TestFile::with(0, 1).key_string("k", bad));
    auto text = file->get_string("k");
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().kind, ErrorKind::kCorrupt);
    EXPECT_THAT(text.error().message,
                HasSubstr("key 'k' at byte 37: the string is not valid UTF-8"));
  }
}

TEST(Metadata, AWrongTypeNamesKeyOffsetAndBothTypes) {
  OneKey text(TestFile::with(0, 1).key_string("k", "32"));
  EXPECT_EQ(text->get_uint("k").error().message,
            "key 'k' at byte 37: is string, but must be an unsigned integer");
  EXPECT_THAT(text->get_int("k").error().message, HasSubstr("must be an integer"));
  EXPECT_THAT(text->get_float("k").error().message, HasSubstr("must be f32 or f64"));
  EXPECT_THAT(text->get_bool("k").error().message, HasSubstr("must be bool"));
  EXPECT_THAT(text->get_ints("k").error().message, HasSubstr("must be an array of integers"));
  EXPECT_THAT(text->get_floats("k").error().message, HasSubstr("must be an array of f32 or f64"));
  OneKey number = OneKey::scalar(ValueType::kF32, 1.0f);
  EXPECT_THAT(number->get_string("k").error().message, HasSubstr("is f32, but must be a string"));
  EXPECT_THAT(number->get_strings("k").error().message, HasSubstr("must be an array of strings"));
  EXPECT_THAT(number->get_uint("k").error().message, HasSubstr("is f32"));
  EXPECT_FALSE(number->get_ints("k").has_value());
  OneKey array(TestFile::with(0, 1).key_array("k", ValueType::kU32, 1).u32(1));
  EXPECT_EQ(array->get_uint("k").error().message,
            "key 'k' at byte 37: is array of u32, but must be an unsigned integer");
  EXPECT_FALSE(array->get_float("k").has_value());
  EXPECT_FALSE(array->get_string("k").has_value());
}

TEST(Metadata, AnAbsentKeyIsNotFoundOrItsFallback) {
  OneKey file = OneKey::scalar(ValueType::kU32, 1u);
  for (const Error& error :
       {file->get_uint("x").error(), file->get_int("x").error(), file->get_float("x").error(),
        file->get_bool("x").error(), file->get_string("x").error(), file->get_ints("x").error(),
        file->get_floats("x").error(), file->get_strings("x").error()}) {
    EXPECT_EQ(error.kind, ErrorKind::kNotFound);
    EXPECT_EQ(error.message, "key 'x' is missing");
  }
  EXPECT_EQ(file->get_uint_or("x", 5).value(), 5u);
  EXPECT_EQ(file->get_float_or("x", 0.5).value(), 0.5);
  EXPECT_TRUE(file->get_bool_or("x", true).value());
  EXPECT_EQ(file->get_string_or("x", "y").value(), "y");
  EXPECT_FALSE(file->contains("x"));
}

// A default must not hide that the file says something else.
TEST(Metadata, AFallbackDoesNotHideAWrongType) {
  OneKey number = OneKey::scalar(ValueType::kU32, 7u);
  EXPECT_FALSE(number->get_string_or("k", "y").has_value());
  EXPECT_FALSE(number->get_float_or("k", 1).has_value());
  EXPECT_FALSE(number->get_bool_or("k", true).has_value());
  EXPECT_EQ(number->get_uint_or("k", 5).value(), 7u);
  OneKey text(TestFile::with(0, 1).key_string("k", "7"));
  EXPECT_FALSE(text->get_uint_or("k", 5).has_value());
}

TEST(Metadata, ArraysOfEveryNumberType) {
  OneKey bytes(TestFile::with(0, 1).key_array("k", ValueType::kI8, 3).u8(1).u8(0xff).u8(0x80));
  EXPECT_THAT(bytes->get_ints("k").value(), ElementsAre(1, -1, -128));
  OneKey flags(TestFile::with(0, 1).key_array("k", ValueType::kBool, 2).u8(1).u8(0));
  EXPECT_THAT(flags->get_ints("k").value(), ElementsAre(1, 0));
  OneKey words(TestFile::with(0, 1).key_array("k", ValueType::kI64, 2).number<int64_t>(-3).u64(4));
  EXPECT_THAT(words->get_ints("k").value(), ElementsAre(-3, 4));
  OneKey floats(TestFile::with(0, 1).key_array("k", ValueType::kF32, 2).f32(0.5f).f32(-2));
  EXPECT_THAT(floats->get_floats("k").value(), ElementsAre(0.5, -2));
  OneKey doubles(TestFile::with(0, 1).key_array("k", ValueType::kF64, 1).number(0.1));
  EXPECT_THAT(doubles->get_floats("k").value(), ElementsAre(0.1));
  OneKey none(TestFile::with(0, 1).key_array("k", ValueType::kU32, 0));
  EXPECT_THAT(none->get_ints("k").value(), ElementsAre());
}

TEST(Metadata, StringArraysMayHoldAnyBytes) {
  OneKey file(TestFile::with(0, 1)
                  .key_array("k", ValueType::kString, 3)
                  .string("a")
                  .string("")
                  .string("\xff\xfe"));
  EXPECT_THAT(file->get_strings("k").value(), ElementsAre("a", "", "\xff\xfe"));
}

TEST(Metadata, AScalarIsAnArrayOfOne) {
  EXPECT_THAT(OneKey::scalar(ValueType::kU16, uint16_t{9})->get_ints("k").value(), ElementsAre(9));
  EXPECT_THAT(OneKey::scalar(ValueType::kF32, 0.5f)->get_floats("k").value(), ElementsAre(0.5));
  OneKey text(TestFile::with(0, 1).key_string("k", "one"));
  EXPECT_THAT(text->get_strings("k").value(), ElementsAre("one"));
}

TEST(Metadata, AddRefusesAKeyThatIsThere) {
  Metadata metadata;
  std::byte bytes[1] = {};
  Value value = {
      .key = "a", .type = ValueType::kU8, .element_type = ValueType::kU8, .bytes = bytes};
  EXPECT_TRUE(metadata.add(value));
  EXPECT_FALSE(metadata.add(value));
  EXPECT_EQ(metadata.values().size(), 1u);
}

TEST(Metadata, TypeNamesAreThoseOfTheFormat) {
  EXPECT_EQ(value_type_name(ValueType::kU8), "u8");
  EXPECT_EQ(value_type_name(ValueType::kArray), "array");
  EXPECT_EQ(value_type_name(ValueType::kF64), "f64");
  EXPECT_EQ(value_type_name(ValueType{13}), "unknown");
}

}  // namespace
}  // namespace kvasir::gguf
