// What it costs to have an expert computed elsewhere: one worker, a process of its own on this
// machine, one row, one expert of the shape of Qwen3.5-122B-A10B. Printed is the time of a call
// less what the worker says that computing took: cryptography, sockets, threads that wake each
// other, copies. An idle machine with two cores is meant to stay below 100 us (p50) and 400 us
// (p99).
//
//   build/bench/dispatch_bench [CALLS]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "expert/local_expert_service.h"
#include "expert/test_weights.h"
#include "gguf/manifest.h"
#include "swarm/swarm_expert_service.h"
#include "swarm/swarm_listener.h"
#include "worker/worker_client.h"

namespace {

using namespace kvasir;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kEmbd = 3072, kWidth = 1024, kExperts = 8;

// One layer of random experts, held by the worker and known to the backbone.
class Experts {
 public:
  Experts() {
    using kernels::TensorType;
    expert::Random random(1);
    layer_.n_experts = kExperts;
    std::vector<gguf::ManifestEntry> entries;
    std::vector<ByteSpan> ranges;
    uint64_t bytes = 0;
    const auto add = [&](gguf::ExpertRole role, TensorType type, expert::MatrixView& view,
                         size_t& stride) {
      const bool down = role == gguf::ExpertRole::kDown;
      const uint32_t n_in = down ? kWidth : kEmbd, n_out = down ? kEmbd : kWidth;
      matrices_.push_back(
          std::make_unique<expert::TestMatrix>(random, type, n_in, n_out * kExperts));
      view = matrices_.back()->view();
      view.n_out = n_out;
      stride = n_out * view.row_bytes;
      gguf::ManifestEntry entry;
      entry.name = gguf::expert_tensor_name(0, role);
      entry.type = type;
      entry.n_dims = 3;
      entry.dims = {n_in, n_out, kExperts, 1};
      entry.unit = gguf::ExpertRange{0, kExperts};
      entry.sha256 = std::string(64, '0');
      entry.offset = bytes;
      entry.bytes = kExperts * stride;
      bytes += entry.bytes;
      entries.push_back(entry);
      ranges.emplace_back(view.data, entry.bytes);
    };
    add(gguf::ExpertRole::kGate, TensorType::kQ4_K, layer_.first.gate, layer_.gate_stride);
    add(gguf::ExpertRole::kUp, TensorType::kQ4_K, layer_.first.up, layer_.up_stride);
    add(gguf::ExpertRole::kDown, TensorType::kQ6_K, layer_.first.down, layer_.down_stride);
    const std::string name = "qwen35moe.";
    gguf::sort_entries(entries);
    auto manifest =
        gguf::Manifest::build(std::string(64, 'a'), {{"bench.gguf", bytes}},
                              {{"general.architecture", "qwen35moe"},
                               {"kvasir.expert_group_size", std::to_string(kExperts)},
                               {name + "embedding_length", std::to_string(kEmbd)},
                               {name + "expert_count", std::to_string(kExperts)},
                               {name + "expert_feed_forward_length", std::to_string(kWidth)}},
                              entries);
    KVASIR_CHECK(manifest.has_value() && held_.add(*manifest, {0, 0}, ranges, nullptr).has_value());
  }
  const expert::LayerExperts& layer() const { return layer_; }
  const expert::HeldExperts& held() const { return held_; }

