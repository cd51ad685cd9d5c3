#include "wire/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/canonical_math.h"
#include "wire/frame.h"
#include "wire/work_messages.h"

namespace kvasir::wire {
namespace {

constexpr size_t kQ8KValues = 256;
constexpr size_t kQ8KBytes = sizeof(float) + kQ8KValues;
constexpr size_t kQ8_0Values = 32;
constexpr size_t kQ8_0Bytes = sizeof(uint16_t) + kQ8_0Values;
constexpr size_t kSumValues = 16;

constexpr uint16_t kF16Infinity = 0x7C00;
constexpr uint16_t kF16Magnitude = 0x7FFF;
// floor(log2(2^-100)) - 14 and floor(log2(largest float)) - 14.
constexpr int kExponentMin = -114;
constexpr int kExponentMax = 113;

// What a RESULT keeps free of its body for its head and for what later versions may add.
constexpr size_t kResultReserve = size_t{4} * 1024;

static_assert(static_cast<int>(ActivationFormat::kF32) == 0 &&
              static_cast<int>(ActivationFormat::kQ8_0) == 1 &&
              static_cast<int>(ActivationFormat::kQ8_K) == 2);

bool is_finite(const std::byte* value) {
  return (load_le<uint32_t>(value) & 0x7F800000U) != 0x7F800000U;
}

Result<void> check_floats(ByteSpan row, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!is_finite(row.data() + i * sizeof(float)))
      return Error::corrupt("value {} is not finite", i);
  return {};
}

bool holds_minus_128(const std::byte* q, size_t n) {
  return std::find(q, q + n, std::byte{0x80}) != q + n;
}

// Blocks of 32 values, in activations and in q8 outputs alike.
Result<void> check_q8_0_blocks(const std::byte* at, size_t n) {
  for (size_t block = 0; block < n / kQ8_0Values; ++block, at += kQ8_0Bytes) {
    if (load_le<uint16_t>(at) >= kF16Infinity)
      return Error::corrupt("scale {:#06x} of block {} is negative or not finite",
                            load_le<uint16_t>(at), block);
    if (holds_minus_128(at + sizeof(uint16_t), kQ8_0Values))
      return Error::corrupt("block {} holds -128", block);
  }
  return {};
}

Result<void> check_q8_k_blocks(const std::byte* at, size_t n) {
  for (size_t block = 0; block < n / kQ8KValues; ++block, at += kQ8KBytes) {
    if (!is_finite(at)) return Error::corrupt("scale of block {} is not finite", block);
    if (holds_minus_128(at + sizeof(float), kQ8KValues))
      return Error::corrupt("block {} holds -128", block);
  }
  return {};
}

Result<void> check_f16_values(const std::byte* at, size_t n, int exponent) {
  // 65504 * 2^112 is the last that fits f32; at 113 halves must be below 2^15.
  const uint16_t limit = exponent == kExponentMax ? 0x7800 : kF16Infinity;
  for (size_t i = 0; i < n; ++i)
    if ((load_le<uint16_t>(at + i * sizeof(uint16_t)) & kF16Magnitude) >= limit)
      return Error::corrupt("value {} is not finite", i);
  return {};
}

Result<void> check_q8_values(const std::byte* at, size_t n, int exponent) {
  KVASIR_TRY_VOID(check_q8_0_blocks(at, n));
  // |d * q| < 2^23, so that nothing can overflow below.
  if (exponent < 104) return {};
  const float scale = std::ldexp(1.0F, exponent);
  for (size_t i = 0; i < n; ++i) {
    const std::byte* block = at + i / kQ8_0Values * kQ8_0Bytes;
    const auto q = static_cast<int8_t>(block[sizeof(uint16_t) + i % kQ8_0Values]);
    const float d = kernels::f32_from_f16(load_le<uint16_t>(block));
    if (!std::isfinite(d * static_cast<float>(q) * scale))
      return Error::corrupt("value {} is not finite", i);
  }
  return {};
}

}  // namespace

std::optional<ActivationFormat> find_row_format(uint8_t code) {
  if (code > 2) return std::nullopt;
  return static_cast<ActivationFormat>(code);
}

std::optional<ResultEncoding> find_result_encoding(uint8_t code) {
  if (code > 2) return std::nullopt;
  return static_cast<ResultEncoding>(code);
}

bool is_row_length(ActivationFormat format, size_t n) {
  return n > 0 && n % kernels::activation_block_length(format) == 0;
}

bool is_row_length(ResultEncoding encoding, size_t n) {
  return n > 0 && (encoding != ResultEncoding::kQ8 || n % kQ8_0Values == 0);
}

