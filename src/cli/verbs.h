// One function per subcommand. Each returns the exit code; an Error is reported by the caller
// (kInvalid as a usage error, anything else as a failure).
#pragma once

#include "base/error.h"
#include "cli/options.h"

namespace kvasir::cli {

Result<int> generate(const GenerateOptions& options);
Result<int> chat(const ChatOptions& options);
Result<int> serve(const ServeOptions& options);
Result<int> perplexity(const PerplexityOptions& options);
Result<int> tokenize(const TokenizeOptions& options);
Result<int> logits(const LogitsOptions& options);
Result<int> inspect(const InspectOptions& options);
Result<int> manifest(const ManifestOptions& options);
Result<int> slice(const SliceOptions& options);
Result<int> synth(const SynthOptions& options);
Result<int> bench(const BenchOptions& options);
Result<int> status(const StatusOptions& options);
Result<int> pull(const PullOptions& options);
Result<int> ls(const LsOptions& options);
Result<int> show(const ShowOptions& options);
Result<int> rm(const RmOptions& options);
Result<int> why(const WhyOptions& options);
Result<int> chaos(const ChaosOptions& options);

}  // namespace kvasir::cli
