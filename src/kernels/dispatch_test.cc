#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cpu.h"
#include "kernels/kernels.h"

namespace kvasir::kernels {
namespace {

// Sets KVASIR_ISA for one test and puts back what was there.
class IsaVariable {
 public:
  explicit IsaVariable(const char* value) {
    if (const char* old = std::getenv("KVASIR_ISA")) {
      had_ = true;
      old_ = old;
    }
    if (value == nullptr) {
      unsetenv("KVASIR_ISA");
    } else {
      setenv("KVASIR_ISA", value, 1);
    }
  }
  ~IsaVariable() {
    if (had_) {
      setenv("KVASIR_ISA", old_.c_str(), 1);
    } else {
      unsetenv("KVASIR_ISA");
    }
  }
  IsaVariable(const IsaVariable&) = delete;
  IsaVariable& operator=(const IsaVariable&) = delete;

 private:
  bool had_ = false;
  std::string old_;
};

TEST(FindTable, KnowsEveryName) {
  EXPECT_EQ(find_table("scalar").value(), &scalar());
  for (const auto& [name, table] :
       {std::pair{"avx2", avx2()}, std::pair{"avx512", avx512()}, std::pair{"neon", neon()}}) {
    const auto found = find_table(name);
    if (table != nullptr) {
      EXPECT_EQ(found.value(), table);
    } else {
      EXPECT_EQ(found.error().kind, ErrorKind::kUnsupported);
    }
  }
  for (const char* name : {"", "sse", "AVX2", "avx512-vnni ", "neon-dotprod"}) {
    EXPECT_EQ(find_table(name).error().kind, ErrorKind::kNotFound) << name;
  }
}

TEST(SelectTable, TakesTheBestWhenNothingIsAsked) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const IsaVariable variable(unset);
    const KernelTable* best = select_table().value();
    const KernelTable* want = neon() != nullptr     ? neon()
                              : avx512() != nullptr ? avx512()
                              : avx2() != nullptr   ? avx2()
                                                    : &scalar();
    EXPECT_EQ(best, want);
  }
}

TEST(SelectTable, TakesTheOneThatIsAskedFor) {
  const IsaVariable variable("scalar");
  EXPECT_EQ(select_table().value(), &scalar());
}

TEST(SelectTable, NamesTheVariableWhenItCannot) {
  const IsaVariable variable("sse");
  const auto table = select_table();
  ASSERT_FALSE(table.has_value());
  EXPECT_EQ(table.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(table.error().message.find("KVASIR_ISA"), std::string::npos);
  EXPECT_FALSE(table.error().hint.empty());
}

TEST(SelectTable, RefusesTheOneOfAnotherProcessor) {
  const IsaVariable variable(neon() == nullptr ? "neon" : "avx2");
  const auto table = select_table();
  ASSERT_FALSE(table.has_value());
  EXPECT_EQ(table.error().kind, ErrorKind::kUnsupported);
}

TEST(AvailableTables, StartsWithScalarAndHoldsWhatTheProcessorHas) {
  const auto tables = available_tables();
  EXPECT_EQ(tables[0], &scalar());
  EXPECT_EQ(avx2() != nullptr, has_avx2());
  EXPECT_EQ(avx512() != nullptr, has_avx512());
  size_t n = 0;
  for (const KernelTable* table : tables) n += table != nullptr ? 1 : 0;
  const bool has_neon = neon() != nullptr;
  EXPECT_EQ(n, size_t{1} + (has_avx2() ? 1 : 0) + (has_avx512() ? 1 : 0) + (has_neon ? 1 : 0));
}

TEST(Cpu, EachLevelIncludesTheOneBelow) {
  EXPECT_TRUE(!has_avx512() || has_avx2());
  EXPECT_TRUE(!has_avx512_vnni() || has_avx512());
  EXPECT_TRUE(!has_neon_dotprod() || neon() != nullptr);
}

}  // namespace
}  // namespace kvasir::kernels
