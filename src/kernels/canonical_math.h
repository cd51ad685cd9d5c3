// Scalar functions of rule 3 (docs/arithmetic.md): fixed sequences of IEEE operations instead of
// libm, so that every machine gets the same bits.
#pragma once

#include <cstdint>

namespace kvasir::kernels {

// f32. Error bounds against the exact value, measured over all inputs that matter, stand in
// canonical_math.cc and docs/arithmetic.md.
float canonical_exp(float x);       // <= 2 ulp; 0 below -87, +inf above 88
float canonical_log(float x);       // <= 2 ulp; x > 0 and normal, otherwise -inf (0), NaN (< 0)
float canonical_log1p(float x);     // for softplus, x in [0, 2^30]
float canonical_sigmoid(float x);   // 1 / (1 + exp(-x))
float canonical_silu(float x);      // x / (1 + exp(-x))
float canonical_softplus(float x);  // x above 20, else log1p(exp(x))

// f64, for tables computed once.
double canonical_exp2(double x);
double canonical_log2(double x);
double canonical_sin(double x);  // |x| <= 2^31
double canonical_cos(double x);

// IEEE half <-> single, nearest even, subnormals and infinities included.
uint16_t f16_from_f32(float x);
float f32_from_f16(uint16_t bits);

// Rope tables of rule 5: theta_i = position * base^(-2i / n_dims); cos and sin have n_dims / 2
// entries.
void rope_angles(uint64_t position, double base, uint32_t n_dims, float* cos, float* sin);

}  // namespace kvasir::kernels
