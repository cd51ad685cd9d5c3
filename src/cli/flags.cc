#include "cli/flags.h"

#include <limits>

#include "cli/parsing.h"
#include "cli/web.h"
#include "gguf/units.h"
#include "model/hyper_parameters.h"

namespace kvasir::cli {
namespace {

// More threads than any machine has; the pool would start them.
constexpr uint64_t kThreadsMax = 1024;
// Batches to decode, as many as `kvasir bench` is made for, and entries of a list.
constexpr uint64_t kBatchMax = 64;
constexpr size_t kListMax = 64;
// Scratch memory grows with the chunk; a larger one gains nothing.
constexpr uint64_t kChunkMax = 4096;
// Sequences of a server; each has a row of logits in every lane.
constexpr uint64_t kSequencesMax = 1024;
constexpr uint64_t kQueueMax = 65'536;
// Each lane has work space of its own; more than a few have nothing to fill.
constexpr uint64_t kLanesMax = 8;
constexpr uint64_t kTokensMax = model::kContextMax;
constexpr uint64_t kU32Max = std::numeric_limits<uint32_t>::max();

// The library parses no values itself: it takes "-1" for an unsigned number, and NaN for a number.
template <typename Parse>
CLI::Option* add_parsed(CLI::App& verb, const std::string& names, const char* type,
                        const std::string& description, Parse parse) {
  return verb
      .add_option_function<std::string>(
          names,
          [names, parse](const std::string& text) {
            Result<void> result = parse(text);
            if (!result) throw CLI::ValidationError(names, result.error().message);
          },
          description)
      ->type_name(type);
}

template <typename Target>
void add_number(CLI::App& verb, const std::string& names, Target& target, uint64_t min,
                uint64_t max, const std::string& description) {
  add_parsed(verb, names, "N", description,
             [&target, min, max](const std::string& text) -> Result<void> {
               KVASIR_TRY(uint64_t value, parse_whole(text, min, max));
               target = value;
               return {};
             });
}

enum class ListFlag : uint8_t { kNotEmpty, kMayBeNone };

// "1,4,32", or "none" where that is allowed.
void add_list(CLI::App& verb, const std::string& names, ListFlag kind,
              std::vector<uint64_t>& target, uint64_t min, uint64_t max,
              const std::string& description) {
  add_parsed(verb, names, "N,...", description,
             [&target, kind, min, max](const std::string& text) -> Result<void> {
               KVASIR_TRY(target, parse_list(text, min, max, kListMax));
               if (target.empty() && kind == ListFlag::kNotEmpty)
                 return Error::invalid("at least one number is needed");
               return {};
             });
}

void add_real(CLI::App& verb, const std::string& names, std::optional<float>& target, float min,
              float max, const std::string& description) {
  add_parsed(verb, names, "X", description,
             [&target, min, max](const std::string& text) -> Result<void> {
               KVASIR_TRY(target, parse_real(text, min, max));
               return {};
             });
}

template <typename Enum>
CLI::Option* add_choice(CLI::App& verb, const std::string& name, Enum& target,
                        std::vector<std::pair<std::string, Enum>> choices,
                        const std::string& description) {
  std::string names;
  for (const auto& [choice, value] : choices) names += (names.empty() ? "" : "|") + choice;
  return add_parsed(verb, name, names.c_str(), description,
                    [&target, choices, names](const std::string& text) -> Result<void> {
                      for (const auto& [choice, value] : choices) {
                        if (choice != text) continue;
                        target = value;
                        return {};
                      }
                      return Error::invalid("'{}' is none of {}", text, names);
                    });
}

CLI::Option* add_text(CLI::App& verb, const std::string& names, std::optional<std::string>& target,
                      const char* type, const std::string& description) {
  return add_parsed(verb, names, type, description,
                    [&target](const std::string& text) -> Result<void> {
                      target = text;
                      return {};
                    });
}

template <typename Target>
CLI::Option* add_path(CLI::App& verb, const std::string& names, Target& target,
                      const std::string& description) {
  return add_parsed(verb, names, "FILE", description,
                    [&target](const std::string& text) -> Result<void> {
                      if (text.empty()) return Error::invalid("the file name is empty");
                      target = text;
                      return {};
                    });
}

// Repeatable.
void add_texts(CLI::App& verb, const std::string& name, std::vector<std::string>& target,
               const char* type, const std::string& description) {
  verb.add_option_function<std::vector<std::string>>(
          name,
          [name, &target](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              if (text.empty()) throw CLI::ValidationError(name, "the text is empty");
            target = texts;
          },
          description)
      ->type_name(type)
      ->allow_extra_args(false);
}

void add_stops(CLI::App& verb, std::vector<std::string>& stops) {
  verb.add_option_function<std::vector<std::string>>(
          "--stop",
          [&stops](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              if (text.empty()) throw CLI::ValidationError("--stop", "the text is empty");
            stops = texts;
          },
          "Stop before this text (repeatable)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

void add_tokens(CLI::App& verb, std::optional<uint64_t>& tokens, const std::string& description) {
  add_number(verb, "-n,--tokens", tokens, 0, kTokensMax, description);
}

void add_input_flags(CLI::App& verb, PromptFlags& flags) {
  add_text(verb, "-p,--prompt", flags.text, "TEXT", "The text itself");
  verb.add_flag("-e,--escapes", flags.escapes, "\\n, \\t and \\\\ in -p are characters");
  verb.add_flag_callback(
      "--no-special", [&flags] { flags.parse_special = false; },
      "Text that spells a control token stays text");
  verb.add_flag_callback(
      "--no-nfc", [&flags] { flags.normalize = false; }, "Do not normalise the text (NFC)");
}

void add_model_flags(CLI::App& verb, ModelFlags& flags) {
  add_path(verb, "-m,--model", flags.path,
           "GGUF file, any part of a split one (default: $KVASIR_MODEL, else the bundled model)");
}

constexpr const char* kTrainedContext = "what the model was trained on, at most 4096";

void add_kv_type(CLI::App& verb, kernels::KvType& target) {
  add_choice<kernels::KvType>(verb, "--kv-type", target,
                              {{"f16", kernels::KvType::kF16}, {"f32", kernels::KvType::kF32}},
                              "How keys and values are kept (default: f16)");
}

void add_swarm_listen_flag(CLI::App& verb, SwarmFlags& flags) {
  add_parsed(verb, "--swarm-listen", "[HOST:]PORT",
             "Let workers join at ws://HOST:PORT/swarm (host default: 127.0.0.1; port 0: any free "
             "one) and compute experts",
             [&flags](const std::string& text) -> Result<void> {
               KVASIR_TRY(flags.listen, parse_address(text));
               return {};
             });
}

// How to work with workers.
void add_swarm_policy_flags(CLI::App& verb, SwarmFlags& flags) {
  add_choice<swarm::DispatchMode>(
      verb, "--dispatch", flags.dispatch,
      {{"auto", swarm::DispatchMode::kAuto}, {"always", swarm::DispatchMode::kAlways}},
      "Ship experts where that is faster, or always when a worker holds them (default: auto)");
  add_parsed(verb, "--verify", "none|sampled[=SHARE]|all",
             "How many of the workers' answers are computed here, too (default: sampled=0.02)",
             [&flags](const std::string& text) -> Result<void> {
               KVASIR_TRY(flags.verify_share, parse_verify(text));
               return {};
             });
  add_path(verb, "--token-file", flags.token_file, "Workers must show the token in this file");
  add_path(verb, "--identity", flags.identity,
           "File with this backbone's key, made if it is not there (default: a new key each time)");
  add_path(verb, "--evidence", flags.evidence,
           "Folder for the evidence against workers that answered wrongly (default: not kept)");
}

CLI::Option* add_encoding(CLI::App& verb, const std::string& name, expert::OutputEncoding& target) {
  return add_choice<expert::OutputEncoding>(verb, name, target,
                                            {{"f32", expert::OutputEncoding::kF32},
                                             {"f16", expert::OutputEncoding::kF16},
                                             {"q8", expert::OutputEncoding::kQ8}},
                                            "How outputs of experts travel (default: f32)");
}

void add_swarm_flags(CLI::App& verb, SwarmFlags& flags) {
  add_swarm_listen_flag(verb, flags);
  add_swarm_policy_flags(verb, flags);
  add_number(verb, "--wait-workers", flags.wait_workers, 1, 4096,
             "Begin when so many workers have joined (default: at once)");
  add_path(verb, "--swarm-report", flags.report,
           "Write the swarm's status at the end to this file, as JSON");
  add_path(verb, "--trace", flags.trace,
           "Write where the time of every step went to this file; kvasir why reads it");
}

void add_engine_flags(CLI::App& verb, ComputeFlags& flags, const std::string& default_context) {
  add_number(verb, "--threads", flags.threads, 1, kThreadsMax, "Threads (default: all processors)");
  add_number(verb, "--ctx", flags.context, 1, model::kContextMax,
             "Context in tokens (default: " + default_context + ")");
  add_number(verb, "--chunk", flags.chunk, 1, kChunkMax, "Prompt tokens per step (default: 128)");
  add_kv_type(verb, flags.kv_type);
  add_encoding(verb, "--output-encoding", flags.encoding);
  add_parsed(verb, "--expert-ram", "auto|mapped|SIZE",
             "Memory for routed experts, such as 4G; they are read when they are needed (default: "
             "auto, what is left if the model does not fit; mapped: through the page cache)",
             [&flags](const std::string& text) -> Result<void> {
               if (text == "auto" || text == "mapped") {
                 flags.expert_ram.kind =
                     text == "auto" ? ExpertRam::Kind::kAuto : ExpertRam::Kind::kMapped;
                 return {};
               }
               Result<uint64_t> bytes = parse_bytes(text);
               if (!bytes) return Error::invalid("{}, nor auto or mapped", bytes.error().message);
               flags.expert_ram = {ExpertRam::Kind::kStore, *bytes};
               return {};
             });
}

void add_compute_flags(CLI::App& verb, ComputeFlags& flags, const std::string& default_context) {
  add_engine_flags(verb, flags, default_context);
  verb.add_flag("--stats", flags.stats, "Print speed, memory and kernels on standard error");
  add_swarm_flags(verb, flags.swarm);
}

void add_prompt_flags(CLI::App& verb, PromptFlags& flags) {
  add_input_flags(verb, flags);
  add_path(verb, "-f,--file", flags.file, "A file with the text (default: standard input)")
      ->excludes(verb.get_option("--prompt"));
}

void add_sampling_flags(CLI::App& verb, SamplingFlags& flags) {
  add_parsed(verb, "--seed", "N|random", "Equal seeds give equal text (default: 0)",
             [&flags](const std::string& text) -> Result<void> {
               KVASIR_TRY(flags.seed, parse_seed(text));
               return {};
             });
  add_real(verb, "--temperature", flags.temperature, 0, 100,
           "0 takes the likeliest token (default: 0.8)");
  add_number(verb, "--top-k", flags.top_k, 0, kU32Max,
             "Only the K likeliest; 0: off (default: 40)");
  add_real(verb, "--top-p", flags.top_p, 0, 1,
           "Only the likeliest that reach this probability; 1: off (default: 0.95)");
  add_real(verb, "--min-p", flags.min_p, 0, 1,
           "Only those at least this likely compared with the likeliest (default: 0)");
  add_real(verb, "--repetition-penalty", flags.repetition_penalty, 0.01F, 100,
           "1: off (default: 1; bundled model: 1.1)");
  add_real(verb, "--presence-penalty", flags.presence_penalty, -100, 100, "0: off (default: 0)");
  add_real(verb, "--frequency-penalty", flags.frequency_penalty, -100, 100, "0: off (default: 0)");
  add_number(verb, "--penalty-window", flags.penalty_window, 0, kU32Max,
             "Tokens that penalties look back on; 0: all (default: 64)");
  verb.add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&flags](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              auto bias = parse_logit_bias(text);
              if (!bias) throw CLI::ValidationError("--logit-bias", bias.error().message);
              flags.logit_bias.push_back(*bias);
            }
          },
          "Make a token likelier or rarer (repeatable)")
      ->type_name("ID:BIAS")
      ->allow_extra_args(false);
}

void add_reference(CLI::App& verb, std::string& target, const std::string& description) {
  add_parsed(verb, "MODEL", "REF", description, [&target](const std::string& text) -> Result<void> {
    if (text.empty()) return Error::invalid("the name of the model is empty");
    target = text;
    return {};
  })->required();
}

void add_web_flags(CLI::App& verb, WebFlags& flags) {
  add_text(verb, "--hub", flags.hub, "URL",
           "Where hf: models come from (default: $KVASIR_HUB, else https://huggingface.co)");
  add_path(verb, "--token-file", flags.token_file,
           "The token in this file, for models that are not public (default: $KVASIR_HUB_TOKEN)");
  verb.add_flag("--allow-private", flags.allow_private,
                "Also http://, and addresses of this machine and its network");
  verb.add_flag("--offline", flags.offline, "Use only what is here, touch no network");
}

}  // namespace

