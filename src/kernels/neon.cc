// The NEON table for processors without the dot-product extension: what every AArch64 processor
// has.
#if defined(__aarch64__)

#include "kernels/neon.h"

#include "kernels/simd_table.h"

namespace kvasir::kernels {
namespace {

constexpr KernelTable kTable = make_table("neon");

}  // namespace

const KernelTable* neon_without_dotprod() {
  return &kTable;
}

const KernelTable* neon() {
  const KernelTable* with_dotprod = neon_dotprod();
  return with_dotprod != nullptr ? with_dotprod : neon_without_dotprod();
}

}  // namespace kvasir::kernels

#endif
