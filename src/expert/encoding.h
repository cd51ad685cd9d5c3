// Output encoding: how a routed expert's output row travels (rule 10 of docs/arithmetic.md). The
// wire is part of the arithmetic: a row is encoded and decoded again also when it was computed
// locally.
//
//   f32 := n x f32
//   f16 := i16 e, n x f16                      y = f16 * 2^e
//   q8  := i16 e, n/32 x { f16 d, 32 x i8 }    y = d * q * 2^e
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "kernels/kernels.h"

namespace kvasir::expert {

enum class OutputEncoding : uint8_t { kF32, kF16, kQ8 };

std::string_view encoding_name(OutputEncoding encoding);  // "f32", "f16", "q8"
Result<OutputEncoding> find_encoding(std::string_view name);

// Bytes of one encoded row of n values; for q8, n is a multiple of 32.
size_t encoded_bytes(OutputEncoding encoding, size_t n);
// y is finite. out has encoded_bytes() bytes, written completely.
void encode(const kernels::KernelTable& kernels, OutputEncoding encoding, std::span<const float> y,
            std::byte* out);
// `in` has exactly encoded_bytes(); kCorrupt for values that encode() never produces (a non-finite
// scale or value, q = -128, an exponent out of range).
Result<void> decode(const kernels::KernelTable& kernels, OutputEncoding encoding,
                    std::span<const std::byte> in, std::span<float> y);
// encode then decode in place; nothing for f32. `scratch` has encoded_bytes() bytes. False, with y
// undefined, if a value next to the largest float rounds up to infinity on the way.
[[nodiscard]] bool apply_encoding(const kernels::KernelTable& kernels, OutputEncoding encoding,
                                  std::span<float> y, std::byte* scratch);

}  // namespace kvasir::expert
