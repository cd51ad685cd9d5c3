#include "cli/cli.h"

#include <signal.h>

#include <cstdio>
#include <exception>
#include <new>

#include "base/fp_environment.h"
#include "base/mapped_file.h"
#include "cli/configured.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/own_verbs.h"
#include "cli/parsing.h"
#include "cli/read_tables.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "worker/worker_flags.h"
#include "worker/worker_runtime.h"

namespace kvasir::cli {
namespace {

struct Options {
  GenerateOptions generate;
  ChatOptions chat;
  ServeOptions serve;
  PerplexityOptions perplexity;
  TokenizeOptions tokenize;
  LogitsOptions logits;
  InspectOptions inspect;
  ManifestOptions manifest;
  SliceOptions slice;
  SynthOptions synth;
  BenchOptions bench;
  StatusOptions status;
  WhyOptions why;
  ChaosOptions chaos;
  PullOptions pull;
  LsOptions ls;
  ShowOptions show;
  RmOptions rm;
  worker::WorkerOptions worker;
  ConfigOptions config;
  CompletionOptions completion;
  ManOptions man;
};

template <typename VerbOptions>
void add_verb(CLI::App& app, const char* name, const char* description, const char* example,
              VerbOptions& options, void (*add_flags)(CLI::App&, VerbOptions&),
              Result<int> (*verb)(const VerbOptions&), std::function<Result<int>()>& chosen) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->footer(std::string("Example:\n  ") + example + "\n");
  add_flags(*sub, options);
  sub->callback([&options, &chosen, verb] { chosen = [&options, verb] { return verb(options); }; });
}

void add_verbs(CLI::App& app, Options& options, std::function<Result<int>()>& chosen) {
  add_verb(app, "generate", "Continue a text",
           "kvasir generate -e -p 'The Golden Bird\\n\\n' -n 200 --seed 2", options.generate,
           add_generate_flags, generate, chosen);
  add_verb(app, "chat", "Talk with a model, one line a turn", "kvasir chat --temperature 0.7",
           options.chat, add_chat_flags, chat, chosen);
  add_verb(app, "serve", "Serve a model by HTTP: the APIs of OpenAI and Anthropic, and workers",
           "kvasir serve model.gguf --listen 127.0.0.1:8080", options.serve, add_serve_flags, serve,
           chosen);
  add_verb(app, "perplexity", "Measure how well a model predicts a text",
           "kvasir perplexity -f text.txt --json", options.perplexity, add_perplexity_flags,
           perplexity, chosen);
  add_verb(app, "tokenize", "Show the tokens of a text",
           "kvasir tokenize -m model.gguf --json text.txt", options.tokenize, add_tokenize_flags,
           tokenize, chosen);
  add_verb(app, "logits", "Write the logits of every position",
           "kvasir logits -m model.gguf --ids ids.txt -o logits.f32", options.logits,
           add_logits_flags, logits, chosen);
  add_verb(app, "inspect", "Say what a model file is", "kvasir inspect model.gguf --json",
           options.inspect, add_inspect_flags, inspect, chosen);
  add_verb(app, "manifest", "Hash a model: what its tensors and units of experts must be",
           "kvasir manifest model.gguf -o model.manifest", options.manifest, add_manifest_flags,
           manifest, chosen);
  add_verb(app, "slice", "Cut experts out of a model",
           "kvasir slice model.gguf --layers 0-3 --experts 0-31 -o part.gguf", options.slice,
           add_slice_flags, slice, chosen);
  add_verb(app, "synth", "Write a synthetic model",
           "kvasir synth --like qwen3.5-122b-a10b --layers 4 -o synthetic.gguf", options.synth,
           add_synth_flags, synth, chosen);
  add_verb(app, "bench", "Measure how fast a model runs, and how fast this machine could be",
           "kvasir bench -m model.gguf --decode 1,32 --prefill 512 --json", options.bench,
           add_bench_flags, bench, chosen);
  add_verb(app, "status", "Show a backbone's workers, what they hold and how they do",
           "kvasir status --connect ws://127.0.0.1:7900", options.status, add_status_flags, status,
           chosen);
  add_verb(app, "why", "Say where the time of a step went", "kvasir why trace.jsonl --step 12",
           options.why, add_why_flags, why, chosen);
  add_verb(app, "chaos", "Hurt a swarm of processes and check that its answer stays the same",
           "kvasir chaos --kill 10 --stall 10 --cut 5 --corrupt 0.02 --reorder", options.chaos,
           add_chaos_flags, chaos, chosen);
  add_verb(app, "pull", "Fetch a model, and go on with it after any interruption",
           "kvasir pull hf:org/repo:Q4_K_M --rate 2MB/s", options.pull, add_pull_flags, pull,
           chosen);
  add_verb(app, "ls", "List the models that were fetched", "kvasir ls --json", options.ls,
           add_ls_flags, ls, chosen);
  add_verb(app, "show", "Say what a model is, here or elsewhere, before fetching it",
           "kvasir show hf:org/repo:Q4_K_M", options.show, add_show_flags, show, chosen);
  add_verb(app, "rm", "Remove a model that was fetched", "kvasir rm hf:org/repo:Q4_K_M --dry-run",
           options.rm, add_rm_flags, rm, chosen);
  add_verb(app, "worker", worker::kWorkerDescription,
           "kvasir worker --connect ws://10.0.0.5:8080 --slice part.gguf --manifest model.manifest",
           options.worker, worker::add_worker_flags, worker::run_worker, chosen);
  CLI::App* verb = app.get_subcommand("worker");
  verb->footer(verb->get_footer() + "\n" + worker::kWorkerExits);
}

// The option tree and what it fills.
struct CommandTree {
  Options options;
  std::function<Result<int>()> chosen;  // what to do after the parse
  CLI::App app{"Kvasir runs Mixture-of-Experts language models, exactly.", "kvasir"};

