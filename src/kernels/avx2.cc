// The AVX2 table. Compiled with -mavx2 -mf16c; whoever calls into it has asked has_avx2().
#if defined(__x86_64__)

#include "kernels/cpu.h"
#include "kernels/simd_table.h"

namespace kvasir::kernels {
namespace {

// Built by the compiler, so that nothing of this file runs before has_avx2() is known.
constexpr KernelTable kTable = make_table("avx2");

}  // namespace

const KernelTable* avx2() {
  return has_avx2() ? &kTable : nullptr;
}

}  // namespace kvasir::kernels

#endif