 private:
  std::vector<std::unique_ptr<expert::TestMatrix>> matrices_;
  expert::LayerExperts layer_;
  expert::HeldExperts held_;
};

[[noreturn]] void be_the_worker(const Experts& experts, int port_pipe) {
  uint16_t port = 0;
  if (::read(port_pipe, &port, sizeof port) != sizeof port) std::exit(1);
  ThreadPool pool(1);
  worker::TicketFunction function(**kernels::select_table(), pool, experts.held());
  const crypto::Identity identity = crypto::Identity::generate();
  net::EventLoop loop;
  worker::ClientSetup setup;
  setup.url = *net::parse_url(fmt::format("ws://127.0.0.1:{}/swarm", port));
  setup.session.capabilities = {0b111, 0b111, 256, 64};
  setup.session.fingerprints = {wire::Fingerprint{}};
  setup.session.build = "dispatch_bench";
  setup.redial = worker::Redial::kNever;
  const auto say = [](std::string_view) {};
  worker::WorkerClient client(loop, std::move(setup), identity, experts.held(), function,
                              {say,
                               [](const Error& error) {
                                 if (error.message.find("goodbye") == std::string::npos)
                                   fmt::print(stderr, "worker: {}\n", error.message);
                               },
                               [&](worker::WorkerEnd) { loop.stop(); }});
  loop.post([&] { client.start(); });
  loop.run();
  std::exit(0);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}
void print_quantiles(const char* what, const std::vector<double>& values) {
  std::printf("%-34s p50 %7.1f   p90 %7.1f   p99 %7.1f us\n", what, quantile(values, 0.5),
              quantile(values, 0.9), quantile(values, 0.99));
}

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void run(const Experts& experts, int port_pipe, size_t n_calls) {
  const kernels::KernelTable& kernels = **kernels::select_table();
  ThreadPool pool(1);
  const std::vector<expert::LayerExperts> layers = {experts.layer()};
  expert::LocalExpertService local(layers, kernels, pool);
  const swarm::ModelRoutes routes = swarm::make_routes(layers, kExperts);
  swarm::DispatchOptions options;
  options.mode = swarm::DispatchMode::kAlways;
  options.probation_tickets = 0;
  swarm::SharedDispatcher dispatcher(routes, kernels, options);
  swarm::SwarmExpertService service(routes, dispatcher, local, kernels, pool);
  const crypto::Identity identity = crypto::Identity::generate();
  swarm::GateOptions gate;
  gate.build = "dispatch_bench";
  auto listener = swarm::SwarmListener::listen("127.0.0.1", 0, identity, dispatcher, gate);
  KVASIR_CHECK(listener.has_value());
  const uint16_t port = (*listener)->port();
  KVASIR_CHECK(::write(port_pipe, &port, sizeof port) == sizeof port);
  const auto covered = [&] {
    return dispatcher.with([](const swarm::Dispatcher& d) { return d.coverage().covered(); });
  };
  while (covered() != kExperts) std::this_thread::sleep_for(std::chrono::milliseconds(2));

  expert::Random random(2);
  const std::vector<float> row = expert::random_floats(random, kEmbd);
  std::vector<float> out(kEmbd);
  std::vector<double> walls, here, ways;
  const auto call = [&](size_t i, expert::ExpertService& by, std::vector<double>& into) {
    const auto id = static_cast<uint16_t>(i % kExperts);
    expert::ExpertRequest request;
    request.rows = row.data();
    request.n_rows = 1;
    request.ids = &id;
    request.top_k = 1;
    const auto begin = Clock::now();
    const auto failures = by.compute(request, out.data());
    into.push_back(us_since(begin));
    KVASIR_CHECK(failures.has_value() && failures->empty());
  };
  std::vector<double> warm;
  for (size_t i = 0; i < 200; ++i) call(i, service, warm);
  for (size_t i = 0; i < 200; ++i) call(i, local, here);
  service.set_tracing(true);
  for (size_t i = 0; i < n_calls; ++i) call(i, service, walls);
  size_t elsewhere = 0;
  std::vector<double> computes;
  const std::vector<swarm::CallRecord> records = service.take_records();
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].pairs_remote == 0) continue;
    ++elsewhere;
    computes.push_back(static_cast<double>(records[i].slowest_compute_us));
    ways.push_back(walls[i] - computes.back());
  }
  std::printf("%zu calls, %zu answered by the worker\n", walls.size(), elsewhere);
  print_quantiles("computed in this process", here);
  print_quantiles("computed by the worker, its word", computes);
  print_quantiles("whole call", walls);
  print_quantiles("whole call less computing", ways);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t n_calls = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  const Experts experts;
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t worker = ::fork();
  if (worker == 0) be_the_worker(experts, ends[0]);
  run(experts, ends[1], std::clamp<size_t>(n_calls, 1, 16'000));
  ::waitpid(worker, nullptr, 0);
  return 0;
}