size_t row_bytes(ActivationFormat format, size_t n) {
  switch (format) {
    case ActivationFormat::kF32:
      return n * sizeof(float);
    case ActivationFormat::kQ8_0:
      return n / kQ8_0Values * kQ8_0Bytes;
    case ActivationFormat::kQ8_K:
      break;
  }
  return n / kQ8KValues * kQ8KBytes;
}

size_t row_bytes(ResultEncoding encoding, size_t n) {
  switch (encoding) {
    case ResultEncoding::kF32:
      return n * sizeof(float);
    case ResultEncoding::kF16:
      return sizeof(int16_t) + n * sizeof(uint16_t);
    case ResultEncoding::kQ8:
      break;
  }
  return sizeof(int16_t) + n / kQ8_0Values * kQ8_0Bytes;
}

size_t pairs_per_ticket(ResultEncoding encoding, size_t n) {
  return std::min<size_t>((kDataBodyMax - kResultReserve) / row_bytes(encoding, n), kPairsMax);
}

Result<void> check_row(ActivationFormat format, ByteSpan row, size_t n) {
  KVASIR_CHECK(row.size() == row_bytes(format, n));
  switch (format) {
    case ActivationFormat::kF32:
      return check_floats(row, n);
    case ActivationFormat::kQ8_0:
      return check_q8_0_blocks(row.data(), n);
    case ActivationFormat::kQ8_K:
      break;
  }
  return check_q8_k_blocks(row.data(), n);
}

Result<void> check_row(ResultEncoding encoding, ByteSpan row, size_t n) {
  KVASIR_CHECK(row.size() == row_bytes(encoding, n));
  if (encoding == ResultEncoding::kF32) return check_floats(row, n);
  const auto exponent = load_le<int16_t>(row.data());
  if (exponent < kExponentMin || exponent > kExponentMax)
    return Error::corrupt("exponent {} is outside {}..{}", exponent, kExponentMin, kExponentMax);
  const std::byte* values = row.data() + sizeof exponent;
  return encoding == ResultEncoding::kF16 ? check_f16_values(values, n, exponent)
                                          : check_q8_values(values, n, exponent);
}

void pack_row(ActivationFormat format, const std::byte* row, size_t n, std::byte* out) {
  switch (format) {
    case ActivationFormat::kF32:
      std::memcpy(out, row, n * sizeof(float));
      return;
    case ActivationFormat::kQ8_0:
      for (size_t i = 0; i < n / kQ8_0Values; ++i, out += kQ8_0Bytes) {
        const auto block = load_le<kernels::BlockQ8_0>(row + i * sizeof(kernels::BlockQ8_0));
        store_le(out, kernels::f16_from_f32(block.d));
        std::memcpy(out + sizeof(uint16_t), block.q, sizeof block.q);
      }
      return;
    case ActivationFormat::kQ8_K:
      for (size_t i = 0; i < n / kQ8KValues; ++i, out += kQ8KBytes) {
        const auto block = load_le<kernels::BlockQ8K>(row + i * sizeof(kernels::BlockQ8K));
        store_le(out, block.d);
        std::memcpy(out + sizeof(float), block.q, sizeof block.q);
      }
      return;
  }
}

void unpack_row(ActivationFormat format, ByteSpan row, size_t n, std::byte* out) {
  KVASIR_CHECK(row.size() == row_bytes(format, n));
  const std::byte* in = row.data();
  switch (format) {
    case ActivationFormat::kF32:
      std::memcpy(out, in, row.size());
      return;
    case ActivationFormat::kQ8_0:
      for (size_t i = 0; i < n / kQ8_0Values; ++i, in += kQ8_0Bytes) {
        kernels::BlockQ8_0 block;
        block.d = kernels::f32_from_f16(load_le<uint16_t>(in));
        std::memcpy(block.q, in + sizeof(uint16_t), sizeof block.q);
        block.sum = 0;
        for (int8_t q : block.q) block.sum += q;
        store_le(out + i * sizeof block, block);
      }
      return;
    case ActivationFormat::kQ8_K:
      for (size_t i = 0; i < n / kQ8KValues; ++i, in += kQ8KBytes) {
        kernels::BlockQ8K block;
        block.d = load_le<float>(in);
        std::memcpy(block.q, in + sizeof(float), sizeof block.q);
        for (size_t k = 0; k < kQ8KValues / kSumValues; ++k) {
          int sum = 0;
          for (size_t j = 0; j < kSumValues; ++j) sum += block.q[k * kSumValues + j];
          block.sums[k] = static_cast<int16_t>(sum);
        }
        store_le(out + i * sizeof block, block);
      }
      return;
  }
}

}  // namespace kvasir::wire
