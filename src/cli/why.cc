// kvasir why: where the time of a step went.
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/swarm_text.h"
#include "cli/verbs.h"

namespace kvasir::cli {
namespace {

constexpr size_t kTraceBytesMax = size_t{1} << 30;

// The longest but for the first, which reads the prompt and wakes everybody.
const TraceStep& slowest(const std::vector<TraceStep>& steps) {
  const auto begin = steps.size() > 1 ? steps.begin() + 1 : steps.begin();
  return *std::max_element(begin, steps.end(), [](const TraceStep& a, const TraceStep& b) {
    return a.total_us < b.total_us;
  });
}

}  // namespace

Result<int> why(const WhyOptions& options) {
  KVASIR_TRY(const std::string text, read_input(options.trace, kTraceBytesMax));
  std::vector<TraceStep> steps;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    auto step = parse_trace_step(line);
    if (!step)
      return std::move(step.error())
          .in(fmt::format("{}: line {}", options.trace, steps.size() + 1));
    steps.push_back(std::move(*step));
  }
  if (steps.empty())
    return Error::invalid("{}: there are no steps in it", options.trace)
        .with_hint("write one with  kvasir generate --swarm-listen PORT --trace FILE ...");
  const TraceStep* chosen = &slowest(steps);
  if (options.step) {
    const auto found = std::find_if(steps.begin(), steps.end(), [&](const TraceStep& step) {
      return step.step == *options.step;
    });
    if (found == steps.end())
      return Error::invalid("{}: no step {}; there are {}", options.trace, *options.step,
                            steps.size());
    chosen = &*found;
  }
  KVASIR_TRY_VOID(Output::standard().write(step_text(*chosen) + "\n" + verdict(*chosen)));
  return kSuccess;
}

}  // namespace kvasir::cli
