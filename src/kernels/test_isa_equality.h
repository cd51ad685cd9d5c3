// For tests: holds every instruction set this machine has equal to the scalar reference, bit for
// bit, over random and adversarial inputs.
//
// KVASIR_TEST_SEED repeats a run; KVASIR_TEST_ROWS sets the weight rows per type (2,000).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/avx512.h"
#include "kernels/bit_cast.h"
#include "kernels/canonical_math.h"
#include "kernels/cpu.h"
#include "kernels/neon.h"
#include "kernels/test_blocks.h"

namespace kvasir::kernels {

inline uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Processors make different NaNs, and a NaN or an infinity only has to be seen, so any two values
// that are not finite count as equal.
inline bool same(float a, float b) {
  return bit_cast<uint32_t>(a) == bit_cast<uint32_t>(b) || (!std::isfinite(a) && !std::isfinite(b));
}

// `bytes` at the very end of their allocation (so that a sanitizer sees a read past them), behind
// `offset` other bytes (so that they start anywhere).
class Buffer {
 public:
  Buffer(size_t bytes, size_t offset) : offset_(offset), bytes_(offset + bytes) {}
  std::byte* data() { return bytes_.data() + offset_; }
  const std::byte* data() const { return bytes_.data() + offset_; }

 private:
  size_t offset_;
  std::vector<std::byte> bytes_;
};

using Floats = std::vector<float>;

class IsaEquality : public testing::Test {
 protected:
  void SetUp() override {
    const auto tables = available_tables();
    for (size_t i = 1; i < tables.size(); ++i) {
      if (tables[i] != nullptr) tables_.push_back(tables[i]);
    }
#if defined(__x86_64__)
    if (has_avx512_vnni()) tables_.push_back(avx512_without_vnni());  // not in use where VNNI is
#elif defined(__aarch64__)
    if (has_neon_dotprod()) tables_.push_back(neon_without_dotprod());
#endif
    if (tables_.empty()) GTEST_SKIP() << "this machine only has the scalar table";
    std::cout << "KVASIR_TEST_SEED=" << seed_ << "\n";
  }

  // What each table's run(table) returns must be what the scalar one's does.
  template <typename Run>
  void expect_equal(const std::string& what, Run run) {
    const Floats want = run(scalar());
    for (const KernelTable* table : tables_) {
      const Floats got = run(*table);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_TRUE(same(got[i], want[i]))
            << table->name << " " << what << ": value " << i << " is " << got[i] << ", not "
            << want[i] << " (KVASIR_TEST_SEED=" << seed_ << ")";
      }
    }
  }

  size_t below(size_t n) {
    return random_() % n;
  }
  bool one_in(size_t n) {
    return below(n) == 0;
  }

  // A finite f16 of a kind: 0 zero, 1 subnormal, 2 the largest, 3 any, else of usual size.
  uint16_t half(size_t kind) {
    const auto sign = static_cast<uint16_t>(random_() & 0x8000);
    switch (kind) {
      case 0:
        return sign;
      case 1:
        return static_cast<uint16_t>(sign | (1 + below(0x3ff)));
      case 2:
        return static_cast<uint16_t>(sign | 0x7bff);
      case 3:
        return static_cast<uint16_t>(sign | below(0x7c00));
      default:
        return f16_from_f32(uniform(random_, -0.1f, 0.1f));
    }
  }

  // A finite f32 of the same kinds.
  float number(size_t kind) {
    const auto sign = static_cast<uint32_t>(random_()) & 0x80000000u;
    switch (kind) {
      case 0:
        return bit_cast<float>(sign);
      case 1:
        return bit_cast<float>(sign | static_cast<uint32_t>(1 + below(0x7fffff)));
      case 2:
        return bit_cast<float>(sign | 0x7f7fffffu);
      case 3:
        return bit_cast<float>(sign | static_cast<uint32_t>(below(0x7f800000)));
      default:
        return uniform(random_, -4, 4);
    }
  }

  // A row of one kind, or of a mixture; `extreme` false keeps to usual sizes and zeros.
  Floats floats(size_t n, bool extreme) {
    Floats x(n);
    const size_t kind = extreme ? below(8) : 4;
    for (float& value : x) value = number(kind == 5 ? below(5) : one_in(16) ? 0 : kind);
    if (kind == 6) {  // alternating signs of one magnitude
      for (size_t i = 0; i < n; ++i) x[i] = i % 2 == 0 ? x[0] : -x[0];
    }
    if (kind == 7) {  // sizes from 2^-30 to 2^30, so that every order of adding differs
      for (float& value : x) value = std::ldexp(value, static_cast<int>(below(61)) - 30);
    }
    return x;
  }

  // Lengths around the widths that vector code works in.
  size_t vector_length() {
    return one_in(4) ? below(20) : below(600);
  }
  size_t rounds() const {
    return std::clamp<size_t>(rows_ / 4, 100, 20000);
  }

  const uint64_t seed_ = from_environment("KVASIR_TEST_SEED", std::random_device{}());
  const size_t rows_ = from_environment("KVASIR_TEST_ROWS", 2000);
  Random random_{seed_};
  std::vector<const KernelTable*> tables_;
};

}  // namespace kvasir::kernels
