// The loops of MachinePeak, compiled with the flags of neon_dotprod.cc.
#if defined(__aarch64__)

#include "kernels/cpu.h"
#include "kernels/simd_machine_peak.h"

namespace kvasir::kernels {

const MachinePeak* neon_dotprod_machine_peak() {
  return has_neon_dotprod() ? &kPeak : nullptr;
}

}  // namespace kvasir::kernels

#endif
