// kvasir perplexity: how well a model predicts a text.
#include <chrono>
#include <cmath>

#include "cli/cli.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/verbs.h"

namespace kvasir::cli {
namespace {

constexpr uint64_t kDefaultWindow = 512;

// -log softmax(logits)[target], in doubles.
double negative_log_likelihood(std::span<const float> logits, text::TokenId target) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return std::log(sum) + max - static_cast<double>(logits[static_cast<size_t>(target)]);
}

// JSON has no infinities.
std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

struct Tally {
  uint64_t tokens = 0;
  double nll = 0;  // sum

  void add(double token_nll) {
    ++tokens;
    nll += token_nll;
  }
  double perplexity() const { return std::exp(nll / static_cast<double>(tokens)); }
};

struct Score {
  Tally all;
  // What other tools report: full windows only, and of these only the tokens that at least half a
  // window precedes.
  Tally second_half;
  uint64_t windows = 0;
  double seconds = 0;
  bool interrupted = false;  // by Ctrl-C; the rest is then of no use
};

// Every window starts from nothing; its tokens 1.. are predicted from those before them in it.
Result<Score> score_windows(Session& session, std::span<const text::TokenId> tokens) {
  Score score;
  ProgressBar bar("scoring", Unit::kTokens);
  const InterruptScope interrupts;
  const auto start = std::chrono::steady_clock::now();
  const size_t context = session.context();
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += context) {
    const auto window = tokens.subspan(begin, std::min(context, tokens.size() - begin));
    KVASIR_TRY(auto sequence, session.new_sequence());
    size_t predicted = 1;
    const auto sink = [&](std::span<const float> logits) -> Result<void> {
      const text::TokenId target = window[predicted];
      if (static_cast<size_t>(target) >= logits.size()) {
        return Error::corrupt("the tokenizer knows token {}, the model's head has {} rows", target,
                              logits.size());
      }
      const double nll = negative_log_likelihood(logits, target);
      score.all.add(nll);
      if (window.size() == context && predicted > context / 2) score.second_half.add(nll);
      ++predicted;
      return {};
    };
    const auto known = window.first(window.size() - 1);
    KVASIR_TRY(size_t fed, feed(session, *sequence, known, LogitsOf::kEveryToken, sink));
    score.interrupted = fed < known.size();
    if (score.interrupted) return score;
    ++score.windows;
    bar.update(begin + window.size(), tokens.size());
  }
  score.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return score;
}

std::string to_json(const Score& score, size_t context) {
  return fmt::format(
      "{{\"tokens\": {}, \"nll\": {}, \"ppl\": {}, \"windows\": {}, \"context\": {}, "
      "\"second_half\": {{\"tokens\": {}, \"nll\": {}, \"ppl\": {}}}}}\n",
      score.all.tokens, json_number(score.all.nll), json_number(score.all.perplexity()),
      score.windows, context, score.second_half.tokens, json_number(score.second_half.nll),
      json_number(score.second_half.perplexity()));
}

std::string to_text(const Score& score, size_t context) {
  std::string text =
      fmt::format("perplexity {:.4f}: {} predicted in {} of {}\n", score.all.perplexity(),
                  counted(score.all.tokens, "token"), counted(score.windows, "window"), context);
  if (score.second_half.tokens > 0) {
    text += fmt::format("second halves of full windows only: {:.4f}, {}\n",
                        score.second_half.perplexity(), counted(score.second_half.tokens, "token"));
  }
  return text;
}

}  // namespace

Result<int> perplexity(const PerplexityOptions& options) {
  const uint64_t context = options.compute.context.value_or(kDefaultWindow);
  if (context < 2) {
    return Error::invalid("in windows of --ctx {} nothing is predicted", context)
        .with_hint("--ctx 2 is the least; the default is " + std::to_string(kDefaultWindow));
  }
  KVASIR_TRY(std::string text, read_prompt(options.prompt));
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(auto tokenizer, text::Tokenizer::load(file->metadata()));
  const std::vector<text::TokenId> tokens = encode_prompt(tokenizer, text, options.prompt);
  if (tokens.size() < 2) {
    return Error::invalid("the text has {}; a prediction needs at least 2",
                          counted(tokens.size(), "token"));
  }
  KVASIR_TRY(auto session, Session::open(file, options.compute, context));
  KVASIR_TRY(Score score, score_windows(*session, tokens));
  if (score.interrupted) return kInterrupted;
  Output output = Output::standard();
  KVASIR_TRY_VOID(output.write(options.json ? to_json(score, session->context())
                                            : to_text(score, session->context())));
  if (options.compute.stats) {
    fmt::print(stderr, "{}\n", speed_text("scored", score.all.tokens, score.seconds));
    print_statistics(*session);
  }
  return kSuccess;
}

}  // namespace kvasir::cli
