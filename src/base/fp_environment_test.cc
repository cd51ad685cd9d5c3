#include "base/fp_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#include <vector>

#include "base/thread_pool.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kvasir {
namespace {

float least_normal_halved() {
  volatile float least = std::numeric_limits<float>::min();
  volatile float half = least * 0.5f;
  return half;
}

float one_third() {
  volatile float one = 1;
  volatile float three = 3;
  return one / three;
}

TEST(FpEnvironment, RoundingAndSubnormalsAreRestored) {
  float third = one_third();
  std::fesetround(FE_DOWNWARD);
  EXPECT_NE(one_third(), third);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
  EXPECT_EQ(least_normal_halved(), 0);
#endif
  set_canonical_fp_environment();
  EXPECT_EQ(one_third(), third);
  EXPECT_GT(least_normal_halved(), 0);
  std::fesetround(FE_TONEAREST);  // of the x87 unit too, which nothing here computes with
}

// A thread inherits the environment of the one that started it, which may be anything.
TEST(FpEnvironment, EveryThreadOfAPoolHasIt) {
  float third = one_third();
  std::fesetround(FE_UPWARD);
  ThreadPool pool(4);
  std::vector<float> thirds(64, 0);
  pool.run(thirds.size(), [&](size_t index, size_t) { thirds[index] = one_third(); });
  EXPECT_EQ(thirds, std::vector<float>(64, third));
  std::fesetround(FE_TONEAREST);
}

}  // namespace
}  // namespace kvasir
