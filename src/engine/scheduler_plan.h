// Which rows the next step computes. Pure: plain numbers in, plain numbers out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::engine {

struct PlanLimits {
  size_t rows_max = 128;  // of a step
  // Prompt rows of a step while anybody waits for a next token. Smaller: prompts take longer;
  // larger: tokens come at longer intervals while somebody's prompt is computed.
  size_t prefill_rows_while_decoding = 64;
  // Prompt rows of a step whose logits are wanted: a row of logits takes n_vocab floats.
  size_t prompt_logits_rows_max = 8;
};

// Where a running request stands.
struct Standing {
  uint64_t id = 0;
  // Prompt rows that may be computed in one step: the rest of the prompt, or up to the next place
  // where the step has to end. 0: the prompt is done, and the request wants its next token.
  size_t prompt_rows = 0;
  bool wants_prompt_logits = false;
};

struct RowShare {
  size_t index = 0;  // among the standings
  size_t rows = 0;   // at least 1
};

// One thread. A row for everybody who wants the next token comes first, then prompts share what is
// left equally, taking turns where that is not a row for each. Neither kind can starve the other: a
// quarter of the rows is for prompts if there are any.
class StepPlanner {
 public:
  explicit StepPlanner(const PlanLimits& limits);

  // decodes_elsewhere: somebody outside of `standings` wants a next token and waits for this step.
  std::vector<RowShare> plan(std::span<const Standing> standings, bool decodes_elsewhere);

 private:
  std::vector<RowShare> plan_decodes(std::span<const Standing> standings, size_t rows);
  std::vector<RowShare> plan_prompts(std::span<const Standing> standings, size_t rows);

  const PlanLimits limits_;
  // Whose turn it is: the first one with this id or a higher one.
  uint64_t next_decode_ = 0, next_prompt_ = 0;
  bool prompts_turn_ = false;  // matters with a single row per step only
};

}  // namespace kvasir::engine
