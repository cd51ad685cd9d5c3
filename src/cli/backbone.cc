#include "cli/backbone.h"

#include <chrono>
#include <random>
#include <thread>

#include "base/output_file.h"
#include "cli/interrupt.h"
#include "cli/known_manifest.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/version.h"
#include "crypto/key_file.h"
#include "expert/fingerprint.h"
#include "swarm/status_json.h"

namespace kvasir::cli {
namespace {

using std::chrono::milliseconds;

constexpr auto kWorkersWithin = std::chrono::seconds(120);
// A worker says in several frames what it holds: it is all there when nothing more has come for so
// long.
constexpr auto kCoverageSettles = milliseconds(150);
constexpr auto kLookAgain = milliseconds(10);
constexpr size_t kTokenBytesMax = 4096;

uint64_t random_u64() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

Result<std::string> token_of(const SwarmFlags& flags) {
  if (!flags.token_file) return std::string();
  KVASIR_TRY(std::string token, read_input(*flags.token_file, kTokenBytesMax));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty() || token.size() > wire::kTokenBytesMax)
    return Error::invalid("{}: a token has 1 to {} characters", *flags.token_file,
                          wire::kTokenBytesMax);
  return token;
}

}  // namespace

swarm::DispatchOptions dispatch_options(const SwarmFlags& flags,
                                        const engine::EngineOptions& options) {
  swarm::DispatchOptions dispatch;
  dispatch.mode = flags.dispatch;
  dispatch.encoding = options.encoding;
  dispatch.verify.share = flags.verify_share;
  dispatch.secret = {random_u64(), random_u64()};
  dispatch.seed = random_u64();
  return dispatch;
}

Result<crypto::Identity> identity_of(const SwarmFlags& flags) {
  if (!flags.identity) return crypto::Identity::generate();
  return crypto::load_or_create_identity(*flags.identity);
}

Result<swarm::GateOptions> gate_options(const SwarmFlags& flags, const std::string& model_hash,
                                        const engine::EngineOptions& options) {
  swarm::GateOptions gate;
  gate.fingerprint = fingerprint_of(model_hash, options);
  gate.build = fmt::format("kvasir {}", kVersion);
  KVASIR_TRY(gate.token, token_of(flags));
  gate.evidence_folder = flags.evidence.value_or("");
  return gate;
}

Result<ModelIdentity> identify_model(const model::Model& model, std::optional<uint64_t> threads) {
  const InterruptScope interrupts;
  KVASIR_TRY(const auto known, known_manifest(model, threads, CacheUse::kReadAndWrite));
  if (!known) return Error::io("interrupted while the model was hashed");
  return ModelIdentity{known->manifest.model_hash(), known->manifest.shape().group_size};
}

wire::Fingerprint fingerprint_of(const std::string& model_hash,
                                 const engine::EngineOptions& options) {
  const std::string text = expert::compute_fingerprint(
      {model_hash, kernels::kArithmeticVersion, options.encoding, options.kv_type});
  return wire::parse_hex(text).value();
}

Result<std::unique_ptr<Backbone>> Backbone::open(const SwarmFlags& flags, const model::Model& model,
                                                 const ModelIdentity& model_identity,
                                                 const engine::EngineOptions& options,
                                                 expert::ExpertService& local,
                                                 const kernels::KernelTable& kernels,
                                                 ThreadPool& pool) {
  KVASIR_TRY(crypto::Identity identity, identity_of(flags));
  std::unique_ptr<Backbone> backbone(new Backbone(std::move(identity)));
  const swarm::ModelRoutes routes =
      swarm::make_routes(engine::local_experts(model), model_identity.group_size);
  backbone->dispatcher_ =
      std::make_unique<swarm::SharedDispatcher>(routes, kernels, dispatch_options(flags, options));
  backbone->experts_ = std::make_unique<swarm::SwarmExpertService>(routes, *backbone->dispatcher_,
                                                                   local, kernels, pool);
  KVASIR_TRY(swarm::GateOptions gate, gate_options(flags, model_identity.hash, options));
  KVASIR_TRY(backbone->listener_, swarm::SwarmListener::listen(
                                      flags.listen->host, flags.listen->port, backbone->identity_,
                                      *backbone->dispatcher_, std::move(gate)));
  fmt::print(stderr, "swarm:  workers join with  kvasir worker --connect ws://{}:{}\n",
             flags.listen->host, backbone->port());
  if (flags.wait_workers > 0) KVASIR_TRY_VOID(backbone->wait_for_workers(flags.wait_workers));
  backbone->report_path_ = flags.report.value_or("");
  backbone->experts_->set_tracing(flags.trace.has_value());
  return backbone;
}

swarm::SwarmStatus Backbone::status() {
  return dispatcher_->with(
      [](const swarm::Dispatcher& dispatcher) { return dispatcher.status(swarm::now_us()); });
}

Result<void> Backbone::wait_for_workers(uint64_t count) {
  using Clock = std::chrono::steady_clock;
  const InterruptScope interrupts;
  const Clock::time_point until = Clock::now() + kWorkersWithin;
  uint64_t covered = 0;
  Clock::time_point changed = Clock::now();
  for (;;) {
    const swarm::SwarmStatus now = status();
    const auto ready = static_cast<uint64_t>(
        std::count_if(now.workers.begin(), now.workers.end(),
                      [](const swarm::WorkerStatus& worker) { return worker.experts > 0; }));
    uint64_t sum = 0;
    for (const swarm::WorkerStatus& worker : now.workers) sum += worker.experts;
    if (sum != covered) changed = Clock::now();
    covered = sum;
    if (ready >= count && Clock::now() - changed >= kCoverageSettles) {
      fmt::print(stderr, "swarm:  {} joined\n", counted(ready, "worker"));
      return {};
    }
    if (InterruptScope::requested()) return Error::io("interrupted while waiting for workers");
    if (Clock::now() >= until) {
      return Error::not_found("{} of {} joined within {} s", counted(ready, "worker"), count,
                              kWorkersWithin.count())
          .with_hint("start them first, or leave out --wait-workers");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Backbone::~Backbone() {
  if (report_path_.empty() || dispatcher_ == nullptr) return;
  const std::string json = swarm::status_json(status()) + "\n";
  auto file = OutputFile::create(report_path_);
  const bool written = file && file->write(bytes_of(json)) && file->finish();
  if (!written) fmt::print(stderr, "note:  the report was not written to {}\n", report_path_);
}

std::string step_json(uint64_t step, size_t rows, uint64_t total_us,
                      const std::vector<swarm::CallRecord>& calls) {
  std::string text =
      fmt::format("{{\"step\":{},\"rows\":{},\"total_us\":{},\"calls\":[", step, rows, total_us);
  for (const swarm::CallRecord& call : calls) {
    if (text.back() != '[') text += ',';
    text += swarm::record_json(call);
  }
  return text + "]}\n";
}

}  // namespace kvasir::cli
