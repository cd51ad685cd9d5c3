// The frames of work: COMPUTE, RESULT, BUSY, FAILED, CANCEL. One COMPUTE is one ticket; the ticket
// is in the frame's head. Layouts stand in docs/protocol.md. Decoders are strict and allocate only
// by counts that were checked; what they return points into the body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/rows.h"

namespace kvasir::wire {

// Of the model that both ends hold (their fingerprints are equal), so it does not travel.
struct ModelShape {
  uint16_t n_layers = 0;
  uint16_t n_experts = 0;  // per layer
  uint32_t n_embd = 0;
};

inline constexpr uint16_t kRowsMax = 256;    // of one COMPUTE, whatever was agreed
inline constexpr uint16_t kPairsMax = 1024;  // of one COMPUTE, for models with short rows
inline constexpr uint32_t kDeadlineMsMax = 60'000;

struct Compute {
  uint16_t layer = 0;
  ResultEncoding encoding = ResultEncoding::kF32;
  ActivationFormat row_format = ActivationFormat::kF32;
  uint32_t deadline_ms = 0;  // from when it is received; 1..kDeadlineMsMax
  // [n_rows] how many experts each row wants, at least 1.
  std::vector<uint8_t> counts;
  // [n_pairs] the experts of the first row, of the second, ...; indices within the layer, no
  // expert twice for one row.
  std::vector<uint16_t> experts;
  ByteSpan rows;  // [n_rows][row_bytes(row_format, n_embd)]

  size_t n_rows() const { return counts.size(); }
  size_t n_pairs() const { return experts.size(); }
};

// compute is within what decode_compute() accepts.
std::vector<std::byte> encode_compute(const Compute& compute);
// rows_max: as agreed in WELCOME. kCorrupt, or kInvalid for a layer or expert that the model does
// not have.
Result<Compute> decode_compute(ByteSpan body, const ModelShape& shape, uint16_t rows_max);

struct ComputeResult {
  uint32_t compute_us = 0;
  uint16_t queue_depth = 0;  // tickets that wait at the worker
  ByteSpan outputs;          // [n_pairs][row_bytes(encoding, n_embd)], in the order of the request
};
std::vector<std::byte> encode_result(const ComputeResult& result, uint16_t n_pairs);
// encoding, n_embd, n_pairs: of the ticket. Every output has been checked.
Result<ComputeResult> decode_result(ByteSpan body, ResultEncoding encoding, uint32_t n_embd,
                                    uint16_t n_pairs);

// A worker that is sound but does not take this ticket now.
enum class BusyReason : uint8_t { kQueueFull = 1, kNoCredit = 2, kPaused = 3, kDraining = 4 };
std::string_view busy_reason_name(BusyReason reason);  // "queue_full"
struct Busy {
  BusyReason reason = BusyReason::kQueueFull;
  uint32_t retry_after_ms = 0;  // 0: not known
};
std::vector<std::byte> encode_busy(const Busy& busy);
Result<Busy> decode_busy(ByteSpan body);

// A worker that cannot do this ticket.
enum class FailReason : uint8_t {
  kMalformed = 1,        // the COMPUTE breaks a rule of this protocol
  kNotHeld = 2,          // a layer or expert that this worker does not hold
  kNonFinite = 3,        // a value of the computation is not finite; `pair` says of which
  kDeadline = 4,         // it passed before the answer was ready
  kDuplicateTicket = 5,  // a ticket that is not above the last one
  kUnsupported = 6,      // a row format or encoding that HELLO did not name
  kInternal = 7,
};
std::string_view fail_reason_name(FailReason reason);  // "malformed"
struct Failed {
  static constexpr uint16_t kNoPair = 0xFFFF;
  FailReason reason = FailReason::kInternal;
  uint16_t pair = kNoPair;
};
std::vector<std::byte> encode_failed(const Failed& failed);
Result<Failed> decode_failed(ByteSpan body);

// CANCEL has an empty body.
Result<void> decode_cancel(ByteSpan body);

// Tickets of a session only ever rise, so that a repeated one is known by one number.
class TicketOrder {
 public:
  // False for a ticket that is not above all before it, and for 0.
  bool accept(uint64_t ticket) {
    if (ticket <= last_) return false;
    last_ = ticket;
    return true;
  }

 private:
  uint64_t last_ = 0;
};

}  // namespace kvasir::wire
