// The constants of the canonical exp (rule 3 of docs/arithmetic.md), shared by every instruction
// set so that each can repeat the same operations. With M = kExpRound, each operation rounded on
// its own:
//
//   t = x * kLog2E + M            n = t - M, the integer nearest to x / ln 2, ties to even
//   r = (x - n * kLn2Hi) - n * kLn2Lo
//   p = kExp6;  p = p * r + kExp5;  ... kExp4, kExp3, kExp2, 1, 1 in the same way
//   y = p * 2^n, where 2^n has the bits (bits(t) << 23) + kExpOneBits  (modulo 2^32)
//   result = x < kExpMin ? 0 : x > kExpMax ? +inf : y
#pragma once

#include <cstdint>

namespace kvasir::kernels {

inline constexpr float kLog2E = 0x1.715476p+0f;
// ln 2 in two parts. The first has 15 bits, so that n * kLn2Hi is exact for |n| < 2^9.
inline constexpr float kLn2Hi = 0x1.62e4p-1f;
inline constexpr float kLn2Lo = 0x1.7f7d1cp-20f;

// 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
inline constexpr float kExpRound = 0x1.8p+23f;
inline constexpr uint32_t kExpOneBits = 0x3f800000;

// exp(r) = 1 + r + kExp2 r^2 + ... + kExp6 r^6, minimax in relative error over |r| <= ln(2) / 2:
// 3.8e-9, a sixteenth of half an ulp.
inline constexpr float kExp2 = 0x1.fffffcp-2f;
inline constexpr float kExp3 = 0x1.555492p-3f;
inline constexpr float kExp4 = 0x1.5558f0p-5f;
inline constexpr float kExp5 = 0x1.1239f4p-7f;
inline constexpr float kExp6 = 0x1.6a2610p-10f;

// Results of [-87, 88] are normal numbers; beyond, the definition says 0 and infinity.
inline constexpr float kExpMin = -87.0f;
inline constexpr float kExpMax = 88.0f;

}  // namespace kvasir::kernels
