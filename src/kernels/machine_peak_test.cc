// The loops do all the work they are counted for: a compiler that drops some of it, or a loop that
// skips bytes, would make the machine look faster than it is.
#include "kernels/machine_peak.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/avx512.h"
#include "kernels/neon.h"

namespace kvasir::kernels {
namespace {

std::vector<const KernelTable*> tables() {
#if defined(__aarch64__)
  std::vector<const KernelTable*> all = {&scalar(), neon_without_dotprod(), neon_dotprod()};
#else
  std::vector<const KernelTable*> all = {&scalar(), avx2(), avx512_without_vnni(), avx512_vnni()};
#endif
  std::erase(all, nullptr);
  return all;
}

TEST(MachinePeak, ReadsEveryByte) {
  for (const KernelTable* table : tables()) {
    const MachinePeak& peak = machine_peak(*table);
    std::vector<std::byte> bytes(1536, std::byte{0x5a});
    const uint64_t before = peak.read(bytes.data(), bytes.size());
    for (std::byte& byte : bytes) {
      byte ^= std::byte{1};
      EXPECT_NE(peak.read(bytes.data(), bytes.size()), before)
          << table->name << ", byte " << &byte - bytes.data();
      byte ^= std::byte{1};
    }
  }
}

TEST(MachinePeak, ComputesEveryRound) {
  for (const KernelTable* table : tables()) {
    const MachinePeak& peak = machine_peak(*table);
    EXPECT_NE(peak.int8_rounds(1), peak.int8_rounds(0)) << table->name;
    EXPECT_NE(peak.int8_rounds(3), peak.int8_rounds(2)) << table->name;
  }
}

// One round of a wider instruction set is more work, and each has an instruction of its own.
TEST(MachinePeak, BelongsToItsTable) {
  const MachinePeak& scalar_peak = machine_peak(scalar());
  for (const KernelTable* table : tables()) {
    if (table == &scalar()) continue;
    const MachinePeak& peak = machine_peak(*table);
    EXPECT_GT(peak.int8_operations_per_round, scalar_peak.int8_operations_per_round);
    const bool is_wide = table->name.starts_with("avx512");
    EXPECT_EQ(peak.int8_instruction.find("zmm") != std::string_view::npos, is_wide) << table->name;
  }
}

}  // namespace
}  // namespace kvasir::kernels
