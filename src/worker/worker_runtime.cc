#include "worker/worker_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/fp_environment.h"
#include "base/mapped_file.h"
#include "crypto/key_file.h"
#include "expert/fingerprint.h"
#include "kernels/kernels.h"
#include "worker/known_answer.h"
#include "worker/stop_signals.h"
#include "worker/worker_client.h"

namespace kvasir::worker {
namespace {

constexpr uint8_t kAllFormats = 0b111, kAllEncodings = 0b111;

void print_note(std::string_view line) {
  fmt::print(stderr, "note:  {}\n", line);
}

void print_trouble(const Error& problem) {
  fmt::print(stderr, "error: {}\n", problem.message);
  if (!problem.hint.empty()) fmt::print(stderr, "hint:  {}\n", problem.hint);
}

Result<crypto::Identity> identity_of(const WorkerOptions& options) {
  if (options.ephemeral) return crypto::Identity::generate();
  std::string path;
  if (options.identity) {
    path = *options.identity;
  } else {
    KVASIR_TRY(path, default_identity_path());
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error) return Error::io("{}: cannot make its folder: {}", path, error.message());
  }
  return crypto::load_or_create_identity(path);
}

// Encoding and KV type are the backbone's choice; a worker computes for all of them.
std::vector<wire::Fingerprint> fingerprints_of(const std::string& model_hash) {
  std::vector<wire::Fingerprint> all;
  for (auto encoding :
       {expert::OutputEncoding::kF32, expert::OutputEncoding::kF16, expert::OutputEncoding::kQ8}) {
    for (auto kv_type : {kernels::KvType::kF16, kernels::KvType::kF32}) {
      expert::ComputeRules rules;
      rules.model_hash = model_hash;
      rules.encoding = encoding;
      rules.kv_type = kv_type;
      all.push_back(wire::parse_hex(expert::compute_fingerprint(rules)).value());
    }
  }
  KVASIR_CHECK(all.size() <= wire::kFingerprintsMax);
  return all;
}

Result<std::string> token_of(const WorkerOptions& options) {
  if (!options.token_file) return std::string();
  KVASIR_TRY(const MappedFile file, MappedFile::open(*options.token_file));
  std::string token(text_of(file.bytes()));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  if (token.size() > wire::kTokenBytesMax || !printable)
    return Error::invalid("{}: a token has at most {} printable ASCII characters",
                          *options.token_file, wire::kTokenBytesMax);
  return token;
}

wire::ClientConfig session_of(const WorkerOptions& options, const expert::HeldExperts& held,
                              std::string token) {
  wire::ClientConfig session;
  session.server_key = options.server_key;
  session.fingerprints = fingerprints_of(held.model_hash());
  session.build = "kvasir " KVASIR_VERSION;
  session.token = std::move(token);
  const uint64_t memory_mib = options.units.memory_bytes.value_or(held.bytes()) >> 20;
  session.capabilities = {kAllFormats, kAllEncodings, wire::kRowsMax,
                          static_cast<uint32_t>(std::min<uint64_t>(memory_mib, UINT32_MAX))};
  return session;
}

Result<Mischief> mischief_of(const WorkerOptions& options) {
  const char* text = std::getenv(kMischiefVariable);
  if (text == nullptr || *text == '\0') return options.mischief;
  KVASIR_TRY(const Mischief mischief, parse_mischief(text));
  print_note(fmt::format("{} is set: this worker misbehaves on purpose", kMischiefVariable));
  return mischief;
}

int exit_code(WorkerEnd end) {
  switch (end) {
    case WorkerEnd::kDrained:
      return kExitDrained;
    case WorkerEnd::kUnreachable:
      return kExitUnreachable;
    case WorkerEnd::kLost:
      return kExitFailed;
    case WorkerEnd::kRefused:
      break;
  }
  return kExitRefused;
}

std::string stats_text(const CoreStats& stats) {
  uint64_t busy = 0, failed = 0;
  for (uint64_t count : stats.busy) busy += count;
  for (uint64_t count : stats.failed) failed += count;
  return fmt::format(
      "{} tickets: {} answered ({} pairs in {:.3f} s), {} busy, {} failed, {} "
      "cancelled",
      stats.tickets, stats.results, stats.pairs, static_cast<double>(stats.compute_us) / 1e6, busy,
      failed, stats.cancelled);
}

}  // namespace

Result<std::string> default_identity_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fmt::format("{}/kvasir/worker.key", state);
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    return Error::invalid("no folder for the worker's key: neither XDG_STATE_HOME nor HOME is set")
        .with_hint("name a file with --identity, or use --ephemeral");
  return fmt::format("{}/.local/state/kvasir/worker.key", home);
}

Result<int> run_worker(const WorkerOptions& options) {
  StopSignals signals;
  set_canonical_fp_environment();
  KVASIR_TRY(const kernels::KernelTable* kernels, kernels::select_table());
  ThreadPool pool(options.threads ? static_cast<size_t>(*options.threads) : default_thread_count());
  if (!options.self_test && options.url.host.empty())
    return Error::invalid("--connect is needed: a worker has to know whom it works for")
        .with_hint("such as --connect ws://10.0.0.5:8080");
  KVASIR_TRY_VOID(check_known_answers(*kernels, pool));
  if (options.self_test) {
    fmt::print("known-answer test: passed by {}\n", kernels->name);
    return kExitDrained;
  }
  KVASIR_TRY(const LoadedUnits loaded, load_units(options.units));
  for (const std::string& note : loaded.notes) print_note(note);
  KVASIR_TRY(std::string token, token_of(options));
  KVASIR_TRY(const crypto::Identity identity, identity_of(options));
  print_note(fmt::format("worker {}: {} experts of model {}, {:.1f} MiB; {}, {} thread{}",
                         wire::hex(identity.public_key()).substr(0, 16), loaded.held.expert_count(),
                         loaded.held.model_hash().substr(0, 16),
                         static_cast<double>(loaded.held.bytes()) / (1 << 20), kernels->name,
                         pool.threads(), pool.threads() == 1 ? "" : "s"));

  TicketFunction function(*kernels, pool, loaded.held);
  net::EventLoop loop;
  int code = kExitFailed;
  ClientSetup setup;
  setup.url = options.url;
  setup.session = session_of(options, loaded.held, std::move(token));
  setup.redial = options.once ? Redial::kNever : Redial::kAlways;
  KVASIR_TRY(setup.mischief, mischief_of(options));
  setup.seed = std::random_device{}();
  WorkerClient client(loop, std::move(setup), identity, loaded.held, function,
                      {print_note, print_trouble, [&](WorkerEnd end) {
                         if (end == WorkerEnd::kDrained) print_note("drained");
                         code = exit_code(end);
                         loop.stop();
                       }});
  signals.on_stop([&] { loop.post([&] { client.drain(); }); });
  loop.post([&] { client.start(); });
  loop.run();
  signals.on_stop(nullptr);
  print_note(stats_text(client.stats()));
  return code;
}

}  // namespace kvasir::worker