void add_generate_flags(CLI::App& verb, GenerateOptions& options) {
  add_model_flags(verb, options.model);
  add_prompt_flags(verb, options.prompt);
  add_tokens(verb, options.tokens,
             "Generate at most so many tokens (default: 256, or what is left of the context)");
  add_stops(verb, options.stops);
  verb.add_flag("--echo", options.echo, "Print the prompt too");
  add_number(verb, "--pace", options.pace, 1, 10'000,
             "Generate at most so many tokens a second (default: as fast as possible)");
  // A flag with a value, not an option: a bare --logits-hash must not swallow what follows.
  verb.add_flag("--logits-hash{sampled}")
      ->description("Print the SHA-256 of all logits sampled from; =all: of the prompt's too")
      ->each([&options](const std::string& rows) {
        if (rows == "all")
          options.hash = LogitsHash::kAll;
        else if (rows == "sampled")
          options.hash = LogitsHash::kSampled;
        else
          throw CLI::ValidationError("--logits-hash", "'" + rows + "' is none of sampled|all");
      });
  add_sampling_flags(verb, options.sampling);
  add_compute_flags(verb, options.compute, kTrainedContext);
}

void add_chat_flags(CLI::App& verb, ChatOptions& options) {
  add_model_flags(verb, options.model);
  add_parsed(verb, "--system", "TEXT", "What the model is told before the conversation",
             [&options](const std::string& text) -> Result<void> {
               options.system = text;
               return {};
             });
  add_choice<ThinkingFlag>(
      verb, "--thinking", options.thinking,
      {{"auto", ThinkingFlag::kAuto}, {"on", ThinkingFlag::kOn}, {"off", ThinkingFlag::kOff}},
      "Whether answers begin with a thinking part (default: auto, the model "
      "decides)");
  add_tokens(verb, options.tokens, "Tokens of an answer at most (default: 1024)");
  add_stops(verb, options.stops);
  add_sampling_flags(verb, options.sampling);
  add_compute_flags(verb, options.compute, kTrainedContext);
}

