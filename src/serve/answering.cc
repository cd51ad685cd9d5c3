#include "serve/answering.h"

#include <algorithm>

#include "swarm/shared_dispatcher.h"

namespace kvasir::serve {
namespace {

// Further choices of a request that wait for room in the queue: how often they try, how long.
constexpr net::Time kFollowAgainMs = 20;
constexpr net::Time kFollowersWithinMs = 600'000;

api::FinishReason finish_reason(engine::FinishReason reason) {
  return reason == engine::FinishReason::kLength ? api::FinishReason::kLength
                                                 : api::FinishReason::kStop;
}

api::ApiError failure(const std::optional<Error>& error) {
  if (error && error->kind == ErrorKind::kUntrusted) {
    return api::ApiError::of(api::Code::kInternal, "",
                             "a worker gave wrong numbers for this answer, what was sent of it is "
                             "not the model's; ask again");
  }
  if (!error) return api::ApiError::of(api::Code::kInternal, "", "the answer was cancelled");
  return api::from_error(*error, "");
}

api::ApiError draining() {
  return api::ApiError::of(api::Code::kDraining, "", "this server is shutting down").retry_after(5);
}

std::unique_ptr<api::StreamEncoder> make_encoder(const AnswerPlan& plan,
                                                 const api::AnswerHead& head) {
  if (const auto* chat = std::get_if<api::ChatRequest>(&plan.request))
    return api::answer_stream(*chat, head);
  return api::completion_stream(std::get<api::CompletionRequest>(plan.request), head);
}

}  // namespace

struct Answering::Mailbox : std::enable_shared_from_this<Answering::Mailbox> {
  Mailbox(net::EventLoop& the_loop, std::weak_ptr<Answering> the_owner)
      : loop(the_loop), owner(std::move(the_owner)) {}

  void put(size_t choice, GenerationEvent event) {
    {
      const std::lock_guard lock(mutex);
      waiting.emplace_back(choice, std::move(event));
      if (std::exchange(is_posted, true)) return;
    }
    loop.post([self = shared_from_this()] {
      if (const auto answering = self->owner.lock()) answering->on_mail();
    });
  }
  std::vector<std::pair<size_t, GenerationEvent>> take() {
    const std::lock_guard lock(mutex);
    is_posted = false;
    return std::exchange(waiting, {});
  }

  net::EventLoop& loop;
  const std::weak_ptr<Answering> owner;
  std::mutex mutex;
  std::vector<std::pair<size_t, GenerationEvent>> waiting;  // guarded by mutex
  bool is_posted = false;                                   // guarded by mutex
};

void Answering::begin(ServerState& state, std::shared_ptr<Visit> visit, AnswerPlan plan) {
  std::shared_ptr<Answering> answering(new Answering(state, std::move(visit), std::move(plan)));
  answering->mailbox_ = std::make_shared<Mailbox>(state.loop, answering);
  state.answering.insert(answering);
  if (!answering->start()) answering->close_if_done();
}

Answering::Answering(ServerState& state, std::shared_ptr<Visit> visit, AnswerPlan plan)
    : state_(state),
      model_(state.model),
      visit_(std::move(visit)),
      plan_(std::move(plan)),
      choices_(plan_.choices.size()),
      collector_(static_cast<uint32_t>(choices_.size())),
      keep_alive_(state.loop),
      follow_(state.loop) {
  head_ = {random_id(), unix_ms() / 1000, plan_.generation().model, model_->system_fingerprint()};
  const auto* chat = std::get_if<api::ChatRequest>(&plan_.request);
  for (size_t i = 0; chat != nullptr && i < choices_.size(); ++i) {
    choices_[i].parser = std::make_unique<api::AnswerParser>(
        plan_.format,
        plan_.generation().stream.on ? api::CallArguments::kStreamed : api::CallArguments::kWhole,
        chat->tools, random_id(), static_cast<uint32_t>(i));
    choices_[i].is_thinking = plan_.format.begins_in_reasoning;
  }
  visit_->record().prompt_tokens = plan_.prompt_tokens;
}

// False if nothing is under way.
bool Answering::start() {
  submitted_at_ = net::EventLoop::now();
  if (plan_.generation().details) swarm_before_ = swarm_totals();
  for (size_t i = 0; i < choices_.size(); ++i)
    if (!plan_.choices[i].after && !submit(i)) return false;
  visit_->on_gone([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->cancel_all();
    self->close_if_done();
  });
  if (!plan_.generation().stream.on) return true;
  encoder_ = make_encoder(plan_, head_);
  streaming_ = true;
  visit_->begin_stream();
  api::Usage known;
  known.prompt_tokens = plan_.prompt_tokens;
  visit_->write(encoder_->begin(known));
  written_at_ = net::EventLoop::now();
  keep_alive();
  return true;
}

// False if it was refused, and the visit answered. A choice that follows another one waits for
// room: the request was let in with its first choice.
bool Answering::submit(size_t choice) {
  const bool may_wait = plan_.choices[choice].after.has_value();
  GenerationOrder order =
      may_wait ? plan_.choices[choice].order : std::move(plan_.choices[choice].order);
  auto submitted = model_->generator->submit(std::move(order),
                                             [mailbox = mailbox_, choice](GenerationEvent event) {
                                               mailbox->put(choice, std::move(event));
                                             });
  const bool is_full = !submitted && (submitted.error().reason == engine::Refusal::kQueueFull ||
                                      submitted.error().reason == engine::Refusal::kUserQueueFull);
  if (may_wait && is_full && net::EventLoop::now() < submitted_at_ + kFollowersWithinMs) {
    follow_.at(net::EventLoop::now() + kFollowAgainMs, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      for (size_t leader = 0; leader < self->choices_.size(); ++leader)
        if (self->choices_[leader].prompt_is_read || self->choices_[leader].phase == Phase::kEnded)
          self->submit_followers(leader);
      self->close_if_done();
    });
    return true;
  }
  if (!submitted) {
    choices_[choice].phase = Phase::kEnded;
    abort(error_of(submitted.error()));
    return false;
  }
  choices_[choice].generation = *submitted;
  choices_[choice].phase = Phase::kSubmitted;
  return true;
}

