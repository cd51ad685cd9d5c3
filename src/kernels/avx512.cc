// The AVX-512 table for processors without VNNI. Compiled with -mavx512f -mavx512bw -mavx512vl
// -mavx512dq; whoever calls into it has asked has_avx512().
#if defined(__x86_64__)

#include "kernels/avx512.h"

#include "kernels/cpu.h"
#include "kernels/simd_table.h"

namespace kvasir::kernels {
namespace {

// Built by the compiler, so that nothing of this file runs before has_avx512() is known.
constexpr KernelTable kTable = make_table("avx512");

}  // namespace

const KernelTable* avx512_without_vnni() {
  return has_avx512() ? &kTable : nullptr;
}

const KernelTable* avx512() {
  return has_avx512_vnni() ? avx512_vnni() : avx512_without_vnni();
}

}  // namespace kvasir::kernels

#endif
