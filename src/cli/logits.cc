// kvasir logits: token ids -> the logits of every position, raw little-endian f32.
#include <chrono>

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

std::string_view as_text(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> inputs(const LogitsOptions& options, const gguf::ModelFile& model) {
  std::vector<std::string> paths = {options.ids == "-" ? "/dev/stdin" : options.ids};
  for (size_t part = 0; part < model.parts(); ++part) paths.push_back(model.part_file(part).path());
  return paths;
}

}  // namespace

Result<int> logits(const LogitsOptions& options) {
  KVASIR_TRY(std::string ids_text, read_input(options.ids, kPromptBytesMax));
  Result<std::vector<text::TokenId>> ids = parse_ids(ids_text);
  if (!ids) return std::move(ids.error()).in(options.ids);
  if (ids->empty()) return Error::invalid("{}: no token ids", options.ids);

  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY_VOID(check_no_input(options.output, inputs(options, *file)));
  KVASIR_TRY(auto hp, model::read_hyper_parameters(file->metadata()));
  for (text::TokenId id : *ids) {
    if (static_cast<uint64_t>(id) >= hp.n_vocab)
      return Error::invalid("{}: token {} is not in the vocabulary of {}", options.ids, id,
                            hp.n_vocab);
  }
  const uint64_t context = options.compute.context.value_or(ids->size());
  KVASIR_TRY_VOID(plan_length(ids->size(), 0, 0, context));
  KVASIR_TRY(auto session, Session::open(file, options.compute, context));
  KVASIR_TRY(auto sequence, session->new_sequence());
  KVASIR_TRY(Output output, Output::open(options.output));

  ProgressBar bar("computing", Unit::kTokens);
  size_t position = 0;
  const LogitsSink sink = [&](std::span<const float> row) {
    bar.update(++position, ids->size());
    return output.write(as_text(row));
  };
  const InterruptScope interrupts;
  const auto start = std::chrono::steady_clock::now();
  KVASIR_TRY(size_t fed, feed(*session, *sequence, *ids, LogitsOf::kEveryToken, sink));
  if (fed < ids->size()) return kInterrupted;
  KVASIR_TRY_VOID(output.close());
  if (options.compute.stats) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print(stderr, "{}\n", speed_text("computed", ids->size(), seconds.count()));
    print_statistics(*session);
  }
  return kSuccess;
}

}  // namespace kvasir::cli
