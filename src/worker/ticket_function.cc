#include "worker/ticket_function.h"

#include <algorithm>
#include <numeric>

#include "expert/encoding.h"
#include "expert/scratch.h"
#include "wire/rows.h"

namespace kvasir::worker {
namespace {

using expert::OutputEncoding;
using wire::FailReason;

// Both modules number them alike (tests/wire_expert_test.cc).
OutputEncoding output_encoding(wire::ResultEncoding encoding) {
  return static_cast<OutputEncoding>(encoding);
}

}  // namespace

TicketFunction::TicketFunction(const kernels::KernelTable& kernels, ThreadPool& pool,
                               const expert::HeldExperts& held)
    : kernels_(kernels), held_(held), function_(kernels, pool) {}

std::optional<TicketProblem> TicketFunction::check(const wire::Compute& compute) const {
  for (size_t pair = 0; pair < compute.n_pairs(); ++pair) {
    const auto expert = held_.find(compute.layer, compute.experts[pair]);
    if (!expert) return TicketProblem{FailReason::kNotHeld, static_cast<uint16_t>(pair)};
    // The same for all experts of a layer.
    if (compute.row_format != wire::ActivationFormat::kF32 &&
        compute.row_format != expert::travel_format(*expert))
      return TicketProblem{FailReason::kUnsupported, wire::Failed::kNoPair};
  }
  return std::nullopt;
}

std::optional<TicketProblem> TicketFunction::run(const wire::Compute& compute,
                                                 std::vector<std::byte>& outputs) {
  take_rows(compute);
  sort_pairs(compute);
  // Encoded below, once, into what travels.
  function_.compute({compute.row_format, rows_.data(), compute.n_rows()}, jobs_, pairs_,
                    OutputEncoding::kF32);
  return encode_pairs(compute, outputs);
}

void TicketFunction::take_rows(const wire::Compute& compute) {
  const size_t n = held_.n_embd();
  const size_t wire_bytes = wire::row_bytes(compute.row_format, n);
  const size_t stride = kernels::activation_row_bytes(compute.row_format, n);
  expert::grow_scratch(rows_, compute.n_rows() * stride);
  for (size_t row = 0; row < compute.n_rows(); ++row)
    wire::unpack_row(compute.row_format, compute.rows.subspan(row * wire_bytes, wire_bytes), n,
                     rows_.data() + row * stride);
}

// One job per expert, its rows ascending.
void TicketFunction::sort_pairs(const wire::Compute& compute) {
  const size_t n_pairs = compute.n_pairs(), n = held_.n_embd();
  row_of_.clear();
  for (size_t row = 0; row < compute.n_rows(); ++row)
    row_of_.insert(row_of_.end(), compute.counts[row], static_cast<uint32_t>(row));
  order_.resize(n_pairs);
  std::iota(order_.begin(), order_.end(), uint16_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](uint16_t a, uint16_t b) { return compute.experts[a] < compute.experts[b]; });
  expert::grow_scratch(values_, n_pairs * n);
  pairs_.clear();
  jobs_.clear();
  for (size_t i = 0; i < n_pairs; ++i) {
    const uint16_t pair = order_[i];
    const uint16_t expert = compute.experts[pair];
    if (i == 0 || expert != compute.experts[order_[i - 1]])
      jobs_.push_back({*held_.find(compute.layer, expert), i, i});
    pairs_.push_back({row_of_[pair], values_.data() + pair * n, std::nullopt});
    jobs_.back().end = i + 1;
  }
}

std::optional<TicketProblem> TicketFunction::encode_pairs(const wire::Compute& compute,
                                                          std::vector<std::byte>& outputs) {
  const size_t n = held_.n_embd();
  const OutputEncoding encoding = output_encoding(compute.encoding);
  const size_t bytes = expert::encoded_bytes(encoding, n);
  uint16_t first_failed = wire::Failed::kNoPair;
  for (size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i].failure) first_failed = std::min(first_failed, order_[i]);
  outputs.resize(compute.n_pairs() * bytes);
  expert::grow_scratch(decoded_, n);
  for (uint16_t pair = 0; pair < compute.n_pairs() && pair < first_failed; ++pair) {
    const auto out = std::span(outputs).subspan(pair * bytes, bytes);
    expert::encode(kernels_, encoding, {values_.data() + pair * n, n}, out.data());
    // A value next to the largest float may become infinite on the way, at the other end as well.
    if (encoding != OutputEncoding::kF32 &&
        !expert::decode(kernels_, encoding, out, {decoded_.data(), n}))
      first_failed = pair;
  }
  if (first_failed == wire::Failed::kNoPair) return std::nullopt;
  return TicketProblem{FailReason::kNonFinite, first_failed};
}

}  // namespace kvasir::worker
