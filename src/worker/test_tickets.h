// For tests of the worker: COMPUTE frames as a backbone makes them, and what must come back.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "expert/encoding.h"
#include "wire/frame.h"
#include "wire/work_messages.h"
#include "worker/test_experts.h"

namespace kvasir::worker {

// Rows of f32, and how they travel.
struct TestTicket {
  uint16_t layer = 0;
  wire::ResultEncoding encoding = wire::ResultEncoding::kF32;
  wire::ActivationFormat format = wire::ActivationFormat::kF32;
  uint32_t deadline_ms = 1'000;
  std::vector<float> rows;
  std::vector<uint8_t> counts;
  std::vector<uint16_t> experts;

  std::vector<std::byte> body() const {
    const size_t wire_bytes = wire::row_bytes(format, kTestEmbd);
    std::vector<std::byte> travelling(counts.size() * wire_bytes);
    std::vector<std::byte> row(kernels::activation_row_bytes(format, kTestEmbd));
    const auto& scalar = kernels::scalar();
    for (size_t i = 0; i < counts.size(); ++i) {
      const float* x = rows.data() + i * kTestEmbd;
      if (format == wire::ActivationFormat::kQ8_K)
        KVASIR_CHECK(
            scalar.quantize_q8_k(x, kTestEmbd, reinterpret_cast<kernels::BlockQ8K*>(row.data())));
      else if (format == wire::ActivationFormat::kQ8_0)
        KVASIR_CHECK(
            scalar.quantize_q8_0(x, kTestEmbd, reinterpret_cast<kernels::BlockQ8_0*>(row.data())));
      else
        std::memcpy(row.data(), x, row.size());
      wire::pack_row(format, row.data(), kTestEmbd, travelling.data() + i * wire_bytes);
    }
    return wire::encode_compute(
        {layer, encoding, format, deadline_ms, counts, experts, travelling});
  }

  // The same by the local service, a row at a time.
  std::vector<float> expected(expert::ExpertService& local) const {
    std::vector<float> out(experts.size() * kTestEmbd);
    size_t pair = 0;
    for (size_t row = 0; row < counts.size(); ++row) {
      expert::ExpertRequest request;
      request.layer = layer;
      request.rows = rows.data() + row * kTestEmbd;
      request.n_rows = 1;
      request.ids = experts.data() + pair;
      request.top_k = counts[row];
      request.encoding = static_cast<expert::OutputEncoding>(encoding);
      auto failures = local.compute(request, out.data() + pair * kTestEmbd);
      KVASIR_CHECK(failures.has_value() && failures->empty());
      pair += counts[row];
    }
    return out;
  }
};

// Experts first..last of the layer, some for each row.
inline TestTicket random_ticket(expert::Random& random, uint16_t layer, uint16_t first,
                                uint16_t last, size_t n_rows) {
  TestTicket ticket;
  ticket.layer = layer;
  ticket.encoding = static_cast<wire::ResultEncoding>(random() % 3);
  constexpr wire::ActivationFormat kFormats[] = {
      wire::ActivationFormat::kQ8_K, wire::ActivationFormat::kQ8_0, wire::ActivationFormat::kF32,
      wire::ActivationFormat::kF32};
  if (random() % 2 == 0) ticket.format = kFormats[layer];
  ticket.rows = expert::random_floats(random, n_rows * kTestEmbd);
  std::vector<uint16_t> all(last - first + 1U);
  std::iota(all.begin(), all.end(), first);
  for (size_t row = 0; row < n_rows; ++row) {
    std::shuffle(all.begin(), all.end(), random);
    ticket.counts.push_back(static_cast<uint8_t>(1 + random() % all.size()));
    ticket.experts.insert(ticket.experts.end(), all.begin(), all.begin() + ticket.counts.back());
  }
  return ticket;
}

// The outputs of a RESULT as the backbone reads them; empty if it is not valid.
inline std::vector<float> decoded_result(ByteSpan body, const TestTicket& ticket) {
  const auto n_pairs = static_cast<uint16_t>(ticket.experts.size());
  auto result = wire::decode_result(body, ticket.encoding, kTestEmbd, n_pairs);
  if (!result) return {};
  const size_t bytes = wire::row_bytes(ticket.encoding, kTestEmbd);
  std::vector<float> out(n_pairs * size_t{kTestEmbd});
  for (size_t pair = 0; pair < n_pairs; ++pair)
    if (!expert::decode(kernels::scalar(), static_cast<expert::OutputEncoding>(ticket.encoding),
                        result->outputs.subspan(pair * bytes, bytes),
                        std::span(out).subspan(pair * kTestEmbd, kTestEmbd)))
      return {};
  return out;
}

}  // namespace kvasir::worker
