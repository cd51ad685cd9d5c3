#include "serve/routes.h"

#include "api/plain_answers.h"
#include "serve/answering.h"
#include "swarm/shared_dispatcher.h"

namespace kvasir::serve {
namespace {

using VisitPtr = std::shared_ptr<Visit>;

constexpr uint32_t kLoadingRetryS = 5;
constexpr uint32_t kBusyRetryS = 2;

api::ApiError loading() {
  return api::ApiError::of(api::Code::kModelLoading, "", "the model is being loaded")
      .retry_after(kLoadingRetryS);
}

api::ApiError draining() {
  return api::ApiError::of(api::Code::kDraining, "", "this server is shutting down")
      .retry_after(kLoadingRetryS);
}

std::vector<api::ModelEntry> models_of(const ServerState& state) {
  std::vector<api::ModelEntry> entries;
  if (state.model)
    for (const std::string& name : state.model->names)
      entries.push_back({name, state.model->created_s, state.model->context});
  return entries;
}

void answer_models(ServerState& state, const VisitPtr& visit) {
  visit->answer(200, api::models_answer(models_of(state)));
}

void answer_model(ServerState& state, const VisitPtr& visit) {
  const auto entries = models_of(state);
  for (const api::ModelEntry& entry : entries)
    if (entry.id == visit->parameter()) return visit->answer(200, api::model_answer(entry));
  visit->fail(api::model_not_found(visit->parameter(), entries));
}

void answer_health(ServerState& state, const VisitPtr& visit) {
  if (state.draining) return visit->answer_unhealthy(draining());
  if (!state.model) return visit->answer_unhealthy(loading());
  visit->answer(200, api::health_answer());
}

void answer_ready(ServerState& state, const VisitPtr& visit) {
  if (state.draining) return visit->answer_unhealthy(draining());
  if (!state.ready) return visit->answer_unhealthy(loading());
  visit->answer(200, api::health_answer());
}

void answer_metrics(ServerState& state, const VisitPtr& visit) {
  MetricsView view;
  view.version = state.options.version;
  view.ready = state.ready && !state.draining;
  view.connections = state.http != nullptr ? state.http->connections() : 0;
  if (state.model) {
    view.fingerprint = state.model->fingerprint;
    view.scheduler = state.model->generator->status();
    view.requests = state.model->generator->requests();
  }
  if (state.dispatcher != nullptr)
    view.swarm = state.dispatcher->with(
        [](const swarm::Dispatcher& dispatcher) { return dispatcher.status(swarm::now_us()); });
  visit->answer(200, state.metrics.text(view), "text/plain; version=0.0.4; charset=utf-8");
}

void answer_props(ServerState& state, const VisitPtr& visit) {
  const ServedModel& model = *state.model;
  api::Props props;
  props.model = model.names.front();
  props.fingerprint = model.system_fingerprint();
  props.context = model.context;
  props.slots = static_cast<uint32_t>(model.slots);
  props.chat_template = model.prompts->template_text();
  props.capabilities = {"completions", "logprobs", "json_schema"};
  if (!props.chat_template.empty()) {
    props.capabilities.emplace_back("chat");
    props.capabilities.emplace_back("tools");
  }
  if (model.prompts->knows_thinking()) props.capabilities.emplace_back("reasoning");
  if (state.dispatcher != nullptr) props.capabilities.emplace_back("swarm");
  props.build = "kvasir " + state.options.version;
  visit->answer(200, api::props_answer(props));
}

// Does `work` in the work room; what it returns is called on the loop.
void in_work_room(ServerState& state, const VisitPtr& visit,
                  std::function<std::function<void()>()> work) {
  ++state.planning;
  const bool taken = state.room->give([&state, work = std::move(work)] {
    state.loop.post([&state, finish = work()] {
      --state.planning;
      finish();
    });
  });
  if (taken) return;
  --state.planning;
  visit->fail(api::ApiError::of(api::Code::kQueueFull, "", "too many requests wait to be read")
                  .retry_after(kBusyRetryS));
}

// What a request that generates nothing is answered with.
using Body = api::Outcome<std::string>;

void answer_text(ServerState& state, const VisitPtr& visit,
                 Body (*make)(const ServedModel&, const std::string& body, api::UnknownFields)) {
  in_work_room(state, visit,
               [model = state.model, visit, make,
                unknown = state.options.unknown_fields]() -> std::function<void()> {
                 return [visit, body = make(*model, visit->request().body, unknown)] {
                   if (body)
                     visit->answer(200, *body);
                   else
                     visit->fail(body.error());
                 };
               });
}

Body tokenize(const ServedModel& model, const std::string& body, api::UnknownFields unknown) {
  KVASIR_TRY(const api::TokenizeRequest request, api::parse_tokenize(body, unknown));
  const text::Tokenizer& tokenizer = model.prompts->tokenizer();
  std::vector<api::TokenPiece> tokens;
  const auto special =
      request.parse_special ? text::SpecialTokens::kParse : text::SpecialTokens::kPlainText;
  for (text::TokenId id : tokenizer.encode(request.content, special))
    tokens.push_back({id, tokenizer.bytes(id, text::SpecialTokens::kParse)});
  return api::tokenize_answer(tokens,
                              request.with_pieces ? api::Pieces::kGiven : api::Pieces::kLeftOut);
}

Body detokenize(const ServedModel& model, const std::string& body, api::UnknownFields unknown) {
  KVASIR_TRY(const api::DetokenizeRequest request, api::parse_detokenize(body, unknown));
  const text::Tokenizer& tokenizer = model.prompts->tokenizer();
  std::string text;
  for (int32_t id : request.tokens) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.vocabulary_size())
      return api::ApiError::of(api::Code::kInvalidValue, "tokens",
                               "'tokens' holds {}, the vocabulary has {}", id,
                               tokenizer.vocabulary_size());
    text += tokenizer.bytes(id, text::SpecialTokens::kParse);
  }
  return api::detokenize_answer(text);
}

