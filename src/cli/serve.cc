// kvasir serve: the API's server over a scheduler, and a door for workers.
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "cli/backbone.h"
#include "cli/cli.h"
#include "cli/generation.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "engine/scheduler.h"
#include "expert/fingerprint.h"
#include "serve/api_server.h"
#include "serve/scheduler_generator.h"
#include "worker/stop_signals.h"

namespace kvasir::cli {
namespace {

constexpr size_t kKeyFileBytesMax = size_t{1} << 20;
constexpr uint64_t kPrefixBytesDefault = uint64_t{512} << 20;

// What the main thread waits for: a signal, or the first token.
class Waiting {
 public:
  void stop() { set(stopped_); }
  void token() { set(token_); }
  // Whether a token came.
  bool wait_token() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || token_; });
    return token_;
  }
  void wait_stop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_; });
  }

 private:
  void set(bool& what) {
    const std::lock_guard lock(mutex_);
    what = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false, token_ = false;  // guarded by mutex_
};

Result<std::vector<api::ApiKey>> read_keys(const ServeOptions& options) {
  std::vector<api::ApiKey> keys;
  if (options.api_key_file) {
    KVASIR_TRY(const std::string text, read_input(*options.api_key_file, kKeyFileBytesMax));
    auto read = api::parse_key_file(text);
    if (!read) return std::move(read.error()).in(*options.api_key_file);
    keys = std::move(*read);
    // An empty file must not mean an open door.
    if (keys.empty()) return Error::invalid("{}: there is no key in it", *options.api_key_file);
  }
  if (const char* key = std::getenv("KVASIR_API_KEY"); key != nullptr && *key != '\0') {
    KVASIR_TRY(keys.emplace_back(), api::parse_key(key));
  }
  return keys;
}

void print_line(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
}

Result<serve::ServerOptions> server_options(const ServeOptions& options) {
  serve::ServerOptions server;
  server.address = options.listen.host;
  server.port = options.listen.port;
  KVASIR_TRY(std::vector<api::ApiKey> keys, read_keys(options));
  server.keys = api::KeyRing(std::move(keys));
  const bool keys_set = !server.keys.empty();
  KVASIR_TRY_VOID(api::check_listen(options.listen.host, keys_set,
                                    options.no_auth ? api::NoAuth::kSaid : api::NoAuth::kNotSaid));
  KVASIR_TRY(server.cors, api::CorsPolicy::make(options.cors_origins, keys_set));
  const bool is_loopback = api::is_loopback_name(options.listen.host);
  server.bound = is_loopback ? api::Bound::kLoopback : api::Bound::kNetwork;
  if (!options.no_swarm && !is_loopback && !options.no_auth && !options.compute.swarm.token_file) {
    return Error::invalid("anybody in the network of {} could join as a worker",
                          options.listen.host)
        .with_hint("give --token-file, which workers then need, too; or --no-swarm, or --no-auth");
  }
  server.unknown_fields =
      options.strict_api ? api::UnknownFields::kRefused : api::UnknownFields::kIgnored;
  server.limits.body_bytes = api::kRequestBytesMax;
  server.log_format =
      options.log == LogFlag::kJson ? serve::LogFormat::kJson : serve::LogFormat::kText;
  if (options.log != LogFlag::kNone) server.log = print_line;
  server.version = kVersion;
  return server;
}

// "model-00001-of-00003.gguf" is called "model".
std::string name_of_file(const gguf::ModelFile& file) {
  std::string name = std::filesystem::path(file.part_file(0).path()).stem().string();
  const size_t part = name.rfind("-of-");
  const size_t dash = part == std::string::npos ? part : name.rfind('-', part - 1);
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (dash != std::string::npos && dash != 0 && digits(name.substr(part + 4)) &&
      digits(name.substr(dash + 1, part - dash - 1)))
    name.resize(dash);
  return name;
}

// The parts of a swarm in the order in which they refer to each other.
struct Swarm {
  crypto::Identity identity;
  std::unique_ptr<swarm::SharedDispatcher> dispatcher;
  std::unique_ptr<swarm::SwarmExpertService> experts;
  swarm::GateOptions gate;
};

