// Two modules know the output encodings: expert/ makes and reads the rows, wire/ checks them on
// their way and does not depend on it. They must agree on every length, number and verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "expert/encoding.h"
#include "wire/rows.h"

namespace kvasir {
namespace {

using expert::OutputEncoding;
using wire::ResultEncoding;

constexpr OutputEncoding kEncodings[] = {OutputEncoding::kF32, OutputEncoding::kF16,
                                         OutputEncoding::kQ8};

ResultEncoding on_wire(OutputEncoding encoding) {
  return static_cast<ResultEncoding>(encoding);
}

TEST(WireAndExpert, AgreeOnNumbersAndLengths) {
  EXPECT_EQ(on_wire(OutputEncoding::kF32), ResultEncoding::kF32);
  EXPECT_EQ(on_wire(OutputEncoding::kF16), ResultEncoding::kF16);
  EXPECT_EQ(on_wire(OutputEncoding::kQ8), ResultEncoding::kQ8);
  for (OutputEncoding encoding : kEncodings)
    for (size_t n : {32, 256, 2048, 3072})
      EXPECT_EQ(wire::row_bytes(on_wire(encoding), n), expert::encoded_bytes(encoding, n));
}

// Honest rows of every magnitude, then rows with bytes that a stranger chose.
TEST(WireAndExpert, AgreeOnWhichRowsAreMalformed) {
  constexpr size_t kValues = 64;
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal;
  size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<float> y(kValues);
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 252) - 126);
    for (float& value : y) value = normal(random) * scale;
    if (!kernels::scalar().all_finite(y.data(), y.size())) continue;
    for (OutputEncoding encoding : kEncodings) {
      std::vector<std::byte> row(expert::encoded_bytes(encoding, kValues));
      expert::encode(kernels::scalar(), encoding, y, row.data());
      for (size_t changes = random() % 4; changes > 0; --changes) {
        const size_t at = random() % 2 == 0 ? random() % 4 : random() % row.size();
        row[at] = static_cast<std::byte>(random() % 2 == 0 ? 0x80 : random() & 0xFF);
      }
      std::vector<float> decoded(kValues);
      const bool good = expert::decode(kernels::scalar(), encoding, row, decoded).has_value();
      EXPECT_EQ(wire::check_row(on_wire(encoding), row, kValues).has_value(), good)
          << "round " << round << ' ' << expert::encoding_name(encoding);
      refused += !good;
    }
  }
  EXPECT_GT(refused, 1'000U);
}

}  // namespace
}  // namespace kvasir
