#include "wire/work_messages.h"

#include <algorithm>
#include <numeric>

#include "wire/body.h"
#include "wire/frame.h"

namespace kvasir::wire {
namespace {

constexpr std::string_view kBusyNames[] = {"queue_full", "no_credit", "paused", "draining"};
constexpr std::string_view kFailNames[] = {"malformed", "not_held",         "non_finite",
                                           "deadline",  "duplicate_ticket", "unsupported",
                                           "internal"};

template <typename T>
uint16_t as_u16(T value) {
  KVASIR_CHECK(value <= UINT16_MAX);
  return static_cast<uint16_t>(value);
}

Error malformed(std::string_view problem) {
  return Error::corrupt("COMPUTE: {}", problem);
}

Result<void> check_experts(const Compute& compute, uint16_t n_experts) {
  auto begin = compute.experts.begin();
  for (size_t row = 0; row < compute.n_rows(); ++row) {
    const auto end = begin + compute.counts[row];
    for (auto expert = begin; expert != end; ++expert) {
      if (*expert >= n_experts)
        return Error::invalid("COMPUTE: row {} wants expert {}, the layer has {}", row, *expert,
                              n_experts);
      if (std::find(begin, expert, *expert) != expert)
        return Error::corrupt("COMPUTE: row {} wants expert {} twice", row, *expert);
    }
    begin = end;
  }
  return {};
}

}  // namespace

std::vector<std::byte> encode_compute(const Compute& compute) {
  BodyWriter body;
  body.u16(compute.layer)
      .u8(static_cast<uint8_t>(compute.encoding))
      .u8(static_cast<uint8_t>(compute.row_format))
      .u32(compute.deadline_ms)
      .u16(as_u16(compute.n_rows()))
      .u16(as_u16(compute.n_pairs()))
      .bytes(std::as_bytes(std::span(compute.counts)))
      .bytes(std::as_bytes(std::span(compute.experts)))
      .bytes(compute.rows);
  return body.take();
}

Result<Compute> decode_compute(ByteSpan bytes, const ModelShape& shape, uint16_t rows_max) {
  BodyReader body("COMPUTE", bytes);
  Compute compute;
  compute.layer = body.u16();
  const auto encoding = find_result_encoding(body.u8());
  body.require(encoding.has_value(), "unknown output encoding");
  const auto format = find_row_format(body.u8());
  body.require(format.has_value(), "unknown row format");
  compute.deadline_ms = body.u32();
  const uint16_t n_rows = body.u16();
  const uint16_t n_pairs = body.u16();
  if (!body.ok()) return body.error();

  compute.encoding = *encoding;
  compute.row_format = *format;
  if (compute.layer >= shape.n_layers)
    return Error::invalid("COMPUTE: layer {}, the model has {}", compute.layer, shape.n_layers);
  if (!is_row_length(compute.row_format, shape.n_embd) ||
      !is_row_length(compute.encoding, shape.n_embd))
    return malformed("rows of this model cannot have this format");
  if (compute.deadline_ms == 0 || compute.deadline_ms > kDeadlineMsMax)
    return malformed("the deadline is 0 or too far");
  if (n_rows == 0) return malformed("no rows");
  if (n_rows > std::min(rows_max, kRowsMax))
    return Error::corrupt("COMPUTE: {} rows, agreed were {}", n_rows, std::min(rows_max, kRowsMax));
  if (n_pairs > pairs_per_ticket(compute.encoding, shape.n_embd))
    return Error::corrupt("COMPUTE: {} pairs, one RESULT holds {}", n_pairs,
                          pairs_per_ticket(compute.encoding, shape.n_embd));

  const size_t one_row_bytes = row_bytes(compute.row_format, shape.n_embd);
  const uint64_t expected =
      uint64_t{n_rows} + n_pairs * sizeof(uint16_t) + uint64_t{n_rows} * one_row_bytes;
  if (body.left() != expected)
    return Error::corrupt("COMPUTE: {} bytes after the counts, expected {}", body.left(), expected);
  compute.counts.resize(n_rows);
  for (uint8_t& count : compute.counts) {
    count = body.u8();
    if (count == 0) return malformed("a row wants no expert");
  }
  if (std::accumulate(compute.counts.begin(), compute.counts.end(), size_t{0}) != n_pairs)
    return malformed("the rows' counts do not add up to the pairs");
  compute.experts.resize(n_pairs);
  for (uint16_t& expert : compute.experts) expert = body.u16();
  KVASIR_TRY_VOID(check_experts(compute, shape.n_experts));

  compute.rows = body.bytes(uint64_t{n_rows} * one_row_bytes);
  for (size_t row = 0; row < n_rows; ++row) {
    auto good = check_row(compute.row_format,
                          compute.rows.subspan(row * one_row_bytes, one_row_bytes), shape.n_embd);
    if (!good) return std::move(good.error()).in("COMPUTE: row " + std::to_string(row));
  }
  KVASIR_TRY_VOID(body.finish());
  return compute;
}

std::vector<std::byte> encode_result(const ComputeResult& result, uint16_t n_pairs) {
  BodyWriter body;
  body.u32(result.compute_us).u16(result.queue_depth).u16(n_pairs).bytes(result.outputs);
  return body.take();
}

Result<ComputeResult> decode_result(ByteSpan bytes, ResultEncoding encoding, uint32_t n_embd,
                                    uint16_t n_pairs) {
  BodyReader body("RESULT", bytes);
  ComputeResult result;
  result.compute_us = body.u32();
  result.queue_depth = body.u16();
  body.require(body.u16() == n_pairs, "not as many outputs as pairs were asked for");
  const size_t one_row_bytes = row_bytes(encoding, n_embd);
  result.outputs = body.bytes(uint64_t{n_pairs} * one_row_bytes);
  KVASIR_TRY_VOID(body.finish());
  for (size_t pair = 0; pair < n_pairs; ++pair) {
    auto good =
        check_row(encoding, result.outputs.subspan(pair * one_row_bytes, one_row_bytes), n_embd);
    if (!good) return std::move(good.error()).in("RESULT: output " + std::to_string(pair));
  }
  return result;
}

std::string_view busy_reason_name(BusyReason reason) {
  return kBusyNames[static_cast<size_t>(reason) - 1];
}

std::vector<std::byte> encode_busy(const Busy& busy) {
  return BodyWriter()
      .u8(static_cast<uint8_t>(busy.reason))
      .zeros(3)
      .u32(busy.retry_after_ms)
      .take();
}

Result<Busy> decode_busy(ByteSpan bytes) {
  BodyReader body("BUSY", bytes);
  Busy busy;
  const uint8_t reason = body.u8();
  body.require(reason >= 1 && reason <= std::size(kBusyNames), "unknown reason");
  busy.reason = static_cast<BusyReason>(reason);
  body.zeros(3);
  busy.retry_after_ms = body.u32();
  KVASIR_TRY_VOID(body.finish());
  return busy;
}

std::string_view fail_reason_name(FailReason reason) {
  return kFailNames[static_cast<size_t>(reason) - 1];
}

std::vector<std::byte> encode_failed(const Failed& failed) {
  return BodyWriter().u8(static_cast<uint8_t>(failed.reason)).zeros(1).u16(failed.pair).take();
}

Result<Failed> decode_failed(ByteSpan bytes) {
  BodyReader body("FAILED", bytes);
  Failed failed;
  const uint8_t reason = body.u8();
  body.require(reason >= 1 && reason <= std::size(kFailNames), "unknown reason");
  failed.reason = static_cast<FailReason>(reason);
  body.zeros(1);
  failed.pair = body.u16();
  KVASIR_TRY_VOID(body.finish());
  return failed;
}

Result<void> decode_cancel(ByteSpan bytes) {
  return BodyReader("CANCEL", bytes).finish();
}

}  // namespace kvasir::wire