  CommandTree();
};

std::shared_ptr<CLI::App> fresh_tree() {
  auto tree = std::make_shared<CommandTree>();
  return std::shared_ptr<CLI::App>(tree, &tree->app);
}

config::Program tables() {
  return read_tables(*fresh_tree(), kVersion, own_verbs());
}

// Verbs that speak of all verbs.
template <typename VerbOptions>
void add_own_verb(CommandTree& tree, const char* name, const char* description, const char* example,
                  VerbOptions& options, void (*add_flags)(CLI::App&, VerbOptions&),
                  std::function<Result<int>(const VerbOptions&)> verb) {
  CLI::App* sub = tree.app.add_subcommand(name, description);
  sub->footer(std::string("Example:\n  ") + example + "\n");
  add_flags(*sub, options);
  sub->callback(
      [&tree, &options, verb] { tree.chosen = [&options, verb] { return verb(options); }; });
}

CommandTree::CommandTree() {
  app.set_version_flag("--version", version_text());
  app.require_subcommand(0, 1);
  app.footer(
      "kvasir COMMAND --help explains a command. Exit codes: 0 done, 1 failed, 2 usage, "
      "3 nobody at that address, 4 refused for good, "
      "130 interrupted.\n");
  add_verbs(app, options, chosen);
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    verb->add_option_function<std::string>(
            std::string("--") + kConfigKey,
            [](const std::string& path) {
              if (path.empty()) throw CLI::ValidationError("--config", "the file name is empty");
            },
            "Settings from this file alone (default: /etc/kvasir/kvasir.toml and "
            "~/.config/kvasir/kvasir.toml)")
        ->type_name("FILE");
  }
  add_own_verb<ConfigOptions>(
      *this, "config", "Show settings and where each comes from",
      "kvasir config show generate --origin", options.config, add_config_flags,
      [](const ConfigOptions& wanted) { return show_config(wanted, tables(), fresh_tree); });
  add_own_verb<CompletionOptions>(
      *this, "completion", "Print a completion script for a shell",
      "source <(kvasir completion bash)", options.completion, add_completion_flags,
      [](const CompletionOptions& wanted) { return print_completion(wanted, tables()); });
  add_own_verb<ManOptions>(
      *this, "man", "Print a manual page", "kvasir man generate | man -l -", options.man,
      add_man_flags, [](const ManOptions& wanted) { return print_man_page(wanted, tables()); });
}

