// Bit layouts of the quantised blocks. i is the index of a value in its block; offsets are bytes.
#include "kernels/scalar_blocks.h"

#include "base/bytes.h"
#include "kernels/bit_cast.h"
#include "kernels/canonical_math.h"

namespace kvasir::kernels::reference {
namespace {

// IQ4_NL and IQ4_XS: 16 levels, denser near zero.
constexpr int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
// MXFP4: twice the E2M1 values, so that they are integers.
constexpr int8_t kE2M1Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int byte_at(const std::byte* block, size_t offset) {
  return std::to_integer<int>(block[offset]);
}

int signed_byte_at(const std::byte* block, size_t offset) {
  return load_le<int8_t>(block + offset);
}

float half_at(const std::byte* block, size_t offset) {
  return f32_from_f16(load_le<uint16_t>(block + offset));
}

// 32-value formats: the low nibbles of 16 bytes are values 0..15, the high ones 16..31.
int nibble(const std::byte* qs, size_t i) {
  return i < 16 ? byte_at(qs, i) & 15 : byte_at(qs, i - 16) >> 4;
}

// Q4_K and Q5_K: each 32 bytes hold 64 values, low nibbles first.
int nibble_k(const std::byte* qs, size_t i) {
  const int byte = byte_at(qs, 32 * (i / 64) + i % 32);
  return i / 32 % 2 == 0 ? byte & 15 : byte >> 4;
}

// Q2_K and Q3_K: each 32 bytes hold 128 values, the lowest two bits first.
int two_bits(const std::byte* qs, size_t i) {
  return byte_at(qs, 32 * (i / 128) + i % 32) >> 2 * (i % 128 / 32) & 3;
}

// Q4_K and Q5_K: eight 6-bit scales and minimums in 12 bytes, one each per 32 values. The first
// four of each lie in the low six bits of bytes 0..7; the others in the nibbles of bytes 8..11,
// with their upper two bits on top of the first four.
void unpack_packed_scales(const std::byte* s, Weights256& out) {
  for (size_t b = 0; b < 8; ++b) {
    int scale = 0;
    int min = 0;
    if (b < 4) {
      scale = byte_at(s, b) & 63;
      min = byte_at(s, b + 4) & 63;
    } else {
      scale = (byte_at(s, b + 4) & 15) | byte_at(s, b - 4) >> 6 << 4;
      min = byte_at(s, b + 4) >> 4 | byte_at(s, b) >> 6 << 4;
    }
    out.scale[2 * b] = out.scale[2 * b + 1] = static_cast<int8_t>(scale);
    out.min[2 * b] = out.min[2 * b + 1] = static_cast<int8_t>(min);
  }
}

}  // namespace

// d f16 @0, qs[32] i8 @2
void Format<TensorType::kQ8_0>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  for (size_t i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(signed_byte_at(block, 2 + i));
}

// d f16 @0, qs[16] @2
void Format<TensorType::kQ4_0>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  for (size_t i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(nibble(block + 2, i) - 8);
}

// d f16 @0, m f16 @2, qs[16] @4
void Format<TensorType::kQ4_1>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  out.m = half_at(block, 2);
  for (size_t i = 0; i < 32; ++i) out.q[i] = static_cast<int8_t>(nibble(block + 4, i));
}

// d f16 @0, qh u32 @2 (bit i is bit 4 of value i), qs[16] @6
void Format<TensorType::kQ5_0>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  const uint32_t qh = load_le<uint32_t>(block + 2);
  for (size_t i = 0; i < 32; ++i) {
    const int high = static_cast<int>(qh >> i & 1) << 4;
    out.q[i] = static_cast<int8_t>((nibble(block + 6, i) | high) - 16);
  }
}

// d f16 @0, m f16 @2, qh u32 @4, qs[16] @8
void Format<TensorType::kQ5_1>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  out.m = half_at(block, 2);
  const uint32_t qh = load_le<uint32_t>(block + 4);
  for (size_t i = 0; i < 32; ++i) {
    const int high = static_cast<int>(qh >> i & 1) << 4;
    out.q[i] = static_cast<int8_t>(nibble(block + 8, i) | high);
  }
}

// d f16 @0, qs[16] @2
void Format<TensorType::kIQ4_NL>::unpack(const std::byte* block, Weights32& out) {
  out.d = half_at(block, 0);
  for (size_t i = 0; i < 32; ++i) out.q[i] = kNonLinear4[nibble(block + 2, i)];
}