Result<std::unique_ptr<Swarm>> make_swarm(const SwarmFlags& flags, Session& session,
                                          const ModelIdentity& model, engine::Turn& turn) {
  KVASIR_TRY(crypto::Identity identity, identity_of(flags));
  auto made = std::unique_ptr<Swarm>(new Swarm{std::move(identity), nullptr, nullptr, {}});
  KVASIR_TRY(made->gate, gate_options(flags, model.hash, session.options()));
  const swarm::ModelRoutes routes =
      swarm::make_routes(engine::local_experts(session.model()), model.group_size);
  made->dispatcher = std::make_unique<swarm::SharedDispatcher>(
      routes, session.kernels(), dispatch_options(flags, session.options()));
  made->experts = std::make_unique<swarm::SwarmExpertService>(
      routes, *made->dispatcher, session.local_experts(), session.kernels(), session.pool(),
      swarm::TurnHooks{[&turn] { turn.give(); }, [&turn] { turn.take(); }});
  return made;
}

uint64_t prefix_bytes(const ServeOptions& options) {
  return options.prefix_cache_bytes.value_or(
      std::min(kPrefixBytesDefault, engine::available_memory() / 8));
}

Result<engine::SchedulerOptions> scheduler_options(const ServeOptions& options, Session& session,
                                                   const text::Tokenizer& tokenizer, size_t lanes,
                                                   uint64_t prefix) {
  engine::SchedulerOptions scheduler;
  scheduler.admission.context_max = session.context();
  scheduler.admission.running_max = std::max<uint64_t>(options.sequences_max, lanes);
  scheduler.admission.queue_max = options.queue_max;
  scheduler.admission.queue_per_user_max = options.queue_max;
  scheduler.prefix.bytes_max = prefix;
  scheduler.never = never_sampled(tokenizer, session.n_vocab());
  const uint64_t available = engine::available_memory();
  const uint64_t experts = session.memory().experts;
  KVASIR_TRY(scheduler.admission.memory_bytes,
             engine::sequence_memory(session.model(), session.options(), lanes, scheduler,
                                     available > experts ? available - experts : 0));
  return scheduler;
}

Result<std::shared_ptr<serve::ServedModel>> served_model(const ServeOptions& options,
                                                         Session& session,
                                                         text::Tokenizer tokenizer,
                                                         const ModelIdentity& identity) {
  const gguf::ModelFile& file = *session.model().file;
  auto model = std::make_shared<serve::ServedModel>();
  model->names = options.names;
  if (model->names.empty()) model->names.push_back(name_of_file(file));
  model->created_s = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  model->context = session.context();
  model->n_vocab = session.n_vocab();
  model->slots = options.sequences_max;
  KVASIR_TRY(model->sampling, sampler_options(SamplingFlags(), file.metadata(), session.n_vocab()));
  model->vocabulary = std::make_shared<serve::SortedVocabulary>(
      tokenizer, session.n_vocab(), never_sampled(tokenizer, session.n_vocab()));
  model->prompts = std::make_shared<serve::PromptMaker>(
      serve::PromptMaker::make(std::move(tokenizer), file.metadata()));
  const engine::EngineOptions& computes = session.options();
  const std::string compute = expert::compute_fingerprint(
      {identity.hash, kernels::kArithmeticVersion, computes.encoding, computes.kv_type});
  model->fingerprint = serve::serving_fingerprint({compute, model->prompts->template_text()},
                                                  model->prompts->tokenizer(), model->sampling);
  if (!model->prompts->reason().empty())
    fmt::print(stderr, "note:  no conversations with this model: {}\n",
               on_one_line(model->prompts->reason()));
  return model;
}

// A server is ready when a token has come out of the model. False if it was stopped before.
Result<bool> produce_a_token(serve::Generator& generator, const text::Tokenizer& tokenizer,
                             Waiting& waiting) {
  serve::GenerationOrder order;
  order.user = "start";
  order.prompt = tokenizer.encode("Once", text::SpecialTokens::kPlainText);
  if (order.prompt.empty()) order.prompt = {0};
  order.tokens_max = 1;
  auto failed = std::make_shared<std::optional<Error>>();
  auto submitted = generator.submit(std::move(order), [&waiting, failed](serve::GenerationEvent e) {
    const auto* end = std::get_if<serve::GenerationEnded>(&e);
    if (end == nullptr) return;
    *failed = end->error;
    waiting.token();
  });
  if (!submitted) return std::move(submitted.error().error);
  if (!waiting.wait_token()) return false;
  if (*failed) return std::move(**failed);
  return true;
}