void add_serve_flags(CLI::App& verb, ServeOptions& options) {
  add_path(verb, "MODEL,-m,--model", options.model.path,
           "GGUF file, any part of a split one (default: $KVASIR_MODEL, else the bundled model)");
  add_parsed(verb, "--listen", "[HOST:]PORT",
             "Where to listen (default: 127.0.0.1:8080; port 0: any free one)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.listen, parse_address(text));
               return {};
             });
  add_texts(verb, "--name", options.names, "NAME",
            "What clients call the model (repeatable; default: the name of its file)");
  add_path(verb, "--api-key-file", options.api_key_file,
           "API keys, one name:key[:scope[:requests per minute]] a line; $KVASIR_API_KEY is one "
           "more");
  verb.add_flag("--no-auth", options.no_auth,
                "Serve other machines without keys, and let workers join without a token");
  add_texts(verb, "--cors-origin", options.cors_origins, "ORIGIN",
            "Web pages of this origin may use the API (repeatable; *: all, only without keys)");
  verb.add_flag("--strict-api", options.strict_api, "Refuse unknown fields of requests");
  add_number(verb, "--max-sequences", options.sequences_max, 1, kSequencesMax,
             "Requests that run at a time (default: 16)");
  add_number(verb, "--queue", options.queue_max, 1, kQueueMax,
             "Requests that wait at most (default: 256)");
  add_parsed(verb, "--prefix-cache", "SIZE|none",
             "Memory for beginnings of conversations (default: an eighth of what is available, at "
             "most 512M)",
             [&options](const std::string& text) -> Result<void> {
               if (text == "none") {
                 options.prefix_cache_bytes = 0;
                 return {};
               }
               KVASIR_TRY(options.prefix_cache_bytes, parse_bytes(text));
               return {};
             });
  add_number(verb, "--lanes", options.lanes, 1, kLanesMax,
             "Batches that compute in turns while others wait for workers (default: 2 with "
             "--dispatch always, else 1)");
  verb.add_flag("--no-swarm", options.no_swarm, "Let no workers join");
  add_swarm_policy_flags(verb, options.compute.swarm);
  add_engine_flags(verb, options.compute, kTrainedContext);
  add_number(verb, "--drain-seconds", options.drain_seconds, 0, 86'400,
             "Time for running requests to end after SIGTERM (default: 30)");
  add_choice<LogFlag>(
      verb, "--log-format", options.log,
      {{"text", LogFlag::kText}, {"json", LogFlag::kJson}, {"none", LogFlag::kNone}},
      "A line per request on standard error (default: text)");
}

