#include "swarm/swarm_expert_service.h"

#include <algorithm>

#include "expert/activation_rows.h"
#include "wire/rows.h"

namespace kvasir::swarm {

using kernels::ActivationFormat;

struct SwarmExpertService::Scratch {
  expert::ActivationRows rows;
  std::vector<std::byte> wire_rows;
  std::vector<uint8_t> sendable, at_hand;
  size_t row_bytes = 0;
};

ModelRoutes make_routes(std::span<const expert::LayerExperts> layers, uint32_t group_size) {
  ModelRoutes routes;
  routes.group_size = group_size;
  for (const expert::LayerExperts& layer : layers) {
    const ActivationFormat gate = kernels::activation_format(layer.first.gate.type);
    const ActivationFormat up = kernels::activation_format(layer.first.up.type);
    routes.layers.push_back({layer.n_experts, gate == up ? gate : ActivationFormat::kF32});
    if (layer.n_experts > 0) routes.n_embd = layer.first.gate.n_in;
  }
  return routes;
}

namespace {

// A failure of every row that wants an expert.
std::vector<expert::RowFailure> all_failed(const expert::ExpertRequest& request,
                                           const Error& error) {
  std::vector<expert::RowFailure> failures;
  for (size_t row = 0; row < request.n_rows; ++row) {
    const uint16_t* ids = request.ids + row * request.top_k;
    if (std::any_of(ids, ids + request.top_k, [](uint16_t id) { return id != expert::kNoExpert; }))
      failures.push_back({row, error});
  }
  return failures;
}

}  // namespace

SwarmExpertService::SwarmExpertService(ModelRoutes routes, SharedDispatcher& dispatcher,
                                       expert::ExpertService& local,
                                       const kernels::KernelTable& kernels, ThreadPool& pool,
                                       TurnHooks turn)
    : routes_(std::move(routes)),
      dispatcher_(dispatcher),
      local_(local),
      kernels_(kernels),
      pool_(pool),
      turn_(std::move(turn)) {}
SwarmExpertService::~SwarmExpertService() = default;

std::unique_ptr<SwarmExpertService::Scratch> SwarmExpertService::take_scratch() {
  const std::lock_guard lock(mutex_);
  if (scratches_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(scratches_.back());
  scratches_.pop_back();
  return scratch;
}

void SwarmExpertService::pack_rows(const expert::ExpertRequest& request, Scratch& scratch) {
  const size_t n_embd = routes_.n_embd;
  const ActivationFormat format = routes_.layers[request.layer].row_format;
  scratch.row_bytes = wire::row_bytes(format, n_embd);
  scratch.wire_rows.resize(request.n_rows * scratch.row_bytes);
  scratch.sendable.assign(request.n_rows, 0);
  expert::FormatSet formats;
  formats.add(format);
  scratch.rows.resize(request.n_rows, n_embd, formats);
  const auto pack = [&](size_t row, size_t) {
    const float* x = request.rows + row * n_embd;
    std::byte* out = scratch.wire_rows.data() + row * scratch.row_bytes;
    if (!scratch.rows.quantise(kernels_, row, x, formats)) return;
    const std::byte* packed = format == ActivationFormat::kF32
                                  ? reinterpret_cast<const std::byte*>(x)
                                  : scratch.rows.row(format, row);
    wire::pack_row(format, packed, n_embd, out);
    scratch.sendable[row] = 1;
  };
  if (request.n_rows == 1) {
    pack(0, 0);
  } else {
    pool_.run(request.n_rows, std::ref(pack));
  }
}

Result<std::vector<expert::RowFailure>> SwarmExpertService::compute(
    const expert::ExpertRequest& request, float* out) {
  if (request.layer >= routes_.layers.size())
    return Error::invalid("layer {} of a model with {} layers", request.layer,
                          routes_.layers.size());
  const uint32_t n_experts = routes_.layers[request.layer].n_experts;
  for (size_t pair = 0; pair < request.n_rows * request.top_k; ++pair)
    if (request.ids[pair] >= n_experts && request.ids[pair] != expert::kNoExpert)
      return Error::invalid("expert {} of layer {}, which has {} experts", request.ids[pair],
                            request.layer, n_experts);

  std::unique_ptr<Scratch> scratch = take_scratch();
  pack_rows(request, *scratch);
  scratch->at_hand.resize(n_experts);
  for (uint32_t expert = 0; expert < n_experts; ++expert)
    scratch->at_hand[expert] =
        local_.is_at_hand(request.layer, static_cast<uint16_t>(expert)) ? 1 : 0;

  CallInput input;
  input.request = request;
  input.out = out;
  input.wire_rows = scratch->wire_rows;
  input.row_bytes = scratch->row_bytes;
  input.sendable = scratch->sendable;
  input.at_hand = scratch->at_hand;

  Step step;
  std::unique_ptr<Call> call = dispatcher_.with([&](Dispatcher& dispatcher) {
    auto started = dispatcher.start(input, now_us());
    step = dispatcher.step(*started, now_us());
    return started;
  });
  bool goes_on = request.goes_on;
  std::optional<Error> broken;  // the local service could not even begin
  while (step.kind != Step::Kind::kDone) {
    if (step.kind == Step::Kind::kCompute) {
      expert::ExpertRequest part = request;
      part.ids = step.ids.data();
      part.goes_on = std::exchange(goes_on, true);
      auto failures = local_.compute(part, out);
      if (!failures) {
        // Its rows are lost, but the call must end. They count as failed, so that no worker's
        // answer is held against what was never computed.
        broken = failures.error();
        failures = all_failed(part, *broken);
      }
      step = dispatcher_.with([&](Dispatcher& dispatcher) {
        dispatcher.computed(*call, std::move(*failures), now_us());
        return dispatcher.step(*call, now_us());
      });
    } else {
      if (turn_.give) turn_.give();
      dispatcher_.wait(*call, step.until);
      if (turn_.take) turn_.take();
      step = dispatcher_.with(
          [&](Dispatcher& dispatcher) { return dispatcher.step(*call, now_us()); });
    }
  }
  CallRecord record;
  auto failures = Dispatcher::finish(std::move(call), &record);
  {
    const std::lock_guard lock(mutex_);
    scratches_.push_back(std::move(scratch));
    if (is_tracing_ && records_.size() < kRecordsMax) records_.push_back(record);
  }
  if (broken) return std::move(*broken);
  return failures;
}

bool SwarmExpertService::is_at_hand(uint32_t layer, uint16_t expert) const {
  return local_.is_at_hand(layer, expert);
}

bool SwarmExpertService::wants_guess(uint32_t layer) const {
  // What is going to be sent away need not be read here.
  return local_.wants_guess(layer) && !dispatcher_.with([&](const Dispatcher& dispatcher) {
    return dispatcher.ships_whole_layer(layer);
  });
}

void SwarmExpertService::guess(uint32_t layer, std::span<const uint16_t> ids, size_t top_k) {
  local_.guess(layer, ids, top_k);
}

std::vector<uint64_t> SwarmExpertService::take_doubted() {
  return dispatcher_.with([](Dispatcher& dispatcher) { return dispatcher.take_doubted(); });
}

void SwarmExpertService::forget(uint64_t owner) {
  dispatcher_.with([owner](Dispatcher& dispatcher) { dispatcher.forget(owner); });
}

void SwarmExpertService::set_tracing(bool on) {
  const std::lock_guard lock(mutex_);
  is_tracing_ = on;
}

std::vector<CallRecord> SwarmExpertService::take_records() {
  const std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

}  // namespace kvasir::swarm
