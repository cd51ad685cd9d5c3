// One answer under way: the generations of its choices, their events as the bytes of a dialect,
// streamed or gathered.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "api/answer.h"
#include "api/answer_parser.h"
#include "serve/planning.h"
#include "serve/server_state.h"
#include "serve/visit.h"

namespace kvasir::serve {

// The loop's thread only. The server keeps it until the generator has said the last word.
class Answering : public std::enable_shared_from_this<Answering> {
 public:
  // Submits and, if that is wanted, begins to stream; or answers with an error.
  static void begin(ServerState& state, std::shared_ptr<Visit> visit, AnswerPlan plan);

  // Ends it with an error, if it has not ended.
  void abort(const api::ApiError& error);

 private:
  enum class Phase : uint8_t { kPlanned, kSubmitted, kEnded };
  struct ChoiceState {
    Phase phase = Phase::kPlanned;
    uint64_t generation = 0;
    std::unique_ptr<api::AnswerParser> parser;  // of chats
    bool prompt_is_read = false;
    bool is_thinking = false;
    size_t reasoning_tokens = 0;
    net::Time token_at = 0;  // of the last one
    engine::Usage usage;
    std::string logits_hash;
  };
  // Events on their way from other threads: the loop is woken once for many of them.
  struct Mailbox;

  Answering(ServerState& state, std::shared_ptr<Visit> visit, AnswerPlan plan);
  bool start();
  bool submit(size_t choice);
  void on_mail();
  void on_event(size_t choice, GenerationEvent event);
  void on_progress(size_t choice, const engine::PromptProgress& progress);
  void on_piece(size_t choice, TextPiece piece);
  void on_end(size_t choice, const GenerationEnded& end);
  void submit_followers(size_t leader);
  void emit(const std::vector<api::AnswerEvent>& events);
  void emit_echo(size_t choice, std::vector<api::TokenLogprob> scores);
  void complete();
  void cancel_all();
  void close_if_done();
  void keep_alive();
  api::Usage usage() const;
  api::Details details() const;
  // What the swarm has computed so far, for everybody.
  api::Details swarm_totals() const;
  bool is_over() const { return answered_ || visit_->over(); }

  ServerState& state_;
  const std::shared_ptr<const ServedModel> model_;
  const std::shared_ptr<Visit> visit_;
  AnswerPlan plan_;
  api::AnswerHead head_;
  std::vector<ChoiceState> choices_;
  std::shared_ptr<Mailbox> mailbox_;
  std::unique_ptr<api::StreamEncoder> encoder_;  // null: gathered
  bool streaming_ = false;                       // the head is out
  api::AnswerCollector collector_;
  bool answered_ = false;

  engine::PromptProgress progress_;  // of the first choice
  bool is_read_ = false;             // the prompt, or some of it
  net::Time submitted_at_ = 0, running_at_ = 0, first_token_at_ = 0;
  net::Time written_at_ = 0;
  api::Details swarm_before_;
  net::Timer keep_alive_;
  net::Timer follow_;  // choices that wait for room
};

}  // namespace kvasir::serve