void print_error(const Error& error) {
  fmt::print(stderr, "error: {}\n", on_one_line(error.message));
  if (!error.hint.empty()) fmt::print(stderr, "hint:  {}\n", on_one_line(error.hint));
}

int report(const Error& error) {
  if (is_broken_pipe(error)) return kFailed;
  print_error(error);
  return error.kind == ErrorKind::kInvalid ? kUsage : kFailed;
}

int usage_error(const CLI::App& app, const std::string& message) {
  std::string verb = "kvasir";
  for (const CLI::App* sub : app.get_subcommands()) verb += " " + sub->get_name();
  print_error(Error::invalid("{}", message).with_hint(verb + " --help lists what there is"));
  return kUsage;
}

// The library's own words for it are "At Most 1 required but received 2". Empty: there is none.
std::string repeated_flag(const CLI::App& app) {
  for (const CLI::App* sub : app.get_subcommands()) {
    for (const CLI::Option* flag : sub->get_options())
      if (flag->get_items_expected_max() == 1 && flag->count() > 1) return flag->get_name();
  }
  return "";
}

// The library lists them back to front, and the value of an unknown flag like a mistake of its own.
std::string unexpected_text(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  for (const std::string& word : words)
    if (word.size() > 1 && word.front() == '-') return fmt::format("there is no flag '{}'", word);
  return words.empty() ? "an argument too many"
                       : fmt::format("'{}' is an argument too many", words.front());
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) names.push_back(sub->get_name());
  return names;
}

// `kvasir help [VERB]` is `kvasir [VERB] --help`.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  if (!all.empty() && all.front() == "help") {
    all.erase(all.begin());
    all.emplace_back("--help");
  }
  return all;
}

int print_to_stdout(const std::string& text) {
  Result<void> written = Output::standard().write(text);
  return written ? kSuccess : report(written.error());
}

int parse_and_run(int argc, char** argv) {
  CommandTree tree;
  CLI::App& app = tree.app;
  std::vector<std::string> words = arguments(argc, argv);
  const std::vector<std::string> verbs = verb_names(app);
  if (!words.empty() && !words.front().starts_with("-") &&
      std::find(verbs.begin(), verbs.end(), words.front()) == verbs.end()) {
    print_error(Error::invalid("there is no command '{}'", words.front())
                    .with_hint(fmt::format("the commands are {}", fmt::join(verbs, ", "))));
    return kUsage;
  }
  Result<std::vector<std::string>> configured =
      configured_words(read_tables(app, kVersion, own_verbs()), words, fresh_tree);
  if (!configured) return report(configured.error());
  words = std::move(*configured);
  try {
    std::reverse(words.begin(), words.end());  // as the library wants them
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return print_to_stdout(app.help());
  } catch (const CLI::CallForVersion&) {
    return print_to_stdout(version_text() + "\n");
  } catch (const CLI::ExtrasError&) {
    return usage_error(app, unexpected_text(app));
  } catch (const CLI::ParseError& error) {
    const std::string repeated = repeated_flag(app);
    return usage_error(app, repeated.empty() ? error.what() : repeated + " was given twice");
  }
  if (!tree.chosen) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  // Before any work: a misspelt instruction set must not mean "the default".
  if (auto table = kernels::select_table(); !table) {
    print_error(table.error());
    return kUsage;
  }
  Result<int> code = tree.chosen();
  return code ? *code : report(code.error());
}

}  // namespace

int run(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write
  install_sigbus_reporter();
  set_canonical_fp_environment();
  try {
    return parse_and_run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\nhint:  a smaller --ctx or --chunk needs less\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: unexpected: %s\n", error.what());
  }
  return kFailed;
}

}  // namespace kvasir::cli
