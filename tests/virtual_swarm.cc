#include "virtual_swarm.h"

namespace kvasir::testing {

using swarm::Outgoing;
using wire::CloseCode;
using wire::FrameType;

namespace {

constexpr uint64_t kTurn = 0x9E3779B97F4A7C15U;

swarm::ModelRoutes routes_of(const worker::TestExperts& experts) {
  swarm::ModelRoutes routes;
  routes.n_embd = worker::kTestEmbd;
  routes.group_size = worker::kTestGroup;
  for (const expert::LayerExperts& layer : experts.layers()) {
    swarm::LayerRoute route;
    route.n_experts = layer.n_experts;
    if (layer.n_experts > 0)
      route.row_format =
          expert::travel_format(layer.first).value_or(kernels::ActivationFormat::kF32);
    routes.layers.push_back(route);
  }
  return routes;
}

const kernels::KernelTable& fastest() {
  return *expert::all_tables().back();
}

}  // namespace

// --- The worker
// -----------------------------------------------------------------------------------

VirtualWorker::VirtualWorker(VirtualSwarm& swarm, uint8_t the_node, WorkerPlan the_plan)
    : node(the_node),
      plan(std::move(the_plan)),
      swarm_(swarm),
      function_(swarm.kernels, swarm.pool, held_) {
  for (gguf::UnitId unit : plan.units) swarm.experts.hold(unit, held_);
}

std::function<void()> VirtualWorker::guarded(std::function<void()> what) const {
  return [what = std::move(what), alive = std::weak_ptr<int>(connection_)] {
    if (!alive.expired()) what();
  };
}

void VirtualWorker::dial() {
  const wire::Time now = swarm_.clock.now_ms();
  connection_ = std::make_shared<int>(0);
  planned_ = UINT64_MAX;
  up_ = std::make_unique<VirtualPath>(
      swarm_.clock, swarm_.chance, plan.faults,
      [this](std::vector<std::byte> message) { deliver_to_backbone(std::move(message)); });
  down_ = std::make_unique<VirtualPath>(
      swarm_.clock, swarm_.chance, plan.faults,
      [this](std::vector<std::byte> message) { deliver_to_worker(std::move(message)); });
  wire::ServerConfig server = wire::test_server_config();
  server.role = wire::Role::kBackbone;
  server.clients = {wire::Role::kWorker};
  server.rows_max = 16;
  server_ = std::make_unique<wire::ServerSession>(
      server, std::make_unique<wire::ToyCrypto>(wire::kServerNode, wire::Toy::kChecks), now);
  client_ = std::make_unique<wire::ClientSession>(
      wire::test_client_config(), std::make_unique<wire::ToyCrypto>(node, wire::Toy::kChecks), now);
  if (plan.cut_every_us > 0)
    swarm_.clock.after(1 + swarm_.chance() % (2 * plan.cut_every_us), guarded([this] { cut(); }));
  pump();
}

void VirtualWorker::deliver_to_backbone(std::vector<std::byte> message) {
  on_backbone_events(server_->on_message(message, swarm_.clock.now_ms()));
  pump();
}

void VirtualWorker::deliver_to_worker(std::vector<std::byte> message) {
  // What arrives while the worker stands still waits for it.
  if (swarm_.clock.now() < stands_still_until_) {
    swarm_.clock.at(stands_still_until_,
                    guarded([this, message = std::move(message)] { deliver_to_worker(message); }));
    return;
  }
  on_worker_events(client_->on_message(message, swarm_.clock.now_ms()));
  pump();
}

void VirtualWorker::on_backbone_events(wire::SessionEvents events) {
  for (wire::SessionEvent& event : events) {
    if (const auto* hello = std::get_if<wire::HelloArrived>(&event)) {
      if (swarm_.dispatcher.objection(hello->hello.node_key))
        server_->refuse(CloseCode::kIdentity, "convicted");
      else
        server_->admit(swarm_.clock.now(), {}, swarm_.clock.now_ms());
    } else if (const auto* open = std::get_if<wire::SessionOpen>(&event)) {
      swarm::WorkerInfo info;
      info.key = open->peer_key;
      info.capabilities = wire::test_client_config().capabilities;
      info.rows_max = open->welcome.rows_max;
      id = swarm_.dispatcher.join(std::move(info), swarm_.clock.now());
    } else if (const auto* frame = std::get_if<wire::FrameArrived>(&event)) {
      const size_t bytes = frame->wire_bytes;
      const bool is_data = wire::is_data(frame->head.type);
      if (!on_backbone_frame(*frame)) {
        server_->close(CloseCode::kMalformed, "malformed");
        leave();
        return;
      }
      if (is_data) server_->consumed(bytes, swarm_.clock.now_ms());
      flush_backbone();
    } else {
      leave();
    }
  }
}

Result<void> VirtualWorker::on_backbone_frame(const wire::FrameArrived& frame) {
  const uint64_t ticket = frame.head.ticket;
  const TimeUs now = swarm_.clock.now();
  swarm::Dispatcher& dispatcher = swarm_.dispatcher;
  switch (frame.head.type) {
    case FrameType::kResult:
      return dispatcher.on_result(id, ticket, frame.body, now);
    case FrameType::kBusy: {
      KVASIR_TRY(const wire::Busy busy, wire::decode_busy(frame.body));
      dispatcher.on_busy(id, ticket, busy, now);
      return {};
    }
    case FrameType::kFailed: {
      KVASIR_TRY(const wire::Failed failed, wire::decode_failed(frame.body));
      dispatcher.on_failed(id, ticket, failed, now);
      return {};
    }
    case FrameType::kReady: {
      KVASIR_TRY(const auto units, wire::decode_leased_units(frame.body));
      dispatcher.on_ready(id, units, now);
      return {};
    }
    case FrameType::kDrain: {
      KVASIR_TRY(const auto units, wire::decode_leased_units(frame.body));
      dispatcher.on_drain(id, units, now);
      return {};
    }
    default:
      return {};
  }
}

void VirtualWorker::leave() {
  waiting_.clear();
  if (id != 0) swarm_.dispatcher.leave(std::exchange(id, 0), swarm_.clock.now());
}

void VirtualWorker::expel(CloseCode code) {
  server_->close(code, "expelled");
  leave();
  pump();
}

void VirtualWorker::send(Outgoing frame) {
  waiting_.push_back(std::move(frame));
  flush_backbone();
  pump();
}

void VirtualWorker::flush_backbone() {
  std::vector<uint64_t> unsent;
  for (; !waiting_.empty(); waiting_.pop_front()) {
    Outgoing& frame = waiting_.front();
    if (wire::is_data(frame.type) && server_->is_open() &&
        server_->credit_left() < wire::frame_bytes(frame.body.size(), true))
      break;
    if (server_->send(frame.type, frame.ticket, std::move(frame.body), swarm_.clock.now_ms()) !=
        wire::Send::kQueued)
      unsent.push_back(frame.ticket);
  }
  for (uint64_t ticket : unsent) swarm_.dispatcher.on_unsent(id, ticket, swarm_.clock.now());
}

void VirtualWorker::on_worker_events(wire::SessionEvents events) {
  for (wire::SessionEvent& event : events) {
    if (const auto* open = std::get_if<wire::SessionOpen>(&event)) {
      worker::CoreConfig config;
      config.capabilities = wire::test_client_config().capabilities;
      config.rows_max = open->welcome.rows_max;
      config.clock_us = [this] { return std::exchange(core_clock_us_, core_clock_end_us_); };
      config.mischief = plan.mischief;
      core_.emplace(std::move(config), held_, function_);
      if (plan.drains_once && !std::exchange(has_drained_, true))
        swarm_.clock.after(300'000, guarded([this] {
                             if (!core_) return;
                             core_->drain();
                             flush_worker();
                             pump();
                             swarm_.clock.after(300'000, guarded([this] { cut(); }));
                           }));
      if (plan.stall_every_us > 0)
        swarm_.clock.after(swarm_.chance() % (2 * plan.stall_every_us), guarded([this] {
                             stands_still_until_ = swarm_.clock.now() + plan.stall_us;
                           }));
      flush_worker();
    } else if (const auto* frame = std::get_if<wire::FrameArrived>(&event)) {
      if (!core_) continue;
      if (!core_->on_frame(*frame, client_->credit_left(), swarm_.clock.now_ms())) {
        client_->close(CloseCode::kMalformed, "malformed");
        core_.reset();
        continue;
      }
      flush_worker();
    } else if (std::holds_alternative<wire::SessionClosed>(event)) {
      core_.reset();
    }
  }
}

