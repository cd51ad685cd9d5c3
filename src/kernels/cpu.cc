#include "kernels/cpu.h"

#include <cstdint>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace kvasir::kernels {

#if defined(__x86_64__)

// __builtin_cpu_supports asks the operating system's register state (XCR0) too. "f16c" is a name
// that older clang does not know, so that bit is read from CPUID itself.
namespace {

struct Cpuid {
  uint32_t eax, ebx, ecx, edx;
};
Cpuid cpuid(uint32_t leaf) {
  Cpuid id{leaf, 0, 0, 0};
  __asm__("cpuid" : "+a"(id.eax), "=b"(id.ebx), "+c"(id.ecx), "=d"(id.edx));
  return id;
}

bool has_f16c() {
  return (cpuid(1).ecx >> 29 & 1) != 0;
}

bool is_amd() {
  const Cpuid vendor = cpuid(0);  // "Auth" "enti" "cAMD"
  return vendor.ebx == 0x68747541 && vendor.edx == 0x69746e65 && vendor.ecx == 0x444d4163;
}

// The base family is 4 bits; where they are all set, the extended one is added. AMD's later ones
// all have it.
uint32_t family() {
  const uint32_t signature = cpuid(1).eax;
  return (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
}
constexpr uint32_t kFamilyZen5 = 0x1a;

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

bool fetches_into_first_level() {
  static const bool does = is_amd() && family() >= kFamilyZen5;
  return does;
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
bool fetches_into_first_level() {
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