void print_addresses(const ServeOptions& options, uint16_t port, bool has_swarm) {
  const bool is_ipv6 = options.listen.host.find(':') != std::string::npos;
  const std::string address =
      (is_ipv6 ? "[" + options.listen.host + "]" : options.listen.host) + fmt::format(":{}", port);
  const std::string token = options.compute.swarm.token_file
                                ? fmt::format(" --token-file {}", *options.compute.swarm.token_file)
                                : "";
  const std::string join =
      has_swarm ? fmt::format("kvasir worker --connect ws://{}{}", address, token) : "";
  if (options.log == LogFlag::kJson) {
    fmt::print(stderr,
               "{{\"event\":\"ready\",\"api\":\"http://{}/v1\",\"join\":{},\"metrics\":"
               "\"http://{}/metrics\"}}\n",
               address, join.empty() ? std::string("null") : cli::quoted(join), address);
    return;
  }
  fmt::print(stderr, "api:     http://{}/v1\nworkers: {}\nmetrics: http://{}/metrics\n", address,
             has_swarm ? join : "none (--no-swarm)", address);
}

// While the generator lives.
struct CloseAtEnd {
  serve::ApiServer& server;
  ~CloseAtEnd() { server.close(); }
};

}  // namespace

Result<int> serve(const ServeOptions& options) {
  worker::StopSignals signals;
  KVASIR_TRY(serve::ServerOptions server_flags, server_options(options));
  // What is wrong with the model is said before anything else is done.
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(auto tokenizer, text::Tokenizer::load(file->metadata()));
  KVASIR_TRY(auto hp, model::read_hyper_parameters(file->metadata()));
  const uint64_t context = options.compute.context.value_or(default_context(hp));
  // Two lanes halve the batches, which costs much (170 against 133 tokens/s of 16 users) where
  // nobody is waited for.
  const bool waits_for_workers =
      !options.no_swarm && options.compute.swarm.dispatch == swarm::DispatchMode::kAlways;
  const size_t lanes = options.lanes.value_or(waits_for_workers ? 2 : 1);
  const uint64_t prefix = prefix_bytes(options);

  KVASIR_TRY(auto server, serve::ApiServer::listen(std::move(server_flags)));
  KVASIR_TRY(auto session, Session::open_parts(file, options.compute, context, prefix));
  KVASIR_TRY(const ModelIdentity identity,
             identify_model(session->model(), options.compute.threads));
  engine::Turn turn;
  std::unique_ptr<Swarm> swarm;
  if (!options.no_swarm) {
    KVASIR_TRY(swarm, make_swarm(options.compute.swarm, *session, identity, turn));
  }
  KVASIR_TRY(auto scheduling, scheduler_options(options, *session, tokenizer, lanes, prefix));
  expert::ExpertService& experts =
      swarm ? static_cast<expert::ExpertService&>(*swarm->experts) : session->local_experts();
  std::vector<std::unique_ptr<engine::Engine>> engines;
  std::vector<engine::Engine*> engine_of_lane;
  for (size_t lane = 0; lane < lanes; ++lane) {
    engines.push_back(std::make_unique<engine::Engine>(
        session->model(), session->kernels(), session->pool(), experts, session->options()));
    engine_of_lane.push_back(engines.back().get());
  }
  KVASIR_TRY(auto model, served_model(options, *session, std::move(tokenizer), identity));
  Waiting waiting;  // the last events of the scheduler still come to it
  engine::Scheduler scheduler(engine_of_lane, turn, std::move(scheduling));
  serve::SchedulerGenerator generator(scheduler, model->prompts->tokenizer());
  model->generator = &generator;

  signals.on_stop([&waiting] { waiting.stop(); });
  const CloseAtEnd close{*server};
  if (swarm) server->open_swarm(swarm->identity, *swarm->dispatcher, swarm->gate);
  server->serve(model);
  KVASIR_TRY(const bool began, produce_a_token(generator, model->prompts->tokenizer(), waiting));
  if (began) {
    server->set_ready();
    print_addresses(options, server->port(), swarm != nullptr);
    waiting.wait_stop();
  }
  fmt::print(stderr, "draining: no new requests; those under way have {} s\n",
             options.drain_seconds);
  server->drain();
  if (!server->wait_idle(options.drain_seconds * 1000))
    fmt::print(stderr, "note:  some requests had to be cut off\n");
  server->close();
  signals.on_stop(nullptr);
  return kSuccess;
}

}  // namespace kvasir::cli
