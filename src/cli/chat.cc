// kvasir chat: a conversation on the terminal, or piped, one line a turn.
#include <unistd.h>

#include "cli/cli.h"
#include "cli/generation.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/prompt.h"
#include "cli/verbs.h"
#include "text/chatml.h"

namespace kvasir::cli {
namespace {

constexpr uint64_t kDefaultTokens = 1024;
// Contexts that are proposed are multiples of this: easy to type, and no waste worth naming.
constexpr uint64_t kContextStep = 256;

text::Thinking thinking(ThinkingFlag flag) {
  switch (flag) {
    case ThinkingFlag::kAuto:
      return text::Thinking::kUpToModel;
    case ThinkingFlag::kOn:
      return text::Thinking::kOn;
    case ThinkingFlag::kOff:
      return text::Thinking::kOff;
  }
  return text::Thinking::kUpToModel;
}

// One conversation, whose sequence keeps everything said. One thread.
class Conversation {
 public:
  Conversation(const ChatOptions& options, engine::SamplerOptions sampling, Session& session,
               const text::Tokenizer& tokenizer)
      : options_(options),
        session_(session),
        tokenizer_(tokenizer),
        generation_(session, tokenizer, std::move(sampling)) {}

  Result<void> reset() {
    answered_ = false;
    return generation_.reset();
  }

  // kLimit, with the conversation as it was, if the turn does not fit into the context.
  Result<Answer> take_turn(const std::string& text, const TextSink& on_text) {
    std::vector<text::TokenId> prompt;
    const auto append = [&](const std::vector<text::TokenId>& ids) {
      prompt.insert(prompt.end(), ids.begin(), ids.end());
    };
    if (answered_) {
      append(text::chat_answer_end(tokenizer_));
    } else if (!options_.system.empty()) {
      append(text::chat_turn(tokenizer_, "system", options_.system));
    }
    append(text::chat_turn(tokenizer_, "user", text));
    append(text::chat_answer_start(tokenizer_, thinking(options_.thinking)));

    const uint64_t used = generation_.size() + prompt.size();
    if (used >= session_.context()) {
      return Error::limit("the conversation would have {} with this turn, the context has {}",
                          counted(used, "token"), session_.context())
          .with_hint(fmt::format("start anew with /reset, or start the chat with --ctx {} or more",
                                 context_for(used)));
    }
    const uint64_t room = session_.context() - used;
    KVASIR_TRY(Answer answer,
               generation_.answer({prompt, std::min(room, options_.tokens.value_or(kDefaultTokens)),
                                   options_.stops, LogitsHash::kNone, std::nullopt},
                                  on_text));
    answered_ = true;
    return answer;
  }

 private:
  // Room for `used` tokens and an answer to them, as a round number.
  uint64_t context_for(uint64_t used) const {
    const uint64_t need = used + options_.tokens.value_or(kDefaultTokens);
    return std::min((need + kContextStep - 1) / kContextStep * kContextStep, model::kContextMax);
  }

  const ChatOptions& options_;
  Session& session_;
  const text::Tokenizer& tokenizer_;
  Generation generation_;
  bool answered_ = false;  // an answer's end has to be fed before the next turn
};

constexpr std::string_view kCommands =
    "/reset   forget the conversation\n"
    "/exit    end (so does Ctrl-D); Ctrl-C stops an answer\n"
    "/help    this list\n";

// Reads and answers until the input ends.
class Repl {
 public:
  Repl(const ChatOptions& options, uint64_t seed, Session& session, Conversation& conversation)
      : options_(options), seed_(seed), session_(session), conversation_(conversation) {}

  Result<void> run() {
    const InterruptScope interrupts;
    if (terminal_) say("Say something; /help lists the commands.\n");
    std::string line;
    for (;;) {
      if (terminal_) say("> ");
      const LineReader::Event event = lines_.next(line);
      InterruptScope::clear();
      if (event == LineReader::Event::kInterrupted) {
        say("\nnote:  Ctrl-C stops an answer; /exit or Ctrl-D ends the program\n");
        continue;
      }
      if (event == LineReader::Event::kEnd) {
        if (terminal_) say("\n");
        return {};
      }
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (line == "/exit") return {};
      KVASIR_TRY_VOID(line.front() == '/' ? obey(line) : answer(line));
    }
  }

 private:
  static void say(std::string_view text) {
    fmt::print(stderr, "{}", text);
    std::fflush(stderr);
  }

  Result<void> obey(const std::string& command) {
    if (command == "/reset") return conversation_.reset();
    if (command != "/help") say("note:  no such command\n");
    say(kCommands);
    return {};
  }

  Result<void> answer(const std::string& line) {
    bool at_line_start = true;
    const TextSink write = [&](std::string_view text) {
      at_line_start = text.back() == '\n';
      return output_.write(text);
    };
    Result<Answer> answer = conversation_.take_turn(line, write);
    if (!answer) {
      // Somebody at a terminal can mend that; a script cannot.
      if (answer.error().kind != ErrorKind::kLimit || !terminal_) return std::move(answer.error());
      say(fmt::format("error: {}\nhint:  {}\n", on_one_line(answer.error().message),
                      on_one_line(answer.error().hint)));
      return {};
    }
    if (!at_line_start) KVASIR_TRY_VOID(output_.write("\n"));
    if (answer->stop == Stop::kLength)
      say(fmt::format("note:  cut off after {}\n", counted(answer->tokens, "token")));
    if (options_.compute.stats) print_statistics(session_, *answer, seed_);
    return {};
  }

  const ChatOptions& options_;
  uint64_t seed_;
  Session& session_;
  Conversation& conversation_;
  LineReader lines_;
  Output output_ = Output::standard();
  const bool terminal_ = ::isatty(STDIN_FILENO) == 1;
};

}  // namespace

Result<int> chat(const ChatOptions& options) {
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(auto tokenizer, text::Tokenizer::load(file->metadata()));
  KVASIR_TRY_VOID(text::check_chatml(tokenizer));
  KVASIR_TRY(auto hp, model::read_hyper_parameters(file->metadata()));
  KVASIR_TRY(engine::SamplerOptions sampling,
             sampler_options(options.sampling, file->metadata(), hp.n_vocab));
  KVASIR_TRY(auto session, Session::open(file, options.compute,
                                         options.compute.context.value_or(default_context(hp))));
  Conversation conversation(options, sampling, *session, tokenizer);
  KVASIR_TRY_VOID(conversation.reset());
  KVASIR_TRY_VOID(Repl(options, sampling.seed, *session, conversation).run());
  return kSuccess;
}

}  // namespace kvasir::cli