void Answering::on_mail() {
  const auto self = shared_from_this();
  for (auto& [choice, event] : mailbox_->take()) on_event(choice, std::move(event));
  close_if_done();
}

void Answering::on_event(size_t choice, GenerationEvent event) {
  if (auto* progress = std::get_if<engine::PromptProgress>(&event)) {
    on_progress(choice, *progress);
  } else if (auto* scores = std::get_if<PromptScores>(&event)) {
    emit_echo(choice, std::move(scores->tokens));
  } else if (auto* piece = std::get_if<TextPiece>(&event)) {
    on_piece(choice, std::move(*piece));
  } else {
    on_end(choice, std::get<GenerationEnded>(event));
  }
}

void Answering::on_progress(size_t choice, const engine::PromptProgress& progress) {
  if (running_at_ == 0) running_at_ = net::EventLoop::now();
  if (choice == 0) {
    progress_ = progress;
    is_read_ = true;
    if (encoder_ && plan_.generation().stream.return_progress && !is_over()) {
      visit_->write(encoder_->progress(progress.done, progress.total));
      written_at_ = net::EventLoop::now();
    }
  }
  if (progress.done < progress.total) return;
  choices_[choice].prompt_is_read = true;
  emit_echo(choice, {});
  submit_followers(choice);
}

// Once, before anything that was generated; with the scores of the prompt if these were asked for.
void Answering::emit_echo(size_t choice, std::vector<api::TokenLogprob> scores) {
  std::string& echo = plan_.choices[choice].echo;
  if (echo.empty()) return;
  emit({{static_cast<uint32_t>(choice),
         api::TextDelta{std::exchange(echo, {}), std::move(scores)}}});
}

void Answering::submit_followers(size_t leader) {
  if (is_over()) return;
  for (size_t i = 0; i < choices_.size(); ++i)
    if (plan_.choices[i].after == leader && choices_[i].phase == Phase::kPlanned && !submit(i))
      return;
}

void Answering::on_piece(size_t choice, TextPiece piece) {
  ChoiceState& state = choices_[choice];
  const net::Time now = net::EventLoop::now();
  if (piece.tokens > 0) {
    if (first_token_at_ == 0) {
      first_token_at_ = now;
      visit_->record().first_token_seconds = static_cast<double>(now - visit_->began()) / 1000;
      state_.metrics.first_token(visit_->record().first_token_seconds);
    }
    if (state.token_at != 0)
      state_.metrics.token_interval(static_cast<double>(now - state.token_at) / 1000);
    state.token_at = now;
  }
  if (is_over()) return;
  if (!state.parser) {
    if (!piece.text.empty() || !piece.logprobs.empty())
      emit({{static_cast<uint32_t>(choice),
             api::TextDelta{std::move(piece.text), std::move(piece.logprobs)}}});
    return;
  }
  const auto events = state.parser->feed(piece.text, std::move(piece.logprobs));
  for (const api::AnswerEvent& event : events) {
    if (std::holds_alternative<api::ReasoningDelta>(event.what))
      state.is_thinking = true;
    else if (!std::holds_alternative<api::TextDelta>(event.what) ||
             !std::get<api::TextDelta>(event.what).text.empty())
      state.is_thinking = false;
  }
  if (state.is_thinking) state.reasoning_tokens += piece.tokens;
  emit(events);
}

void Answering::on_end(size_t choice, const GenerationEnded& end) {
  ChoiceState& state = choices_[choice];
  state.phase = Phase::kEnded;
  state.usage = end.usage;
  state.logits_hash = end.logits_hash;
  if (is_over()) return;
  if (end.reason == engine::FinishReason::kFailed) return abort(failure(end.error));
  if (end.reason == engine::FinishReason::kCancelled)
    return abort(state_.draining ? draining() : failure(std::nullopt));
  const api::FinishReason reason = finish_reason(end.reason);
  visit_->record().finish = reason == api::FinishReason::kLength ? "length" : "stop";
  if (state.parser) {
    emit(state.parser->finish(reason, end.stop));
  } else {
    emit({{static_cast<uint32_t>(choice), api::Finished{reason, end.stop}}});
  }
  submit_followers(choice);  // should the prompt have ended without progress
  if (std::all_of(choices_.begin(), choices_.end(),
                  [](const ChoiceState& c) { return c.phase == Phase::kEnded; }))
    complete();
}