void VirtualWorker::flush_worker() {
  if (!core_) return;
  const wire::Time now = swarm_.clock.now_ms();
  if (const size_t bytes = core_->take_consumed_bytes(); bytes > 0) client_->consumed(bytes, now);
  while (true) {
    std::optional<worker::OutgoingFrame> frame =
        unsent_ ? std::exchange(unsent_, std::nullopt) : core_->next_frame(client_->credit_left());
    if (!frame) break;
    const auto copy = frame->body;
    if (client_->send(frame->type, frame->ticket, std::move(frame->body), now) ==
        wire::Send::kFull) {
      frame->body = copy;
      unsent_ = std::move(frame);
      break;
    }
    if (frame->consumed_bytes > 0) client_->consumed(frame->consumed_bytes, now);
  }
  if (!core_->has_work() || works_) return;
  works_ = true;
  // Some 1..8 pairs; the core does not say how many.
  const TimeUs takes = plan.pair_us * (1 + swarm_.chance() % 8);
  swarm_.clock.at(std::max(swarm_.clock.now() + takes, stands_still_until_),
                  [this, takes, alive = std::weak_ptr<int>(connection_)] {
                    if (alive.expired()) return;
                    works_ = false;
                    work(takes);
                  });
}

void VirtualWorker::work(TimeUs took) {
  if (!core_) return;
  const uint64_t before = core_->stats().lies;
  core_clock_end_us_ = swarm_.clock.now();
  core_clock_us_ = core_clock_end_us_ - took;
  core_->run_next(swarm_.clock.now_ms());
  lies += core_->stats().lies - before;
  flush_worker();
  pump();
}

