// Rule 1: rows of floats to activation formats, and the checks that keep non-finite values out.
#include <cmath>

#include "kernels/scalar.h"

namespace kvasir::kernels::reference {
namespace {

// Below this a block counts as zero: 2^-100. Far under anything that reaches a logit, and far
// enough above the subnormals that the reciprocals below are finite.
constexpr float kSmallestBlock = 0x1p-100f;

// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 rounds to an integer and leaves
// it in the low bits. Defined, if meaningless, for every other float too.
int32_t round_to_even(float x) {
  return static_cast<int32_t>(bit_cast<uint32_t>(x + 0x1.8p+23f) - 0x4b400000u);
}

// The value of largest magnitude, the first of equals.
float largest(const float* x, size_t n) {
  float max = x[0];
  for (size_t i = 1; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(max)) max = x[i];
  }
  return max;
}

void quantize_block(const float* x, BlockQ8K& out) {
  out = {};
  const float max = largest(x, 256);
  if (std::fabs(max) < kSmallestBlock) return;
  const float iscale = -127.0f / max;
  for (size_t i = 0; i < 256; ++i) {
    const int32_t q = round_to_even(iscale * x[i]);
    out.q[i] = static_cast<int8_t>(q < 127 ? q : 127);
    out.sums[i / 16] = static_cast<int16_t>(out.sums[i / 16] + out.q[i]);
  }
  out.d = 1.0f / iscale;
}

// False if the scale does not fit f16 (values above about 127 * 65504).
bool quantize_block(const float* x, BlockQ8_0& out) {
  out = {};
  const float a = std::fabs(largest(x, 32));
  if (a < kSmallestBlock) return true;
  const float d = a / 127.0f;
  const uint16_t d_half = kernels::f16_from_f32(d);
  out.d = kernels::f32_from_f16(d_half);
  if (std::isinf(out.d)) return false;
  // The values are divided by d as it was before it was rounded. A d below half of the smallest f16
  // becomes 0 and makes the block worth 0, whatever its q.
  const float inverse = 1.0f / d;
  for (size_t i = 0; i < 32; ++i) {
    out.q[i] = static_cast<int8_t>(round_to_even(x[i] * inverse));
    out.sum += out.q[i];
  }
  return true;
}

}  // namespace

bool quantize_q8_k(const float* x, size_t n, BlockQ8K* out) {
  if (!reference::all_finite(x, n)) return false;
  for (size_t b = 0; b < n / 256; ++b) quantize_block(x + 256 * b, out[b]);
  return true;
}

bool quantize_q8_0(const float* x, size_t n, BlockQ8_0* out) {
  if (!reference::all_finite(x, n)) return false;
  for (size_t b = 0; b < n / 32; ++b) {
    if (!quantize_block(x + 32 * b, out[b])) return false;
  }
  return true;
}

bool all_finite(const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) return false;
  }
  return true;
}

bool f16_from_f32(const float* x, size_t n, uint16_t* out) {
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    out[i] = kernels::f16_from_f32(x[i]);
    finite = finite && (out[i] & 0x7c00) != 0x7c00;
  }
  return finite;
}

void f32_from_f16(const uint16_t* x, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = kernels::f32_from_f16(x[i]);
}

}  // namespace kvasir::kernels::reference
