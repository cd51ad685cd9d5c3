#include "kernels/cpu.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace kvasir::kernels {

#if defined(__x86_64__)

// __builtin_cpu_supports asks the operating system's register state (XCR0) too. "f16c" is a name
// that older clang does not know, so that bit is read from CPUID itself.
namespace {

bool has_f16c() {
  unsigned eax = 1, ebx = 0, ecx = 0, edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (ecx >> 29 & 1) != 0;
}

}  // namespace

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") && has_f16c();
  return has;
}

bool has_avx512() {
  static const bool has = has_avx2() && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}

bool has_avx512_vnni() {
  static const bool has = has_avx512() && __builtin_cpu_supports("avx512vnni");
  return has;
}

#else

bool has_avx2() {
  return false;
}
bool has_avx512() {
  return false;
}
bool has_avx512_vnni() {
  return false;
}

#endif

bool has_neon_dotprod() {
#if defined(__aarch64__)
  static const bool has = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return has;
#else
  return false;
#endif
}

}  // namespace kvasir::kernels
