// Any bytes as the body of any frame: the first byte chooses the frame. Refused with a reason, or
// accepted and then written again as the same bytes.
#include <algorithm>
#include <cstdint>

#include "wire/coverage_messages.h"
#include "wire/handshake_messages.h"
#include "wire/link_messages.h"
#include "wire/work_messages.h"

namespace {

using namespace kvasir;
using namespace kvasir::wire;

constexpr ModelShape kShape{4, 16, 256};
constexpr uint16_t kPairs = 3;

template <typename Message, typename Encode>
void check(const Result<Message>& message, ByteSpan body, const Encode& encode) {
  if (!message) {
    KVASIR_CHECK(!message.error().message.empty());
    return;
  }
  const std::vector<std::byte> again = encode(*message);
  KVASIR_CHECK(std::equal(again.begin(), again.end(), body.begin(), body.end()));
}

// Rows that were accepted can be used.
void check_compute(ByteSpan body) {
  auto compute = decode_compute(body, kShape, 32);
  check(compute, body, encode_compute);
  if (!compute) return;
  const size_t wire_bytes = row_bytes(compute->row_format, kShape.n_embd);
  std::vector<std::byte> row(kernels::activation_row_bytes(compute->row_format, kShape.n_embd));
  std::vector<std::byte> packed(wire_bytes);
  for (size_t i = 0; i < compute->n_rows(); ++i) {
    const ByteSpan wire_row = compute->rows.subspan(i * wire_bytes, wire_bytes);
    unpack_row(compute->row_format, wire_row, kShape.n_embd, row.data());
    pack_row(compute->row_format, row.data(), kShape.n_embd, packed.data());
    KVASIR_CHECK(std::equal(packed.begin(), packed.end(), wire_row.begin(), wire_row.end()));
  }
}

void check_result(ByteSpan body, ResultEncoding encoding) {
  check(decode_result(body, encoding, kShape.n_embd, kPairs), body,
        [](const ComputeResult& result) { return encode_result(result, kPairs); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan body = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 18) {
    case 0:
      check(decode_challenge(body), body, encode_challenge);
      break;
    case 1:
      check(decode_hello(Role::kWorker, body), body, encode_hello);
      break;
    case 2:
      check(decode_hello(Role::kBackbone, body), body, encode_hello);
      break;
    case 3:
      check(decode_welcome(body), body, encode_welcome);
      break;
    case 4:
      check(decode_refused(body), body, encode_refused);
      break;
    case 5:
      check_compute(body);
      break;
    case 6:
      check_result(body, ResultEncoding::kF32);
      break;
    case 7:
      check_result(body, ResultEncoding::kF16);
      break;
    case 8:
      check_result(body, ResultEncoding::kQ8);
      break;
    case 9:
      check(decode_busy(body), body, encode_busy);
      break;
    case 10:
      check(decode_failed(body), body, encode_failed);
      break;
    case 11:
      check(decode_lease_terms(body), body, encode_lease_terms);
      break;
    case 12:
      check(decode_leased_units(body), body, encode_leased_units);
      break;
    case 13:
      check(decode_echo(body), body, encode_echo);
      break;
    case 14:
      check(decode_credit(body), body, encode_credit);
      break;
    case 15:
      check(decode_peer_here(body), body, encode_peer_here);
      break;
    case 16:
      check(decode_peer_gone(body), body, encode_peer_gone);
      break;
    default:
      check(decode_restarting(body), body, encode_restarting);
      break;
  }
  return 0;
}
