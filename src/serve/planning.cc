#include "serve/planning.h"

#include "api/plain_answers.h"
#include "api/schema_grammar.h"

namespace kvasir::serve {
namespace {

// What clients are told to wait when too much is asked of the server.
constexpr uint32_t kRetryAfterS = 2;

api::Outcome<engine::SamplerOptions> sampler_options(const ServedModel& model,
                                                     const api::Sampling& asked, uint64_t seed) {
  engine::SamplerOptions options = model.sampling;
  const auto set = [](float& option, const std::optional<double>& value) {
    if (value) option = static_cast<float>(*value);
  };
  set(options.temperature, asked.temperature);
  set(options.top_p, asked.top_p);
  set(options.min_p, asked.min_p);
  set(options.presence_penalty, asked.presence_penalty);
  set(options.frequency_penalty, asked.frequency_penalty);
  set(options.repetition_penalty, asked.repeat_penalty);
  options.top_k = asked.top_k.value_or(options.top_k);
  options.seed = asked.seed.value_or(seed);
  for (const auto& [id, bias] : asked.logit_bias) {
    if (id < 0 || static_cast<size_t>(id) >= model.n_vocab)
      return api::ApiError::of(api::Code::kInvalidValue, "logit_bias",
                               "'logit_bias' names token {}, the vocabulary has {}", id,
                               model.n_vocab);
    options.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  if (auto checked = engine::check(options); !checked) return api::from_error(checked.error(), "");
  return options;
}

// What /v1/completions gives whoever names no limit, as OpenAI does: its models seldom end by
// themselves.
constexpr size_t kCompletionTokens = 16;

// Tokens of the answer; without a wish all that the context has left.
api::Outcome<size_t> answer_tokens(const ServedModel& model, std::string_view param,
                                   size_t prompt_tokens, const std::optional<uint32_t>& asked) {
  const size_t wanted = asked.value_or(1);
  if (prompt_tokens >= model.context || wanted > model.context - prompt_tokens)
    return api::context_length_exceeded(param, prompt_tokens, asked.value_or(0), model.context);
  return asked ? *asked : model.context - prompt_tokens;
}

struct Shape {
  api::SharedGrammar grammar;
  bool is_tool_call = false;
};

// What the answer has to look like.
api::Outcome<Shape> shape_of(const api::ChatRequest& request) {
  using Kind = api::ToolChoice::Kind;
  Shape shape;
  if (request.tool_choice.kind == Kind::kRequired || request.tool_choice.kind == Kind::kNamed) {
    std::vector<api::Tool> tools;
    for (const api::Tool& tool : request.tools)
      if (request.tool_choice.kind == Kind::kRequired || tool.name == request.tool_choice.name)
        tools.push_back(tool);
    shape.is_tool_call = true;
    KVASIR_TRY(shape.grammar, api::compile_tool_calls(tools, {}));
    return shape;
  }
  KVASIR_TRY(shape.grammar, api::compile_format(request.format));
  return shape;
}

void add_choices(AnswerPlan& plan, PlannedChoice first, uint32_t n) {
  const size_t leader = plan.choices.size();
  for (uint32_t i = 0; i < n; ++i) {
    PlannedChoice choice = first;
    choice.order.sampler.seed += i;
    if (i > 0) choice.after = leader;
    plan.choices.push_back(std::move(choice));
  }
}

api::Outcome<GenerationOrder> common_order(const ServedModel& model, const Client& client,
                                           const api::Generation& request, uint64_t seed) {
  GenerationOrder order;
  order.user = client.user;
  order.prefix_scope = client.prefix_scope;
  KVASIR_TRY(order.sampler, sampler_options(model, request.sampling, seed));
  order.stops = request.stops;
  order.wants_logprobs = request.top_logprobs.has_value();
  order.n_top_logprobs = request.top_logprobs.value_or(0);
  order.wants_logits_hash = request.details;
  return order;
}

}  // namespace

api::Outcome<void> check_model(const ServedModel& model, const std::string& name) {
  if (model.has_name(name)) return {};
  std::vector<api::ModelEntry> entries;
  for (const std::string& known : model.names)
    entries.push_back({known, model.created_s, model.context});
  return api::model_not_found(name, entries);
}

api::Outcome<AnswerPlan> plan_chat(const ServedModel& model, const Client& client,
                                   api::ChatRequest request, uint64_t seed, int64_t time_unix_s) {
  KVASIR_TRY_VOID(check_model(model, request.model));
  KVASIR_TRY(ChatPrompt prompt, model.prompts->chat(request, time_unix_s));
  KVASIR_TRY(Shape shape, shape_of(request));
  AnswerPlan plan;
  PlannedChoice choice;
  GenerationOrder& order = choice.order;
  KVASIR_TRY(order, common_order(model, client, request, seed));
  order.prompt = std::move(prompt.tokens);
  order.turn_ends = std::move(prompt.turn_ends);
  KVASIR_TRY(
      order.tokens_max,
      answer_tokens(model, request.dialect == api::Dialect::kResponses ? "input" : "messages",
                    order.prompt.size(), request.max_tokens));
  if (shape.grammar || request.thinking_tokens_max) {
    order.constraint = ConstraintPlan{model.vocabulary, shape.grammar, prompt.opens_thinking,
                                      request.thinking_tokens_max.value_or(SIZE_MAX)};
  }
  plan.prompt_tokens = order.prompt.size();
  // What is no thinking part must not be taken for one: not in the middle of a message, nor in
  // JSON.
  plan.format.begins_in_reasoning = prompt.opens_thinking;
  plan.format.reasoning =
      prompt.opens_thinking ||
      (model.prompts->knows_thinking() && !request.continue_last_message && !shape.grammar);
  plan.format.tool_calls =
      shape.is_tool_call || (!request.tools.empty() && !shape.grammar &&
                             request.tool_choice.kind != api::ToolChoice::Kind::kNone);
  add_choices(plan, std::move(choice), request.choices);
  plan.request = std::move(request);
  return plan;
}

api::Outcome<AnswerPlan> plan_completion(const ServedModel& model, const Client& client,
                                         api::CompletionRequest request, uint64_t seed) {
  KVASIR_TRY_VOID(check_model(model, request.model));
  const text::Tokenizer& tokenizer = model.prompts->tokenizer();
  AnswerPlan plan;
  for (const api::Prompt& prompt : request.prompts) {
    PlannedChoice choice;
    GenerationOrder& order = choice.order;
    KVASIR_TRY(order, common_order(model, client, request, seed));
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
      for (int32_t id : *ids) {
        if (id < 0 || static_cast<size_t>(id) >= model.n_vocab)
          return api::ApiError::of(api::Code::kInvalidValue, "prompt",
                                   "'prompt' holds token {}, the vocabulary has {}", id,
                                   model.n_vocab);
        if (request.echo) choice.echo += tokenizer.bytes(id, text::SpecialTokens::kParse);
      }
      order.prompt = *ids;
    } else {
      const std::string& text = std::get<std::string>(prompt);
      order.prompt = tokenizer.encode(text, text::SpecialTokens::kParse);
      if (request.echo) choice.echo = text;
    }
    if (order.prompt.empty())
      return api::ApiError::of(api::Code::kInvalidValue, "prompt", "'prompt' has no tokens");
    KVASIR_TRY(order.tokens_max,
               answer_tokens(model, "prompt", order.prompt.size(), request.max_tokens));
    if (!request.max_tokens) order.tokens_max = std::min(order.tokens_max, kCompletionTokens);
    order.wants_prompt_logprobs = request.echo && order.wants_logprobs;
    plan.prompt_tokens += order.prompt.size();
    add_choices(plan, std::move(choice), request.choices);
  }
  plan.request = std::move(request);
  return plan;
}

api::ApiError error_of(const engine::Refused& refused) {
  switch (refused.reason) {
    case engine::Refusal::kInvalid:
    case engine::Refusal::kTooLarge:
      return api::from_error(refused.error, "");
    case engine::Refusal::kQueueFull:
    case engine::Refusal::kUserQueueFull:
      return api::ApiError::of(api::Code::kQueueFull, "", "{}; try again", refused.error.message)
          .retry_after(kRetryAfterS);
    case engine::Refusal::kClosed:
      break;
  }
  return api::ApiError::of(api::Code::kDraining, "", "this server is shutting down")
      .retry_after(kRetryAfterS);
}

}  // namespace kvasir::serve
