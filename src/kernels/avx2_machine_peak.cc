// The loops of MachinePeak, compiled with the flags of avx2.cc.
#if defined(__x86_64__)

#include "kernels/cpu.h"
#include "kernels/simd_machine_peak.h"

namespace kvasir::kernels {

const MachinePeak* avx2_machine_peak() {
  return has_avx2() ? &kPeak : nullptr;
}

}  // namespace kvasir::kernels

#endif