void add_perplexity_flags(CLI::App& verb, PerplexityOptions& options) {
  add_model_flags(verb, options.model);
  add_prompt_flags(verb, options.prompt);
  verb.add_flag("--json", options.json, "Print JSON: tokens, nll (their sum), ppl");
  add_compute_flags(verb, options.compute, "512, the size of a window");
}

void add_tokenize_flags(CLI::App& verb, TokenizeOptions& options) {
  add_model_flags(verb, options.model);
  add_input_flags(verb, options.prompt);
  add_path(verb, "FILE,-f,--file", options.prompt.file,
           "A file with the text (default: standard input)")
      ->excludes(verb.get_option("--prompt"));
  verb.add_flag("--json", options.json, "Print an array of ids");
}

void add_logits_flags(CLI::App& verb, LogitsOptions& options) {
  add_model_flags(verb, options.model);
  add_path(verb, "--ids", options.ids,
           "Token ids, separated by white space or commas; -: standard input")
      ->required();
  add_path(
      verb, "-o,--output", options.output,
      "Logits of every position, raw little-endian f32, tokens x vocabulary; -: standard output")
      ->required();
  add_compute_flags(verb, options.compute, "as many as there are ids");
}

void add_inspect_flags(CLI::App& verb, InspectOptions& options) {
  add_path(verb, "FILE", options.path, "GGUF file, any part of a split one")->required();
  verb.add_flag("--json", options.json, "Print JSON");
}