void VirtualWorker::pump() {
  const wire::Time now = swarm_.clock.now_ms();
  const auto drain = [&](wire::Session& session, VirtualPath& path) {
    while (true) {
      std::vector<std::byte> message = session.next_message(now);
      if (message.empty()) break;
      path.send(std::move(message));
    }
  };
  drain(*server_, *down_);
  drain(*client_, *up_);
  if (server_->closed() || client_->closed()) {
    // The close frame needs its way as well.
    swarm_.clock.after(plan.faults.delay_us + plan.faults.delay_spread_us,
                       guarded([this] { cut(); }));
    return;
  }
  plan_timer();
}

void VirtualWorker::plan_timer() {
  const auto us = [](wire::Time ms) { return ms > UINT64_MAX / 2'000 ? UINT64_MAX : ms * 1'000; };
  wire::Time at = std::min(server_->wake_at(), client_->wake_at());
  if (core_) at = std::min(at, core_->wake_at());
  if (unsent_) at = std::min(at, swarm_.clock.now_ms() + 1);
  if (us(at) >= planned_ || at == wire::kNever) return;
  planned_ = us(at);
  swarm_.clock.at(planned_, guarded([this] {
                    planned_ = UINT64_MAX;
                    const wire::Time now = swarm_.clock.now_ms();
                    if (now >= server_->wake_at()) on_backbone_events(server_->on_timer(now));
                    if (now >= client_->wake_at()) on_worker_events(client_->on_timer(now));
                    if (core_) {
                      core_->on_timer(now);
                      flush_worker();
                    }
                    pump();
                  }));
}

void VirtualWorker::cut() {
  connection_.reset();
  up_.reset();
  down_.reset();
  leave();
  core_.reset();
  unsent_.reset();
  works_ = false;
  stands_still_until_ = 0;
  if (swarm_.convicted.contains(node)) return;
  swarm_.clock.after(50'000 + swarm_.chance() % 500'000, [this] { dial(); });
}

// --- The backbone
// -----------------------------------------------------------------------------------

