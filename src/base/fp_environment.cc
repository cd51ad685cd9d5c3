#include "base/fp_environment.h"

#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kvasir {

void set_canonical_fp_environment() {
#if defined(__x86_64__)
  _mm_setcsr(0x1f80);  // all exceptions masked, round to nearest even, no FTZ, no DAZ
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, xzr");
#else
  std::fesetround(FE_TONEAREST);  // WebAssembly knows nothing else
#endif
}

}  // namespace kvasir