void add_manifest_flags(CLI::App& verb, ManifestOptions& options) {
  add_path(verb, "MODEL", options.path,
           "GGUF file, any part of a split one; with --check also a slice")
      ->required();
  add_path(verb, "-o,--output", options.output, "The file to write (default: standard output)");
  add_path(verb, "--check", options.check,
           "Write nothing: hash the model or slice and compare it with this manifest; -: standard "
           "input")
      ->excludes(verb.get_option("--output"));
  add_number(verb, "--threads", options.threads, 1, kThreadsMax,
             "Threads (default: all processors)");
  verb.add_flag("--no-cache", options.no_cache, "Hash again, and do not remember the result");
}

void add_slice_flags(CLI::App& verb, SliceOptions& options) {
  add_path(verb, "MODEL", options.path, "GGUF file, any part of a split one")->required();
  add_parsed(verb, "--layers", "N-N,...", "Layers, counted from 0 (default: all)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.layers, parse_ranges(text, gguf::kUnitLayersMax - 1));
               return {};
             });
  add_parsed(verb, "--experts", "N-N",
             "Experts of each of these layers, whole groups (default: all)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.experts, parse_range(text, gguf::kUnitExpertsMax - 1));
               return {};
             });
  add_path(verb, "--manifest", options.manifest,
           "Check against this manifest (default: what is remembered of the model, or it is hashed "
           "first); -: standard input");
  add_number(verb, "--threads", options.threads, 1, kThreadsMax,
             "Threads (default: all processors)");
  verb.add_flag("--no-cache", options.no_cache, "Hash the model again, and do not remember it");
  add_path(verb, "-o,--output", options.output, "The file to write")->required();
}