VirtualSwarm::VirtualSwarm(const worker::TestExperts& the_experts, VirtualOptions the_options)
    : chance(the_options.seed * kTurn + 1),
      experts(the_experts),
      options(std::move(the_options)),
      kernels(fastest()),
      local(the_experts.layers(), kernels, pool),
      dispatcher(routes_of(the_experts), kernels, options.dispatch) {
  for (const WorkerPlan& plan : options.workers) {
    const auto node = static_cast<uint8_t>(10 + workers.size());
    workers.push_back(std::make_unique<VirtualWorker>(*this, node, plan));
    clock.after(chance() % 200'000, [worker = workers.back().get()] { worker->dial(); });
  }
}

expert::ExpertRequest VirtualSwarm::request_of(const VirtualCall& call) const {
  expert::ExpertRequest request;
  request.layer = call.layer;
  request.rows = call.rows.data();
  request.n_rows = call.ids.size() / call.top_k;
  request.ids = call.ids.data();
  request.top_k = call.top_k;
  request.encoding = options.dispatch.encoding;
  request.row_owner = call.owners.data();
  return request;
}

std::vector<float> VirtualSwarm::truth(const VirtualCall& call,
                                       std::vector<expert::RowFailure>* failures) {
  std::vector<float> out(call.out.size(), -1.0F);
  auto result = local.compute(request_of(call), out.data());
  KVASIR_CHECK(result.has_value());
  if (failures != nullptr) *failures = std::move(*result);
  return out;
}

void VirtualSwarm::pack_rows(VirtualCall& call) {
  const expert::LayerExperts& layer = experts.layers()[call.layer];
  const auto format = expert::travel_format(layer.first).value_or(kernels::ActivationFormat::kF32);
  const size_t n = worker::kTestEmbd, n_rows = call.ids.size() / call.top_k;
  const size_t row_bytes = wire::row_bytes(format, n);
  call.wire_rows.resize(n_rows * row_bytes);
  call.sendable.assign(n_rows, 0);
  call.at_hand.assign(layer.n_experts, 1);
  expert::FormatSet formats;
  formats.add(format);
  call.packed.resize(n_rows, n, formats);
  for (size_t row = 0; row < n_rows; ++row) {
    const float* x = call.rows.data() + row * n;
    if (!call.packed.quantise(kernels, row, x, formats)) continue;
    const std::byte* packed = format == kernels::ActivationFormat::kF32
                                  ? reinterpret_cast<const std::byte*>(x)
                                  : call.packed.row(format, row);
    wire::pack_row(format, packed, n, call.wire_rows.data() + row * row_bytes);
    call.sendable[row] = 1;
  }
}

void VirtualSwarm::start(VirtualCall& call) {
  call.out.assign(call.ids.size() * worker::kTestEmbd, -1.0F);
  pack_rows(call);
  swarm::CallInput input;
  input.request = request_of(call);
  input.out = call.out.data();
  input.wire_rows = call.wire_rows;
  input.row_bytes = call.wire_rows.size() / std::max<size_t>(call.sendable.size(), 1);
  input.sendable = call.sendable;
  input.at_hand = call.at_hand;
  call.call = dispatcher.start(input, clock.now());
  take_step(call);
}

void VirtualSwarm::take_step(VirtualCall& call) {
  call.step = dispatcher.step(*call.call, clock.now());
  const size_t number = ++call.steps;
  switch (call.step.kind) {
    case swarm::Step::Kind::kDone:
      call.failures = swarm::Dispatcher::finish(std::move(call.call), &call.record);
      call.is_done = true;
      clock.after(0, [&call] { call.on_done(call); });
      break;
    case swarm::Step::Kind::kWait:
      waiting_.push_back(&call);
      if (call.step.until != swarm::kNeverUs)
        clock.at(call.step.until, [this, &call, number] {
          if (call.steps == number && std::erase(waiting_, &call) > 0) take_step(call);
        });
      break;
    case swarm::Step::Kind::kCompute: {
      const auto pairs = std::count_if(call.step.ids.begin(), call.step.ids.end(),
                                       [](uint16_t id) { return id != expert::kNoExpert; });
      clock.after(options.local_pair_us * static_cast<TimeUs>(pairs), [this, &call] {
        expert::ExpertRequest part = request_of(call);
        part.ids = call.step.ids.data();
        auto failures = local.compute(part, call.out.data());
        KVASIR_CHECK(failures.has_value());
        dispatcher.computed(*call.call, std::move(*failures), clock.now());
        take_step(call);
      });
    }
  }
}

void VirtualSwarm::pass_on() {
  while (dispatcher.has_news()) {
    for (swarm::WorkerId liar : dispatcher.take_convicted())
      for (auto& worker : workers)
        if (worker->id == liar) {
          convicted.insert(worker->node);
          worker->expel(CloseCode::kIdentity);
        }
    evidence += dispatcher.take_evidence().size();
    for (Outgoing& frame : dispatcher.take_outgoing())
      for (auto& worker : workers)
        if (worker->id == frame.worker) {
          worker->send(std::move(frame));
          break;
        }
  }
  if (!dispatcher.take_wakeup()) return;
  std::vector<VirtualCall*> ready;
  for (VirtualCall* call : waiting_)
    if (swarm::Dispatcher::is_wakeup_due(*call->call)) ready.push_back(call);
  for (VirtualCall* call : ready) {
    std::erase(waiting_, call);
    take_step(*call);
  }
  pass_on();
}

}  // namespace kvasir::testing