Body apply_template(const ServedModel& model, const std::string& body, api::UnknownFields unknown) {
  KVASIR_TRY(const api::ChatRequest request, api::parse_apply_template(body, unknown));
  KVASIR_TRY(const ChatPrompt prompt, model.prompts->chat(request, unix_ms() / 1000));
  return api::apply_template_answer(prompt.text);
}

Body count_tokens(const ServedModel& model, const std::string& body, api::UnknownFields unknown) {
  KVASIR_TRY(const api::ChatRequest request, api::parse_count_tokens(body, unknown));
  KVASIR_TRY_VOID(check_model(model, request.model));
  KVASIR_TRY(const ChatPrompt prompt, model.prompts->chat(request, unix_ms() / 1000));
  return api::count_tokens_answer(prompt.tokens.size());
}

api::Outcome<AnswerPlan> make_plan(const ServedModel& model, const Visit& visit,
                                   api::UnknownFields unknown) {
  const std::string& body = visit.request().body;
  const auto chat = [&](api::Outcome<api::ChatRequest> request) -> api::Outcome<AnswerPlan> {
    if (!request) return std::move(request.error());
    return plan_chat(model, visit.client(), std::move(*request), random_seed(), unix_ms() / 1000);
  };
  switch (visit.route()->id) {
    case api::RouteId::kChat:
      return chat(api::parse_chat(body, unknown));
    case api::RouteId::kResponses:
      return chat(api::parse_responses(body, unknown));
    case api::RouteId::kMessages:
      return chat(api::parse_messages(body, unknown));
    default:
      break;
  }
  KVASIR_TRY(api::CompletionRequest request, api::parse_completions(body, unknown));
  return plan_completion(model, visit.client(), std::move(request), random_seed());
}

void generate(ServerState& state, const VisitPtr& visit) {
  in_work_room(state, visit, [&state, model = state.model, visit]() -> std::function<void()> {
    auto plan = std::make_shared<api::Outcome<AnswerPlan>>(
        make_plan(*model, *visit, state.options.unknown_fields));
    return [&state, visit, plan] {
      if (visit->over()) return;
      if (!*plan) return visit->fail(plan->error());
      if (state.draining) return visit->fail(draining());
      Answering::begin(state, visit, std::move(**plan));
    };
  });
}

}  // namespace

void handle(ServerState& state, const VisitPtr& visit) {
  using api::RouteId;
  switch (visit->route()->id) {
    case RouteId::kHealth:
      return answer_health(state, visit);
    case RouteId::kLivez:
      return visit->answer(200, api::health_answer());
    case RouteId::kReadyz:
      return answer_ready(state, visit);
    case RouteId::kMetrics:
      return answer_metrics(state, visit);
    case RouteId::kModels:
      return answer_models(state, visit);
    case RouteId::kModel:
      return answer_model(state, visit);
    case RouteId::kSwarmState:
      return answer_swarm_state(state, visit);
    case RouteId::kWorkerUpgrade:
      if (state.gate) return state.gate->take(visit->hand_over());
      return visit->fail(api::ApiError::of(
          api::Code::kUnknownUrl, "", "this server takes no workers (--swarm lets them join)"));
    case RouteId::kEmbeddings:
      return visit->fail(api::ApiError::of(api::Code::kEmbeddingsNotSupported, "",
                                           "models that write text give no embeddings here"));
    default:
      break;
  }
  // All others need the model.
  if (!state.model) return visit->fail(state.draining ? draining() : loading());
  switch (visit->route()->id) {
    case RouteId::kProps:
      return answer_props(state, visit);
    case RouteId::kTokenize:
      return answer_text(state, visit, tokenize);
    case RouteId::kDetokenize:
      return answer_text(state, visit, detokenize);
    case RouteId::kApplyTemplate:
      return answer_text(state, visit, apply_template);
    case RouteId::kCountTokens:
      return answer_text(state, visit, count_tokens);
    default:
      if (state.draining) return visit->fail(draining());
      return generate(state, visit);
  }
}

}  // namespace kvasir::serve