void add_synth_flags(CLI::App& verb, SynthOptions& options) {
  add_parsed(verb, "--like", "NAME",
             "True dimensions of a published model, for example qwen3.5-122b-a10b",
             [&options](const std::string& text) -> Result<void> {
               if (text.empty()) return Error::invalid("the name is empty");
               options.like = text;
               return {};
             });
  CLI::Option* like = verb.get_option("--like");
  add_choice<model::Architecture>(verb, "--arch", options.architecture,
                                  {{"qwen35moe", model::Architecture::kQwen35Moe},
                                   {"qwen3moe", model::Architecture::kQwen3Moe}},
                                  "Architecture of a small model (default: qwen35moe)")
      ->excludes(like);
  add_text(verb, "--type", options.type, "TYPE",
           "Weight type, or q4_k_m for the mix of that name (default: f32; with --like: q4_k_m)");
  add_number(verb, "--layers", options.layers, 1, model::kLayersMax,
             "Main layers (default: 4; with --like: all, and the MTP block)");
  add_number(verb, "--experts", options.experts, 1, model::kExpertsMax, "Experts per layer");
  add_number(verb, "--experts-used", options.experts_used, 1, model::kExpertsMax,
             "Experts per token");
  add_number(verb, "--embd", options.embedding, 1, model::kEmbeddingMax, "n_embd");
  add_number(verb, "--width", options.expert_width, 1, model::kEmbeddingMax, "Width of an expert");
  add_number(verb, "--vocab", options.vocabulary, 300, model::kVocabularyMax, "Vocabulary");
  add_number(verb, "--ctx", options.context, 1, model::kContextMax, "Trained context");
  add_number(verb, "--seed", options.seed, 0, std::numeric_limits<uint64_t>::max(),
             "Equal seeds give equal files (default: 1)");
  verb.add_flag("--fused-gate-up", options.fused_gate_up, "Gate and up in one tensor");
  verb.add_flag("--fused-qkv", options.fused_qkv, "Query, key and value in one tensor");
  verb.add_flag("--tied-output", options.tied_output, "The head is the embedding");
  verb.add_flag("--skeleton", options.skeleton,
                "Full size as a sparse file: all weights zero, almost no disk used");
  add_path(verb, "-o,--output", options.output, "The file to write")->required();
}

void add_bench_flags(CLI::App& verb, BenchOptions& options) {
  add_model_flags(verb, options.model);
  add_list(verb, "--threads", ListFlag::kNotEmpty, options.threads, 1, kThreadsMax,
           "Thread counts, one after the other (default: all processors)");
  add_list(verb, "--decode", ListFlag::kMayBeNone, options.decode, 1, kBatchMax,
           "Sequences decoded together; none: no decoding (default: 1,4,32)");
  add_list(verb, "--prefill", ListFlag::kMayBeNone, options.prefill, 1, kTokensMax,
           "Lengths of prompts; none: no prefill (default: 512)");
  add_number(verb, "-n,--tokens", options.steps, 1, kTokensMax,
             "Tokens that each sequence decodes (default: 8)");
  add_number(verb, "--depth", options.depth, 0, kTokensMax,
             "Tokens in each sequence before it decodes (default: 0)");
  add_number(verb, "--repeat", options.repetitions, 1, 1000,
             "Measurements of each; the median counts (default: 3)");
  add_number(verb, "--chunk", options.chunk, 1, kChunkMax, "Prompt tokens per step (default: 512)");
  add_kv_type(verb, options.kv_type);
  add_number(verb, "--seed", options.seed, 0, std::numeric_limits<uint64_t>::max(),
             "Of the random token ids (default: 0)");
  verb.add_flag("--json", options.json, "Print JSON");
}

void add_status_flags(CLI::App& verb, StatusOptions& options) {
  add_parsed(verb, "--connect", "URL", "The backbone, such as ws://127.0.0.1:7900",
             [&options](const std::string& text) -> Result<void> {
               if (text.empty()) return Error::invalid("the address is empty");
               options.connect = text;
               return {};
             })
      ->required();
  verb.add_flag("--json", options.json, "Print JSON");
}

