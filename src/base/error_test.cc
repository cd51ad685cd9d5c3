#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvasir {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error::invalid("{} is odd", number);
  return number / 2;
}

Result<int> quarter_of(int number) {
  KVASIR_TRY(int half, half_of(number));
  KVASIR_TRY(int quarter, half_of(half));
  return quarter;
}

Result<void> must_be_even(int number) {
  KVASIR_TRY_VOID(half_of(number));
  return {};
}

Result<std::unique_ptr<int>> boxed(int number) {
  KVASIR_TRY(auto half, half_of(number));
  return std::make_unique<int>(half);
}

TEST(Error, AFactoryFormatsItsMessageAndSetsItsKind) {
  Error error = Error::limit("needs {} bytes, have {}", 7, 5);
  EXPECT_EQ(error.kind, ErrorKind::kLimit);
  EXPECT_EQ(error.message, "needs 7 bytes, have 5");
  EXPECT_EQ(error.hint, "");
}

TEST(Error, AMessageIsNotAFormatString) {
  Error error = Error::corrupt("key '{}'", "{} %s").in("{file}");
  EXPECT_EQ(error.message, "{file}: key '{} %s'");
}

TEST(Error, PlaceGoesInFrontAndHintBeside) {
  Error error = Error::io("cannot read").with_hint("try again").in("x.gguf").in("model");
  EXPECT_EQ(error.kind, ErrorKind::kIo);
  EXPECT_EQ(error.message, "model: x.gguf: cannot read");
  EXPECT_EQ(error.hint, "try again");
}

TEST(Error, EveryKindHasItsOwnName) {
  EXPECT_EQ(error_kind_name(Error::corrupt("x").kind), "corrupt");
  EXPECT_EQ(error_kind_name(Error::unsupported("x").kind), "unsupported");
  EXPECT_EQ(error_kind_name(Error::not_found("x").kind), "not-found");
  EXPECT_EQ(error_kind_name(Error::io("x").kind), "io");
  EXPECT_EQ(error_kind_name(Error::invalid("x").kind), "invalid");
  EXPECT_EQ(error_kind_name(Error::limit("x").kind), "limit");
  EXPECT_EQ(error_kind_name(Error::non_finite("x").kind), "non-finite");
}

TEST(Result, TryGivesTheValueOrReturnsTheFirstError) {
  EXPECT_EQ(quarter_of(12).value(), 3);
  ASSERT_FALSE(quarter_of(10).has_value());
  EXPECT_EQ(quarter_of(10).error().message, "5 is odd");
  EXPECT_EQ(quarter_of(7).error().message, "7 is odd");
  EXPECT_TRUE(must_be_even(2).has_value());
  EXPECT_EQ(must_be_even(3).error().message, "3 is odd");
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  auto box = boxed(8);
  ASSERT_TRUE(box.has_value());
  std::unique_ptr<int> taken = std::move(*box);
  EXPECT_EQ(*taken, 4);
  EXPECT_FALSE(boxed(9).has_value());
}

TEST(Check, StopsAndNamesTheBrokenContract) {
  KVASIR_CHECK(1 + 1 == 2);
  EXPECT_DEATH(KVASIR_CHECK(1 + 1 == 3), "broken contract: 1 \\+ 1 == 3 .*error_test.cc:[0-9]+");
}

}  // namespace
}  // namespace kvasir
