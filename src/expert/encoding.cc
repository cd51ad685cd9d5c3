#include "expert/encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/bytes.h"

namespace kvasir::expert {
namespace {

constexpr size_t kQ8Values = 32;
constexpr size_t kQ8BlockBytes = 2 + kQ8Values;
// Values that are converted at once, on the stack.
constexpr size_t kPieceValues = 256;

constexpr float kZeroBelow = 0x1p-100F;
// floor(log2(2^-100)) - 14 and floor(log2(largest float)) - 14.
constexpr int kExponentMin = -114;
constexpr int kExponentMax = 113;
constexpr uint16_t kF16Infinity = 0x7C00;

// 2^exponent, exponent in -126..127.
float power_of_two(int exponent) {
  const uint32_t bits = static_cast<uint32_t>(exponent + 127) << 23;
  return load_le<float>(&bits);
}

// The exponent e of rule 10, or nothing for a row that counts as zero.
std::optional<int> row_exponent(std::span<const float> y) {
  float largest = 0.0F;
  for (float value : y) largest = std::max(largest, std::fabs(value));
  if (largest < kZeroBelow) return std::nullopt;
  const int log2 = static_cast<int>(load_le<uint32_t>(&largest) >> 23) - 127;
  return log2 - 14;
}

// Calls piece(begin, count, scaled values) for the whole row times 2^-exponent.
template <typename Piece>
void for_scaled_pieces(std::span<const float> y, int exponent, const Piece& piece) {
  const float scale = power_of_two(-exponent);
  float scaled[kPieceValues];
  for (size_t begin = 0; begin < y.size(); begin += kPieceValues) {
    const size_t count = std::min(kPieceValues, y.size() - begin);
    for (size_t i = 0; i < count; ++i) scaled[i] = y[begin + i] * scale;
    piece(begin, count, scaled);
  }
}

void encode_q8(const kernels::KernelTable& kernels, const float* scaled, size_t count,
               std::byte* out) {
  kernels::BlockQ8_0 blocks[kPieceValues / kQ8Values];
  // Scaled values are below 2^15, so that no block can be out of range.
  KVASIR_CHECK(kernels.quantize_q8_0(scaled, count, blocks));
  for (size_t block = 0; block < count / kQ8Values; ++block) {
    uint16_t d;
    kernels.f16_from_f32(&blocks[block].d, 1, &d);
    store_le(out + block * kQ8BlockBytes, d);
    std::memcpy(out + block * kQ8BlockBytes + 2, blocks[block].q, kQ8Values);
  }
}

Result<void> decode_f16(const kernels::KernelTable& kernels, const std::byte* in, float scale,
                        std::span<float> y) {
  uint16_t halves[kPieceValues];
  for (size_t begin = 0; begin < y.size(); begin += kPieceValues) {
    const size_t count = std::min(kPieceValues, y.size() - begin);
    std::memcpy(halves, in + begin * 2, count * 2);
    kernels.f32_from_f16(halves, count, y.data() + begin);
  }
  for (float& value : y) value *= scale;
  return {};
}

Result<void> decode_q8(const kernels::KernelTable& kernels, const std::byte* in, float scale,
                       std::span<float> y) {
  for (size_t begin = 0; begin < y.size(); begin += kQ8Values, in += kQ8BlockBytes) {
    const auto half = load_le<uint16_t>(in);
    // Scales are +0 or positive.
    if (half >= kF16Infinity)
      return Error::corrupt("q8 row: scale {:#06x} of block {} is negative or not finite", half,
                            begin / kQ8Values);
    float d;
    kernels.f32_from_f16(&half, 1, &d);
    for (size_t i = 0; i < kQ8Values; ++i) {
      const auto q = static_cast<int8_t>(in[2 + i]);
      if (q == -128) return Error::corrupt("q8 row: value {} is -128", begin + i);
      y[begin + i] = d * static_cast<float>(q) * scale;
    }
  }
  return {};
}

}  // namespace

std::string_view encoding_name(OutputEncoding encoding) {
  switch (encoding) {
    case OutputEncoding::kF32:
      return "f32";
    case OutputEncoding::kF16:
      return "f16";
    case OutputEncoding::kQ8:
      break;
  }
  return "q8";
}

Result<OutputEncoding> find_encoding(std::string_view name) {
  for (OutputEncoding encoding : {OutputEncoding::kF32, OutputEncoding::kF16, OutputEncoding::kQ8})
    if (encoding_name(encoding) == name) return encoding;
  return Error::not_found("no output encoding '{}'; there are f32, f16 and q8", name);
}

size_t encoded_bytes(OutputEncoding encoding, size_t n) {
  switch (encoding) {
    case OutputEncoding::kF32:
      return n * sizeof(float);
    case OutputEncoding::kF16:
      return sizeof(int16_t) + n * sizeof(uint16_t);
    case OutputEncoding::kQ8:
      break;
  }
  KVASIR_CHECK(n % kQ8Values == 0);
  return sizeof(int16_t) + n / kQ8Values * kQ8BlockBytes;
}

void encode(const kernels::KernelTable& kernels, OutputEncoding encoding, std::span<const float> y,
            std::byte* out) {
  if (encoding == OutputEncoding::kF32) {
    std::memcpy(out, y.data(), y.size_bytes());
    return;
  }
  const std::optional<int> exponent = row_exponent(y);
  if (!exponent) {
    std::fill_n(out, encoded_bytes(encoding, y.size()), std::byte{0});
    return;
  }
  store_le(out, static_cast<int16_t>(*exponent));
  std::byte* values = out + sizeof(int16_t);
  for_scaled_pieces(y, *exponent, [&](size_t begin, size_t count, const float* scaled) {
    if (encoding == OutputEncoding::kQ8) {
      encode_q8(kernels, scaled, count, values + begin / kQ8Values * kQ8BlockBytes);
      return;
    }
    uint16_t halves[kPieceValues];
    KVASIR_CHECK(kernels.f16_from_f32(scaled, count, halves));
    std::memcpy(values + begin * 2, halves, count * 2);
  });
}

Result<void> decode(const kernels::KernelTable& kernels, OutputEncoding encoding,
                    std::span<const std::byte> in, std::span<float> y) {
  KVASIR_CHECK(in.size() == encoded_bytes(encoding, y.size()));
  if (encoding == OutputEncoding::kF32) {
    std::memcpy(y.data(), in.data(), in.size());
  } else {
    const auto exponent = load_le<int16_t>(in.data());
    if (exponent < kExponentMin || exponent > kExponentMax)
      return Error::corrupt("{} row: exponent {} is outside {}..{}", encoding_name(encoding),
                            exponent, kExponentMin, kExponentMax);
    const auto decode_values = encoding == OutputEncoding::kF16 ? decode_f16 : decode_q8;
    KVASIR_TRY_VOID(decode_values(kernels, in.data() + sizeof exponent, power_of_two(exponent), y));
  }
  if (!kernels.all_finite(y.data(), y.size()))
    return Error::corrupt("{} row: a value is not finite", encoding_name(encoding));
  return {};
}

bool apply_encoding(const kernels::KernelTable& kernels, OutputEncoding encoding,
                    std::span<float> y, std::byte* scratch) {
  if (encoding == OutputEncoding::kF32) return true;
  encode(kernels, encoding, y, scratch);
  return decode(kernels, encoding, {scratch, encoded_bytes(encoding, y.size())}, y).has_value();
}

}  // namespace kvasir::expert