void add_pull_flags(CLI::App& verb, PullOptions& options) {
  add_reference(verb, options.reference,
                "hf:org/repo[:QUANT][@revision], or https://host/model.gguf");
  add_web_flags(verb, options.web);
  add_parsed(verb, "--rate", "RATE", "At most so much a second, such as 2MB/s (default: all)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY(options.rate, parse_rate(text));
               return {};
             });
  add_number(verb, "--connections", options.connections, 1, 16,
             "Parts of a file that are fetched at once (default: 4)");
  verb.add_flag("--restart", options.restart,
                "Fetch files from their beginning that have changed where they come from");
  verb.add_flag("--dry-run", options.dry_run, "Say what would be fetched, and fetch nothing");
}

void add_ls_flags(CLI::App& verb, LsOptions& options) {
  verb.add_flag("--json", options.json, "Print JSON");
}

void add_show_flags(CLI::App& verb, ShowOptions& options) {
  add_reference(verb, options.reference, "A file, or a model as kvasir pull takes it");
  add_web_flags(verb, options.web);
  verb.add_flag("--json", options.json, "Print JSON");
}

void add_rm_flags(CLI::App& verb, RmOptions& options) {
  add_reference(verb, options.reference, "A model as kvasir ls names it");
  verb.add_flag("--dry-run", options.dry_run, "Say what would be freed, and remove nothing");
}

void add_why_flags(CLI::App& verb, WhyOptions& options) {
  add_path(verb, "TRACE", options.trace, "What --trace wrote; -: standard input")->required();
  add_number(verb, "--step", options.step, 0, std::numeric_limits<uint64_t>::max(),
             "Which step (default: the slowest but for the first)");
}

void add_chaos_flags(CLI::App& verb, ChaosOptions& options) {
  // More processes than a machine runs side by side, and more faults than tokens.
  constexpr uint64_t kWorkersMax = 64;
  constexpr float kRateMax = 100;
  add_model_flags(verb, options.model);
  add_parsed(verb, "-p,--prompt", "TEXT", "What the text begins with",
             [&options](const std::string& text) -> Result<void> {
               if (text.empty()) return Error::invalid("the prompt is empty");
               options.prompt = text;
               return {};
             });
  add_number(verb, "--workers", options.workers, 1, kWorkersMax, "Worker processes (default: 8)");
  add_number(verb, "--replicas", options.replicas, 1, kWorkersMax,
             "Workers that hold each unit of experts (default: 2)");
  add_number(verb, "-n,--tokens", options.tokens, 2, kTokensMax,
             "Tokens to generate (default: 400)");
  add_number(verb, "--pace", options.pace, 1, 10'000,
             "Tokens a second at most: time for workers to come back (default: 20)");
  add_number(verb, "--seed", options.seed, 0, std::numeric_limits<uint64_t>::max(),
             "Of the text, of what each worker holds and of the faults (default: 0)");
  add_real(verb, "--kill", options.kill, 0, kRateMax, "Workers killed, per 100 tokens");
  add_real(verb, "--stall", options.stall, 0, kRateMax,
           "Workers stopped for 0.2 to 1 s, per 100 tokens");
  add_real(verb, "--cut", options.cut, 0, kRateMax, "Connections cut, per 100 tokens");
  add_real(verb, "--garbage", options.garbage, 0, kRateMax,
           "Random messages put into connections, per 100 tokens");
  add_real(verb, "--corrupt", options.corrupt, 0, 1, "Share of messages that arrive damaged");
  add_real(verb, "--lie", options.lie, 0, 1,
           "Share of the answers of one worker that are wrong (needs --verify all for the same "
           "text)");
  verb.add_flag("--reorder", options.reorder, "Workers answer in random order");
  add_parsed(verb, "--verify", "none|sampled[=SHARE]|all",
             "How many of the workers' answers the backbone computes, too (default: sampled=0.02)",
             [&options](const std::string& text) -> Result<void> {
               KVASIR_TRY([[maybe_unused]] const double share, parse_verify(text));
               options.verify = text;
               return {};
             });
  add_encoding(verb, "--encoding", options.encoding);
  add_real(verb, "--min-share", options.share_min, 0, 1,
           "Share of the expert rows that workers have to compute (default: 0.4)");
  add_number(verb, "--min-faults", options.faults_min, 1, kTokensMax,
             "Faults of each kind that have to happen (default: 20 kills, 20 stalls, 100 damaged "
             "messages)");
  verb.add_flag("--json", options.json, "Print JSON");
}

}  // namespace kvasir::cli
