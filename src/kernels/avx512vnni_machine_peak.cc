// The loops of MachinePeak, compiled with the flags of avx512vnni.cc.
#if defined(__x86_64__)

#include "kernels/cpu.h"
#include "kernels/simd_machine_peak.h"

namespace kvasir::kernels {

const MachinePeak* avx512_vnni_machine_peak() {
  return has_avx512_vnni() ? &kPeak : nullptr;
}

}  // namespace kvasir::kernels

#endif
