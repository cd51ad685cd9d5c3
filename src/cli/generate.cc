// kvasir generate: continues a text.
#include "base/sha256.h"
#include "cli/cli.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/prompt.h"
#include "cli/verbs.h"

namespace kvasir::cli {
namespace {

constexpr uint64_t kDefaultTokens = 256;

}  // namespace

Result<int> generate(const GenerateOptions& options) {
  KVASIR_TRY(std::string prompt_text, read_prompt(options.prompt));
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(auto tokenizer, text::Tokenizer::load(file->metadata()));
  KVASIR_TRY(auto hp, model::read_hyper_parameters(file->metadata()));
  KVASIR_TRY(engine::SamplerOptions sampling,
             sampler_options(options.sampling, file->metadata(), hp.n_vocab));

  const std::vector<text::TokenId> prompt = encode_prompt(tokenizer, prompt_text, options.prompt);
  if (prompt.empty()) {
    return Error::invalid("the prompt is empty")
        .with_hint("give some text to go on from:  kvasir generate -p \"Once upon a time\"");
  }
  const uint64_t context = options.compute.context.value_or(default_context(hp));
  KVASIR_TRY(LengthPlan plan, plan_length(prompt.size(), options.tokens, kDefaultTokens, context));
  if (plan.shortened) {
    fmt::print(stderr, "note:  room for {} in the context of {}; --ctx makes it larger\n",
               counted(plan.tokens, "token"), context);
  }

  KVASIR_TRY(auto session, Session::open(file, options.compute, context));
  Generation generation(*session, tokenizer, sampling);
  KVASIR_TRY_VOID(generation.reset());
  Output output = Output::standard();
  bool at_line_start = true;
  const TextSink write = [&](std::string_view text) {
    at_line_start = text.back() == '\n';
    return output.write(text);
  };

  const InterruptScope interrupts;
  if (options.echo) KVASIR_TRY_VOID(write(prompt_text));
  KVASIR_TRY(
      Answer answer,
      generation.answer({prompt, plan.tokens, options.stops, options.hash, options.pace}, write));
  if (!at_line_start) KVASIR_TRY_VOID(output.write("\n"));
  if (options.hash != LogitsHash::kNone)
    KVASIR_TRY_VOID(output.write(fmt::format("logits-hash: {}\n", answer.logits_hash)));
  if (options.compute.stats) print_statistics(*session, answer, sampling.seed);
  return answer.stop == Stop::kInterrupted ? kInterrupted : kSuccess;
}

}  // namespace kvasir::cli
