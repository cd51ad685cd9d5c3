// What this processor can run, as far as the kernels care. Always false on other architectures.
#pragma once

namespace kvasir::kernels {

bool has_avx2();         // AVX2 and F16C, with the operating system saving their registers
bool has_avx512();       // AVX-512 F, BW, VL and DQ, besides all of has_avx2()
bool has_avx512_vnni();  // AVX-512 VNNI, besides all of has_avx512()

bool has_neon_dotprod();  // the dot-product extension; NEON itself is in every AArch64 processor

// Whether weights from memory are best fetched right into the first-level cache: on AMD processors
// from Zen 5 on. The room in which lines wait for the first level was small before: a Zen 4 core
// reads at most 16 GB/s this way, 34 GB/s into the second level.
bool fetches_into_first_level();

}  // namespace kvasir::kernels
