// The AVX-512 table for processors with VNNI. Compiled with the flags of avx512.cc and
// -mavx512vnni.
#if defined(__x86_64__)

#include "kernels/avx512.h"
#include "kernels/cpu.h"
#include "kernels/simd_table.h"

namespace kvasir::kernels {
namespace {

// Built by the compiler, so that nothing of this file runs before has_avx512_vnni() is known.
constexpr KernelTable kTable = make_table("avx512-vnni");

}  // namespace

const KernelTable* avx512_vnni() {
  return has_avx512_vnni() ? &kTable : nullptr;
}

}  // namespace kvasir::kernels

#endif