void Answering::emit(const std::vector<api::AnswerEvent>& events) {
  if (is_over()) return;
  for (const api::AnswerEvent& event : events) {
    if (!encoder_) {
      collector_.add(event);
      continue;
    }
    visit_->write(encoder_->encode(event));
    written_at_ = net::EventLoop::now();
  }
}

void Answering::complete() {
  if (is_over()) return;
  answered_ = true;
  const api::Usage total = usage();
  visit_->record().cached_tokens = total.cached_tokens;
  visit_->record().generated_tokens = total.completion_tokens;
  const api::Details known = details();
  const api::Details* shown = plan_.generation().details ? &known : nullptr;
  if (encoder_) {
    visit_->write(encoder_->end(total, shown));
    visit_->end_stream();
    return;
  }
  const auto* chat = std::get_if<api::ChatRequest>(&plan_.request);
  visit_->answer(200, chat != nullptr
                          ? api::whole_answer(*chat, head_, collector_.choices(), total, shown)
                          : api::completion_answer(std::get<api::CompletionRequest>(plan_.request),
                                                   head_, collector_.choices(), total, shown));
}

void Answering::abort(const api::ApiError& error) {
  cancel_all();
  if (is_over()) return;
  answered_ = true;
  visit_->record().generated_tokens = usage().completion_tokens;
  if (!streaming_) return visit_->fail(error);
  visit_->record().error = api::info(error.code).name;
  visit_->write(encoder_->fail(error, visit_->id()));
  visit_->end_stream();
}

void Answering::cancel_all() {
  for (ChoiceState& choice : choices_) {
    if (choice.phase == Phase::kPlanned) choice.phase = Phase::kEnded;
    // Its last event still comes.
    if (choice.phase == Phase::kSubmitted) model_->generator->cancel(choice.generation);
  }
}

void Answering::close_if_done() {
  const bool done = std::none_of(choices_.begin(), choices_.end(), [](const ChoiceState& choice) {
    return choice.phase == Phase::kSubmitted;
  });
  if (!done || !is_over()) return;
  keep_alive_.cancel();
  follow_.cancel();
  state_.answering.erase(shared_from_this());
}

// Proxies cut connections on which nothing is said for a minute or so.
void Answering::keep_alive() {
  if (is_over()) return;
  const net::Time now = net::EventLoop::now();
  const net::Time due = written_at_ + state_.options.keep_alive_ms;
  if (now >= due) {
    const bool prompt_is_read = choices_.front().prompt_is_read;
    visit_->write(is_read_ && !prompt_is_read ? encoder_->progress(progress_.done, progress_.total)
                                              : encoder_->keep_alive());
    written_at_ = now;
  }
  keep_alive_.at(written_at_ + state_.options.keep_alive_ms, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->keep_alive();
  });
}

api::Usage Answering::usage() const {
  api::Usage usage;
  usage.prompt_tokens = plan_.prompt_tokens;
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].usage.generated_tokens;
    usage.reasoning_tokens += choices_[i].reasoning_tokens;
    if (!plan_.choices[i].after) usage.cached_tokens += choices_[i].usage.cached_tokens;
  }
  return usage;
}

api::Details Answering::details() const {
  api::Details details;
  const net::Time now = net::EventLoop::now();
  const net::Time running = running_at_ != 0 ? running_at_ : now;
  const net::Time first = first_token_at_ != 0 ? first_token_at_ : now;
  details.queue_ms = static_cast<double>(running - submitted_at_);
  details.prefill_ms = static_cast<double>(first - running);
  details.decode_ms = static_cast<double>(now - first);
  details.logits_hash = choices_.front().logits_hash;
  // Micro-batches are shared, so rows are counted for all requests that ran meanwhile.
  const api::Details totals = swarm_totals();
  details.remote_rows = totals.remote_rows - swarm_before_.remote_rows;
  details.local_rows = totals.local_rows - swarm_before_.local_rows;
  details.hedged_rows = totals.hedged_rows - swarm_before_.hedged_rows;
  details.workers = totals.workers;
  return details;
}

api::Details Answering::swarm_totals() const {
  api::Details totals;
  if (state_.dispatcher == nullptr) return totals;
  const swarm::SwarmStatus status = state_.dispatcher->with(
      [](const swarm::Dispatcher& dispatcher) { return dispatcher.status(swarm::now_us()); });
  for (size_t i = 0; i < swarm::kWhys; ++i) {
    const auto why = static_cast<swarm::Why>(i);
    (swarm::is_remote(why) ? totals.remote_rows : totals.local_rows) += status.pairs[i];
    if (why == swarm::Why::kHedge) totals.hedged_rows += status.pairs[i];
  }
  totals.workers = static_cast<uint32_t>(status.workers.size());
  return totals;
}

}  // namespace kvasir::serve
