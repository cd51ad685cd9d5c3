// Rows of values on the wire: activations on their way to an expert, outputs on their way back.
//
// Activations, n values (docs/arithmetic.md, rule 1). Sums that kernels want beside the values are
// not sent; who receives a row makes them again.
//   f32  := n x f32
//   q8_0 := n/32 x { f16 d, 32 x i8 }          x = d * q, d >= 0
//   q8_K := n/256 x { f32 d, 256 x i8 }        x = d * q, d of either sign
// Outputs (rule 10):
//   f32  := n x f32
//   f16  := i16 e, n x f16                     y = f16 * 2^e
//   q8   := i16 e, n/32 x { f16 d, 32 x i8 }   y = d * q * 2^e, d >= 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "kernels/activation.h"

namespace kvasir::wire {

using kernels::ActivationFormat;

// The wire's number of a format is its value: 0 f32, 1 Q8_0, 2 Q8_K.
std::optional<ActivationFormat> find_row_format(uint8_t code);

enum class ResultEncoding : uint8_t { kF32 = 0, kF16 = 1, kQ8 = 2 };
std::optional<ResultEncoding> find_result_encoding(uint8_t code);

// Whether rows of n values can have this format: n > 0 and a whole number of blocks.
bool is_row_length(ActivationFormat format, size_t n);
bool is_row_length(ResultEncoding encoding, size_t n);

// Bytes of one row of n values; is_row_length(n).
size_t row_bytes(ActivationFormat format, size_t n);
size_t row_bytes(ResultEncoding encoding, size_t n);

// The most (row, expert) pairs that one ticket may ask for, so that the answer fits one RESULT; at
// least 1 or the model is too wide for this protocol. At n = 3072: 15 f32, 31 f16, 58 q8.
size_t pairs_per_ticket(ResultEncoding encoding, size_t n);

// kCorrupt for what an honest sender never makes: scales or values that are not finite, negative
// f16 scales, -128. `row` has row_bytes(); errors name the block, not the row.
Result<void> check_row(ActivationFormat format, ByteSpan row, size_t n);
// As well: exponents out of range, values that overflow f32 once decoded.
Result<void> check_row(ResultEncoding encoding, ByteSpan row, size_t n);

// From a row as the kernels use it (kernels::activation_row_bytes()) to the wire and back. unpack
// fills in the sums; the row has been checked.
void pack_row(ActivationFormat format, const std::byte* row, size_t n, std::byte* out);
void unpack_row(ActivationFormat format, ByteSpan row, size_t n, std::byte* out);

}  // namespace kvasir::wire
