// The NEON table for processors with the dot-product extension. Compiled with
// -march=armv8.2-a+dotprod; whoever calls into it has asked has_neon_dotprod().
#if defined(__aarch64__)

#include "kernels/cpu.h"
#include "kernels/neon.h"
#include "kernels/simd_table.h"

namespace kvasir::kernels {
namespace {

// Built by the compiler, so that nothing of this file runs before has_neon_dotprod() is known.
constexpr KernelTable kTable = make_table("neon-dotprod");

}  // namespace

const KernelTable* neon_dotprod() {
  return has_neon_dotprod() ? &kTable : nullptr;
}

}  // namespace kvasir::kernels

#endif
