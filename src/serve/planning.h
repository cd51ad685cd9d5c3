// A request of the API as orders for the generator: everything is checked here, before the first
// byte of an answer is sent. Takes time (tokens, templates, schemas); on no event loop.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/answer_parser.h"
#include "api/request.h"
#include "serve/served_model.h"

namespace kvasir::serve {

// Who asks.
struct Client {
  std::string user;
  std::string prefix_scope;
};

struct PlannedChoice {
  GenerationOrder order;
  // Begins when this choice's prompt has been read: it finds it in the prefix cache.
  std::optional<size_t> after;
  // Of completions with "echo".
  std::string echo;
};

struct AnswerPlan {
  std::variant<api::ChatRequest, api::CompletionRequest> request;
  api::AnswerFormat format;  // of a chat
  std::vector<PlannedChoice> choices;
  uint64_t prompt_tokens = 0;  // of all prompts, each once

  const api::Generation& generation() const {
    return std::visit([](const auto& r) -> const api::Generation& { return r; }, request);
  }
};

// seed: for requests that name none.
api::Outcome<AnswerPlan> plan_chat(const ServedModel& model, const Client& client,
                                   api::ChatRequest request, uint64_t seed, int64_t time_unix_s);
api::Outcome<AnswerPlan> plan_completion(const ServedModel& model, const Client& client,
                                         api::CompletionRequest request, uint64_t seed);

// The error of what the scheduler refused.
api::ApiError error_of(const engine::Refused& refused);
// kModelNotFound.
api::Outcome<void> check_model(const ServedModel& model, const std::string& name);

}  // namespace kvasir::serve
