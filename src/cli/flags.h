// Flags of all verbs, registered with the command-line library (the only place that knows it, with
// cli.cc; its header is slow to compile).
#pragma once

#include <CLI/CLI.hpp>

#include "cli/options.h"

namespace kvasir::cli {

void add_generate_flags(CLI::App& verb, GenerateOptions& options);
void add_chat_flags(CLI::App& verb, ChatOptions& options);
void add_serve_flags(CLI::App& verb, ServeOptions& options);
void add_perplexity_flags(CLI::App& verb, PerplexityOptions& options);
void add_tokenize_flags(CLI::App& verb, TokenizeOptions& options);
void add_logits_flags(CLI::App& verb, LogitsOptions& options);
void add_inspect_flags(CLI::App& verb, InspectOptions& options);
void add_manifest_flags(CLI::App& verb, ManifestOptions& options);
void add_slice_flags(CLI::App& verb, SliceOptions& options);
void add_synth_flags(CLI::App& verb, SynthOptions& options);
void add_chaos_flags(CLI::App& verb, ChaosOptions& options);
void add_bench_flags(CLI::App& verb, BenchOptions& options);
void add_status_flags(CLI::App& verb, StatusOptions& options);
void add_pull_flags(CLI::App& verb, PullOptions& options);
void add_ls_flags(CLI::App& verb, LsOptions& options);
void add_show_flags(CLI::App& verb, ShowOptions& options);
void add_rm_flags(CLI::App& verb, RmOptions& options);
void add_why_flags(CLI::App& verb, WhyOptions& options);

}  // namespace kvasir::cli
