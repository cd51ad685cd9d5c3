// What the user asked for, as plain data: filled by flags.cc, read by the verbs. Knows nothing of
// the command-line library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/parsing.h"
#include "expert/encoding.h"
#include "kernels/kernels.h"
#include "model/synthesis.h"
#include "swarm/dispatcher.h"

namespace kvasir::cli {

struct ModelFlags {
  std::string path;  // empty: $KVASIR_MODEL, else the bundled model
};

// Where routed experts are: kAuto decides between the other two.
struct ExpertRam {
  enum class Kind : uint8_t { kAuto, kMapped, kStore };
  Kind kind = Kind::kAuto;
  uint64_t bytes = 0;  // of a store
};

// Workers that may join while the program runs.
struct SwarmFlags {
  std::optional<HostAndPort> listen;  // none: this machine computes alone
  swarm::DispatchMode dispatch = swarm::DispatchMode::kAuto;
  double verify_share = 0.02;
  uint64_t wait_workers = 0;          // before anything is computed
  std::optional<std::string> report;  // file for the swarm's status at the end
  std::optional<std::string> trace;   // file for a line per step
  std::optional<std::string> token_file;
  std::optional<std::string> identity;  // key file; none: a new key for this run
  std::optional<std::string> evidence;  // folder
};

struct ComputeFlags {
  std::optional<uint64_t> threads;  // default: the processors this process may use
  std::optional<uint64_t> context;  // default: the verb's
  uint64_t chunk = 128;             // prompt rows per call
  kernels::KvType kv_type = kernels::KvType::kF16;
  expert::OutputEncoding encoding = expert::OutputEncoding::kF32;
  ExpertRam expert_ram;
  SwarmFlags swarm;
  bool stats = false;
};

struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::string> file;  // "-": standard input, as without either
  bool escapes = false;             // \n, \t and \\ in `text` are characters
  bool parse_special = true;
  bool normalize = true;
};

// Unset values take the model's own defaults.
struct SamplingFlags {
  std::optional<float> temperature;
  std::optional<uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<uint32_t> penalty_window;
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
};

enum class LogitsHash : uint8_t { kNone, kSampled, kAll };

struct GenerateOptions {
  ModelFlags model;
  ComputeFlags compute;
  PromptFlags prompt;
  SamplingFlags sampling;
  std::optional<uint64_t> tokens;
  std::vector<std::string> stops;
  LogitsHash hash = LogitsHash::kNone;
  std::optional<uint64_t> pace;  // tokens per second at most
  bool echo = false;
};

enum class LogFlag : uint8_t { kText, kJson, kNone };

struct ServeOptions {
  ModelFlags model;
  ComputeFlags compute;  // swarm.listen: no matter, workers come in by the API's port
  HostAndPort listen = {"127.0.0.1", 8080};
  std::vector<std::string> names;  // empty: the file's
  std::optional<std::string> api_key_file;
  bool no_auth = false;
  std::vector<std::string> cors_origins;
  bool strict_api = false;
  uint64_t sequences_max = 16;
  uint64_t queue_max = 256;
  std::optional<uint64_t> prefix_cache_bytes;  // default: an eighth of the memory, at most 512 MiB
  std::optional<uint64_t> lanes;               // default: 2 with --dispatch always, else 1
  bool no_swarm = false;
  uint64_t drain_seconds = 30;
  LogFlag log = LogFlag::kText;
};

enum class ThinkingFlag : uint8_t { kAuto, kOn, kOff };

struct ChatOptions {
  ModelFlags model;
  ComputeFlags compute;
  SamplingFlags sampling;
  std::optional<uint64_t> tokens;
  std::vector<std::string> stops;
  std::string system;
  ThinkingFlag thinking = ThinkingFlag::kAuto;
};

struct PerplexityOptions {
  ModelFlags model;
  ComputeFlags compute;
  PromptFlags prompt;
  bool json = false;
};

struct TokenizeOptions {
  ModelFlags model;
  PromptFlags prompt;
  bool json = false;
};

struct LogitsOptions {
  ModelFlags model;
  ComputeFlags compute;
  std::string ids;     // file; "-": standard input
  std::string output;  // file; "-": standard output
};

struct InspectOptions {
  std::string path;
  bool json = false;
};

struct ManifestOptions {
  std::string path;
  std::string output = "-";
  std::optional<std::string> check;  // a manifest to hold `path`, a model or a slice, against
  std::optional<uint64_t> threads;   // default: the processors this process may use
  bool no_cache = false;
};

struct SliceOptions {
  std::string path;
  std::vector<uint32_t> layers;         // empty: all that have experts
  std::optional<NumberRange> experts;   // default: all
  std::optional<std::string> manifest;  // default: what is remembered, or hashed now
  std::optional<uint64_t> threads;
  bool no_cache = false;
  std::string output;
};

struct SynthOptions {
  std::string like;  // a published model's name; empty: a small random model
  model::Architecture architecture = model::Architecture::kQwen35Moe;
  std::optional<std::string> type;  // a tensor type, or "q4_k_m"
  std::optional<uint64_t> layers;
  std::optional<uint64_t> experts;
  std::optional<uint64_t> experts_used;
  std::optional<uint64_t> embedding;
  std::optional<uint64_t> expert_width;
  std::optional<uint64_t> vocabulary;
  std::optional<uint64_t> context;
  uint64_t seed = 1;
  bool fused_gate_up = false;
  bool fused_qkv = false;
  bool tied_output = false;
  bool skeleton = false;
  std::string output;
};

struct StatusOptions {
  std::string connect;
  bool json = false;
};

struct WhyOptions {
  std::string trace;
  std::optional<uint64_t> step;  // default: the slowest
};

// How models are fetched from elsewhere.
struct WebFlags {
  std::optional<std::string> hub;  // default: $KVASIR_HUB, else the public one
  std::optional<std::string> token_file;
  bool allow_private = false;
  bool offline = false;
};

struct PullOptions {
  std::string reference;
  WebFlags web;
  std::optional<uint64_t> rate;  // bytes a second
  uint64_t connections = 4;
  bool restart = false;
  bool dry_run = false;
};

struct LsOptions {
  bool json = false;
};

struct ShowOptions {
  std::string reference;
  WebFlags web;
  bool json = false;
};

struct RmOptions {
  std::string reference;
  bool dry_run = false;
};

struct BenchOptions {
  ModelFlags model;
  std::vector<uint64_t> threads;  // empty: the processors this process may use
  std::vector<uint64_t> decode = {1, 4, 32};
  std::vector<uint64_t> prefill = {512};
  uint64_t steps = 8;
  uint64_t depth = 0;
  uint64_t repetitions = 3;
  uint64_t chunk = 512;
  kernels::KvType kv_type = kernels::KvType::kF16;
  uint64_t seed = 0;
  bool json = false;
};

struct ChaosOptions {
  ModelFlags model;
  std::string prompt = "The Golden Bird\n\n";
  uint64_t workers = 8;
  uint64_t tokens = 400;
  uint64_t seed = 0;
  uint64_t replicas = 2;
  uint64_t pace = 20;                              // tokens per second
  std::optional<float> kill, stall, cut, garbage;  // per 100 tokens
  std::optional<float> corrupt, lie;               // shares
  bool reorder = false;
  std::string verify = "sampled";  // as --verify takes it
  expert::OutputEncoding encoding = expert::OutputEncoding::kF32;
  std::optional<float> share_min;
  std::optional<uint64_t> faults_min;
  bool json = false;
};

}  // namespace kvasir::cli
