// The loops of MachinePeak, compiled with the flags of neon.cc.
#if defined(__aarch64__)

#include "kernels/simd_machine_peak.h"

namespace kvasir::kernels {

const MachinePeak* neon_machine_peak() {
  return &kPeak;
}

}  // namespace kvasir::kernels

#endif
