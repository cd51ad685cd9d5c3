// For tests and fuzzers of the dispatcher: a model whose experts are one line of arithmetic, calls
// that stop at every step, and workers that answer when they are told to. Time stands still until
// somebody moves it.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "swarm/dispatcher.h"

namespace kvasir::swarm {

inline constexpr uint32_t kToyEmbd = 32, kToyExperts = 16, kToyGroup = 4, kToyLayers = 2;

inline ModelRoutes toy_routes() {
  ModelRoutes routes;
  routes.n_embd = kToyEmbd;
  routes.group_size = kToyGroup;
  routes.layers.assign(kToyLayers, {kToyExperts, kernels::ActivationFormat::kF32});
  return routes;
}

// What expert `expert` of layer `layer` makes of a row: exact in f32, f16 and q8 alike.
inline std::vector<float> toy_output(uint32_t layer, uint32_t expert, const float* row) {
  std::vector<float> output(kToyEmbd);
  for (uint32_t i = 0; i < kToyEmbd; ++i)
    output[i] = static_cast<float>((static_cast<uint32_t>(row[0]) + 3 * expert + layer + i) % 64);
  output[0] = 127;  // so that the steps of q8 are whole numbers
  return output;
}

// A request and its outputs. Row r holds the number r + `first` in every place.
struct ToyCall {
  ToyCall(uint32_t the_layer, size_t the_top_k, std::vector<uint16_t> the_ids, float first = 0)
      : layer(the_layer), top_k(the_top_k), ids(std::move(the_ids)) {
    const size_t n_rows = ids.size() / top_k;
    for (size_t row = 0; row < n_rows; ++row)
      rows.insert(rows.end(), kToyEmbd, static_cast<float>(row) + first);
    out.assign(ids.size() * kToyEmbd, -1.0F);
    sendable.assign(n_rows, 1);
    owners.assign(n_rows, 0);
    at_hand.assign(kToyExperts, 1);
  }
  size_t n_rows() const { return sendable.size(); }
  std::vector<float> expected() const {
    std::vector<float> all;
    for (size_t pair = 0; pair < ids.size(); ++pair) {
      std::vector<float> one(kToyEmbd, -1.0F);
      if (bad_row == pair / top_k && !failures.empty())
        one.assign(kToyEmbd, 0.0F);
      else if (ids[pair] != expert::kNoExpert)
        one = toy_output(layer, ids[pair], &rows[pair / top_k * kToyEmbd]);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  bool is_right() const { return out == expected(); }

  uint32_t layer;
  size_t top_k;
  std::vector<uint16_t> ids;
  std::vector<float> rows, out;
  std::vector<uint8_t> sendable, at_hand;
  std::vector<uint64_t> owners;
  // Computing it here fails. If workers compute all of it, nobody finds out.
  size_t bad_row = SIZE_MAX;
  expert::OutputEncoding encoding = expert::OutputEncoding::kF32;

  std::unique_ptr<Call> call;
  Step step;
  bool done = false;
  CallRecord record;
  std::vector<expert::RowFailure> failures;
};

// A COMPUTE that left, as its worker reads it.
struct ToyTicket {
  WorkerId worker = 0;
  uint64_t number = 0;
  std::vector<std::byte> body;
  wire::Compute compute;  // but for its rows, which point into a body
  // They end the body; a copy has its own.
  const std::byte* row(size_t index) const {
    return body.data() + body.size() - (compute.n_rows() - index) * kToyEmbd * sizeof(float);
  }
  // What an honest worker answers.
  std::vector<float> outputs() const {
    std::vector<float> all;
    size_t pair = 0;
    for (size_t row = 0; row < compute.n_rows(); ++row) {
      std::vector<float> values(kToyEmbd);
      std::memcpy(values.data(), this->row(row), kToyEmbd * sizeof(float));
      for (size_t i = 0; i < compute.counts[row]; ++i, ++pair) {
        const auto one = toy_output(compute.layer, compute.experts[pair], values.data());
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    return all;
  }
};

class ToySwarm {
 public:
  explicit ToySwarm(DispatchOptions options = options_without_probation())
      : dispatcher(toy_routes(), kernels::scalar(), options), encoding(options.encoding) {}

  static DispatchOptions options_without_probation() {
    DispatchOptions options;
    options.mode = DispatchMode::kAlways;
    options.probation_tickets = 0;
    options.secret = {1, 2};
    return options;
  }

  static wire::Key key_of(uint8_t number) {
    wire::Key key{};
    key.fill(std::byte{number});
    return key;
  }

  WorkerId join(uint8_t key, uint16_t rows_max = 64) {
    WorkerInfo info;
    info.key = key_of(key);
    info.capabilities = {0b111, 0b111, rows_max, 64};
    info.rows_max = rows_max;
    return dispatcher.join(std::move(info), now);
  }
  // Of both layers.
  WorkerId join_holding(uint8_t key, uint16_t begin, uint16_t end) {
    const WorkerId worker = join(key);
    for (uint16_t layer = 0; layer < kToyLayers; ++layer) ready(worker, layer, begin, end);
    return worker;
  }
  void ready(WorkerId worker, uint16_t layer, uint16_t begin, uint16_t end) {
    dispatcher.on_ready(worker, std::vector<wire::LeasedUnit>{{{layer, begin, end}, 0}}, now);
  }
  void drain(WorkerId worker, uint16_t layer, uint16_t begin, uint16_t end) {
    dispatcher.on_drain(worker, std::vector<wire::LeasedUnit>{{{layer, begin, end}, 0}}, now);
  }

  // Starts, and computes what is to be computed here, until the call waits or is done.
  void start(ToyCall& call) {
    CallInput input;
    input.request = {call.layer, call.rows.data(), call.n_rows(),     call.ids.data(),
                     call.top_k, call.encoding,    call.owners.data()};
    input.out = call.out.data();
    input.wire_rows = std::as_bytes(std::span(call.rows));
    input.row_bytes = kToyEmbd * sizeof(float);
    input.sendable = call.sendable;
    input.at_hand = call.at_hand;
    call.call = dispatcher.start(input, ++now);
    go(call);
  }
  // On from where it waits.
  void go(ToyCall& call) {
    if (call.done) return;
    for (call.step = dispatcher.step(*call.call, now); call.step.kind == Step::Kind::kCompute;
         call.step = dispatcher.step(*call.call, now))
      compute(call);
    collect();
    if (call.step.kind != Step::Kind::kDone) return;
    call.failures = Dispatcher::finish(std::move(call.call), &call.record);
    call.done = true;
  }
  // One computation of a step.
  void compute(ToyCall& call) {
    std::vector<expert::RowFailure> failures;
    for (size_t pair = 0; pair < call.ids.size(); ++pair) {
      if (call.step.ids[pair] == expert::kNoExpert) continue;
      ++computed_here;
      const size_t row = pair / call.top_k;
      if (row == call.bad_row) {
        if (failures.empty()) failures.push_back({row, Error::non_finite("row {}", row)});
        continue;
      }
      const auto output = toy_output(call.layer, call.ids[pair], &call.rows[row * kToyEmbd]);
      std::copy(output.begin(), output.end(), call.out.begin() + pair * kToyEmbd);
    }
    if (while_computing) while_computing();
    now += compute_us;
    dispatcher.computed(*call.call, std::move(failures), now);
  }
  // To the end, though no worker says anything more.
  void run_out(ToyCall& call) {
    while (!call.done) {
      KVASIR_CHECK(call.step.until != kNeverUs);
      now = std::max(now, call.step.until);
      go(call);
    }
  }

  // Moves frames that left into `tickets` and `cancelled`.
  void collect() {
    for (Outgoing& frame : dispatcher.take_outgoing()) {
      if (frame.type == wire::FrameType::kCancel) {
        cancelled.emplace_back(frame.worker, frame.ticket);
        continue;
      }
      ToyTicket ticket;
      ticket.worker = frame.worker;
      ticket.number = frame.ticket;
      ticket.body = std::move(frame.body);
      auto compute =
          wire::decode_compute(ticket.body, {kToyLayers, kToyExperts, kToyEmbd}, wire::kRowsMax);
      KVASIR_CHECK(compute.has_value());
      ticket.compute = std::move(*compute);
      ticket.compute.rows = {};
      tickets.push_back(std::move(ticket));
    }
  }
  // The oldest of this worker, or of all.
  ToyTicket take(WorkerId worker = 0) {
    collect();
    const auto found = std::find_if(tickets.begin(), tickets.end(), [&](const ToyTicket& ticket) {
      return worker == 0 || ticket.worker == worker;
    });
    KVASIR_CHECK(found != tickets.end());
    ToyTicket ticket = std::move(*found);
    tickets.erase(found);
    return ticket;
  }
  std::vector<std::byte> result_body(std::span<const float> outputs) const {
    const size_t n_pairs = outputs.size() / kToyEmbd;
    const size_t bytes = expert::encoded_bytes(encoding, kToyEmbd);
    std::vector<std::byte> encoded(n_pairs * bytes);
    for (size_t pair = 0; pair < n_pairs; ++pair)
      expert::encode(kernels::scalar(), encoding, outputs.subspan(pair * kToyEmbd, kToyEmbd),
                     encoded.data() + pair * bytes);
    return wire::encode_result({10, 0, encoded}, static_cast<uint16_t>(n_pairs));
  }
  Result<void> answer(const ToyTicket& ticket) {
    return dispatcher.on_result(ticket.worker, ticket.number, result_body(ticket.outputs()), now);
  }
  // One value of one pair is wrong.
  Result<void> lie(const ToyTicket& ticket, size_t pair = 0) {
    std::vector<float> outputs = ticket.outputs();
    outputs[pair * kToyEmbd + 1] += 1;
    return dispatcher.on_result(ticket.worker, ticket.number, result_body(outputs), now);
  }
  void fail(const ToyTicket& ticket, wire::FailReason reason, uint16_t pair = 0xFFFF) {
    dispatcher.on_failed(ticket.worker, ticket.number, {reason, pair}, now);
  }
  void busy(const ToyTicket& ticket) {
    dispatcher.on_busy(ticket.worker, ticket.number, {wire::BusyReason::kQueueFull, 0}, now);
  }

  SwarmStatus status() const { return dispatcher.status(now); }
  WorkerStatus status_of(WorkerId worker) const {
    for (WorkerStatus& each : status().workers)
      if (each.id == worker) return each;
    KVASIR_CHECK(false);
    return {};
  }
  // Every ticket has ended or is open, and never both.
  bool is_balanced() const {
    const TicketCounts counts = status().tickets;
    return counts.issued == counts.results + counts.local_fills + counts.cancelled + counts.open;
  }

  TimeUs now = 1'000'000;
  TimeUs compute_us = 50;
  std::function<void()> while_computing;
  size_t computed_here = 0;
  Dispatcher dispatcher;
  expert::OutputEncoding encoding;
  std::deque<ToyTicket> tickets;
  std::vector<std::pair<WorkerId, uint64_t>> cancelled;
};

}  // namespace kvasir::swarm