// e u8 @0, qs[16] @1. d = 2^(e - 128): the exponent's 127 and one for the doubled values. For e = 0
// and 1 that is a subnormal f32; e = 255 (NaN in the OCP format) is 2^127 like any other.
void Format<TensorType::kMXFP4>::unpack(const std::byte* block, Weights32& out) {
  const uint32_t e = load_le<uint8_t>(block);
  out.d = bit_cast<float>(e >= 2 ? (e - 1) << 23 : 0x00200000u << e);
  for (size_t i = 0; i < 32; ++i) out.q[i] = kE2M1Twice[nibble(block + 1, i)];
}

// s[16] @0 (scale in the low, minimum in the high nibble), qs[64] @16, d f16 @80, dmin f16 @82
void Format<TensorType::kQ2_K>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 80);
  out.dmin = half_at(block, 82);
  for (size_t g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<int8_t>(byte_at(block, g) & 15);
    out.min[g] = static_cast<int8_t>(byte_at(block, g) >> 4);
  }
  for (size_t i = 0; i < 256; ++i) out.q[i] = static_cast<int8_t>(two_bits(block + 16, i));
}

// hmask[32] @0, qs[64] @32, s[12] @96, d f16 @108. Bit i / 32 of hmask[i % 32] being 0 takes off 4.
void Format<TensorType::kQ3_K>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 108);
  const std::byte* s = block + 96;
  for (size_t g = 0; g < 16; ++g) {
    const int low = g < 8 ? byte_at(s, g) & 15 : byte_at(s, g - 8) >> 4;
    const int high = byte_at(s, 8 + g % 4) >> 2 * (g / 4) & 3;
    out.scale[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
  for (size_t i = 0; i < 256; ++i) {
    const int high = byte_at(block, i % 32) >> (i / 32) & 1;
    out.q[i] = static_cast<int8_t>(two_bits(block + 32, i) - (high != 0 ? 0 : 4));
  }
}

// d f16 @0, dmin f16 @2, s[12] @4, qs[128] @16
void Format<TensorType::kQ4_K>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 0);
  out.dmin = half_at(block, 2);
  unpack_packed_scales(block + 4, out);
  for (size_t i = 0; i < 256; ++i) out.q[i] = static_cast<int8_t>(nibble_k(block + 16, i));
}

// d f16 @0, dmin f16 @2, s[12] @4, qh[32] @16, qs[128] @48
void Format<TensorType::kQ5_K>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 0);
  out.dmin = half_at(block, 2);
  unpack_packed_scales(block + 4, out);
  for (size_t i = 0; i < 256; ++i) {
    const int high = (byte_at(block, 16 + i % 32) >> (i / 32) & 1) << 4;
    out.q[i] = static_cast<int8_t>(nibble_k(block + 48, i) | high);
  }
}

// ql[128] @0, qh[64] @128, sc[16] i8 @192, d f16 @208. Each half of 128 values has 64 bytes of ql
// (low nibbles are its first 64 values) and 32 of qh (two bits for each of its four rows of 32).
void Format<TensorType::kQ6_K>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 208);
  for (size_t g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<int8_t>(signed_byte_at(block, 192 + g));
  }
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const size_t in_half = i % 128;
    const int byte = byte_at(block, 64 * half + in_half % 64);
    const int low = in_half < 64 ? byte & 15 : byte >> 4;
    const int high = byte_at(block, 128 + 32 * half + i % 32) >> 2 * (in_half / 32) & 3;
    out.q[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

// d f16 @0, scales_h u16 @2, scales_l[4] @4, qs[128] @8. 8 groups of 32, their nibbles as in
// IQ4_NL.
void Format<TensorType::kIQ4_XS>::unpack(const std::byte* block, Weights256& out) {
  out.d = half_at(block, 0);
  const int scales_high = load_le<uint16_t>(block + 2);
  for (size_t b = 0; b < 8; ++b) {
    const int low = byte_at(block, 4 + b / 2) >> 4 * (b % 2) & 15;
    const int high = scales_high >> 2 * b & 3;
    out.scale[2 * b] = out.scale[2 * b + 1] = static_cast<int8_t>((low | high << 4) - 32);
    for (size_t i = 0; i < 32; ++i) {
      out.q[32 * b + i] = kNonLinear4[nibble(block + 8 + 16 * b, i)];
    }
  }
}

}  // namespace kvasir::kernels::reference
