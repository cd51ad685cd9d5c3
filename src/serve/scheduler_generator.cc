#include "serve/scheduler_generator.h"

#include "serve/token_text.h"

namespace kvasir::serve {
namespace {

// One generation: what the scheduler's threads say about it, told as text.
class Generation {
 public:
  Generation(const text::Tokenizer& tokenizer, const GenerationOrder& order,
             std::shared_ptr<AnswerConstraint> constraint, GenerationSink sink)
      : tokenizer_(tokenizer),
        text_(tokenizer, order.stops),
        constraint_(std::move(constraint)),
        sink_(std::move(sink)) {
    if (order.wants_prompt_logprobs) prompt_ = order.prompt;
  }

  engine::AfterToken check(int32_t token) {
    const engine::AfterToken after = text_.take(token);
    const bool is_complete = constraint_ && constraint_->is_complete();
    return after == engine::AfterToken::kGoOn && is_complete ? engine::AfterToken::kEndWith : after;
  }

  void on_event(const engine::Event& event) {
    if (const auto* progress = std::get_if<engine::PromptProgress>(&event)) {
      if (!prompt_.empty() && progress->done == progress->total) tell_scores();
      sink_(*progress);
    } else if (const auto* scores = std::get_if<engine::PromptLogprobs>(&event)) {
      for (const engine::Logprobs& logprobs : scores->of_tokens)
        scores_.push_back(token_logprob(tokenizer_, logprobs));
    } else if (const auto* token = std::get_if<engine::TokenGenerated>(&event)) {
      sink_(text_.piece(token->logprobs));
    } else {
      const auto& end = std::get<engine::Finished>(event);
      TextPiece rest = text_.finish();
      if (!rest.text.empty() || !rest.logprobs.empty()) sink_(std::move(rest));
      sink_(GenerationEnded{end.reason, text_.stop(), end.error, end.usage, end.logits_hash});
    }
  }

 private:
  void tell_scores() {
    PromptScores all;
    all.tokens.emplace_back().bytes =
        tokenizer_.bytes(prompt_.front(), text::SpecialTokens::kParse);
    all.tokens.insert(all.tokens.end(), std::make_move_iterator(scores_.begin()),
                      std::make_move_iterator(scores_.end()));
    prompt_.clear();
    scores_.clear();
    sink_(std::move(all));
  }

  const text::Tokenizer& tokenizer_;
  TokenText text_;
  const std::shared_ptr<AnswerConstraint> constraint_;
  const GenerationSink sink_;
  std::vector<int32_t> prompt_;  // until its probabilities are told
  std::vector<api::TokenLogprob> scores_;
};

}  // namespace

Generator::Submitted SchedulerGenerator::submit(GenerationOrder order, GenerationSink sink) {
  std::shared_ptr<AnswerConstraint> constraint;
  if (order.constraint)
    constraint = std::make_shared<AnswerConstraint>(std::move(*order.constraint));
  auto generation = std::make_shared<Generation>(tokenizer_, order, constraint, std::move(sink));
  engine::Request request;
  request.user = std::move(order.user);
  request.prompt = std::move(order.prompt);
  request.tokens_max = order.tokens_max;
  request.sampler = std::move(order.sampler);
  request.constraint = std::move(constraint);
  request.wants_logprobs = order.wants_logprobs;
  request.wants_prompt_logprobs = order.wants_prompt_logprobs;
  request.n_top_logprobs = order.n_top_logprobs;
  request.wants_logits_hash = order.wants_logits_hash;
  request.prefix_scope = std::move(order.prefix_scope);
  request.turn_ends = std::move(order.turn_ends);
  request.end_check = [generation](int32_t token) { return generation->check(token); };
  request.on_event = [generation](const engine::Event& event) { generation->on_event(event); };
  return scheduler_.submit(std::move(request));
}

}  // namespace kvasir::serve
