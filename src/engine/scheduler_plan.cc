#include "engine/scheduler_plan.h"

#include <algorithm>

#include "base/error.h"

namespace kvasir::engine {
namespace {

// Of a step, for prompts while more requests decode than there are rows.
constexpr size_t kPromptPart = 4;

// The standings of one kind in the order of their turns: ascending ids, from `next` on and around.
template <typename IsOfKind>
std::vector<size_t> in_turn(std::span<const Standing> standings, uint64_t next,
                            const IsOfKind& is_of_kind) {
  std::vector<size_t> order;
  for (size_t i = 0; i < standings.size(); ++i)
    if (is_of_kind(standings[i])) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const uint64_t id_a = standings[a].id, id_b = standings[b].id;
    if ((id_a < next) != (id_b < next)) return id_b < next;
    return id_a < id_b;
  });
  return order;
}

}  // namespace

StepPlanner::StepPlanner(const PlanLimits& limits) : limits_(limits) {
  KVASIR_CHECK(limits.rows_max != 0 && limits.prefill_rows_while_decoding != 0 &&
               limits.prompt_logits_rows_max != 0);
}

std::vector<RowShare> StepPlanner::plan(std::span<const Standing> standings,
                                        bool decodes_elsewhere) {
  size_t prompt_rows = 0;
  for (const Standing& each : standings)
    prompt_rows = std::min(prompt_rows + each.prompt_rows, limits_.rows_max);
  size_t for_decodes = limits_.rows_max;
  if (prompt_rows != 0) {
    for_decodes -= std::min(std::max<size_t>(limits_.rows_max / kPromptPart, 1), prompt_rows);
    if (for_decodes == 0) {
      prompts_turn_ = !prompts_turn_;
      if (!prompts_turn_) for_decodes = 1;
    }
  }
  std::vector<RowShare> shares = plan_decodes(standings, for_decodes);
  size_t left = limits_.rows_max - shares.size();
  if (!shares.empty() || decodes_elsewhere)
    left = std::min(left, limits_.prefill_rows_while_decoding);
  for (const RowShare& share : plan_prompts(standings, left)) shares.push_back(share);
  return shares;
}

std::vector<RowShare> StepPlanner::plan_decodes(std::span<const Standing> standings, size_t rows) {
  const auto order =
      in_turn(standings, next_decode_, [](const Standing& each) { return each.prompt_rows == 0; });
  std::vector<RowShare> shares;
  for (size_t i = 0; i < std::min(rows, order.size()); ++i) shares.push_back({order[i], 1});
  if (shares.size() < order.size()) next_decode_ = standings[order[shares.size()]].id;
  return shares;
}

std::vector<RowShare> StepPlanner::plan_prompts(std::span<const Standing> standings, size_t rows) {
  const auto order =
      in_turn(standings, next_prompt_, [](const Standing& each) { return each.prompt_rows != 0; });
  std::vector<RowShare> shares;
  for (size_t index : order) shares.push_back({index, 0});
  size_t with_logits = limits_.prompt_logits_rows_max;
  // What somebody does not need goes to the others, until nothing is left to give or to take.
  for (bool gave = true; gave && rows != 0;) {
    gave = false;
    const auto wants_more = [&](const RowShare& share) {
      const Standing& standing = standings[share.index];
      return share.rows < standing.prompt_rows &&
             !(standing.wants_prompt_logits && with_logits == 0);
    };
    size_t n = 0, n_with_logits = 0;
    for (const RowShare& share : shares) {
      if (!wants_more(share)) continue;
      ++n;
      n_with_logits += standings[share.index].wants_prompt_logits ? 1 : 0;
    }
    const auto part_of = [](size_t all, size_t among) {
      return among == 0 ? 0 : std::max<size_t>(all / among, 1);
    };
    const size_t part = part_of(rows, n), logits_part = part_of(with_logits, n_with_logits);
    for (RowShare& share : shares) {
      if (rows == 0 || !wants_more(share)) continue;
      const Standing& standing = standings[share.index];
      size_t more = std::min({part, rows, standing.prompt_rows - share.rows});
      if (standing.wants_prompt_logits) {
        more = std::min({more, logits_part, with_logits});
        with_logits -= more;
      }
      share.rows += more;
      rows -= more;
      gave = true;
    }
  }
  // Whoever got nothing is first next time.
  const auto first_without = std::find_if(shares.begin(), shares.end(),
                                          [](const RowShare& share) { return share.rows == 0; });
  if (first_without != shares.end())
    next_prompt_ = standings[first_without->index].id;
  else if (shares.size() > 1)
    next_prompt_ = standings[shares[1].index].id;
  std::erase_if(shares, [](const RowShare& share) { return share.rows == 0; });
  return shares;
}

}  // namespace kvasir::engine
