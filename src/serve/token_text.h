// The tokens of one generation as text: whole characters, cut at the first stop string, with the
// log probabilities of the tokens that the text came from.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "api/stop_strings.h"
#include "engine/scheduler_request.h"
#include "serve/generator.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace kvasir::serve {

// One thread at a time.
class TokenText {
 public:
  TokenText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : tokenizer_(tokenizer), stops_(std::move(stops)) {}

  // A token was sampled.
  engine::AfterToken take(int32_t token);
  // What take() made certain.
  TextPiece piece(const std::optional<engine::Logprobs>& logprobs);
  // The end: what was held back.
  TextPiece finish();
  const std::string& stop() const { return stop_; }

 private:
  struct Scored {
    size_t text_end = 0;  // in bytes of the whole text
    api::TokenLogprob token;
  };
  void take_scores(TextPiece& piece, bool all);

  const text::Tokenizer& tokenizer_;
  text::Detokenizer detokenizer_;
  api::StopStrings stops_;
  std::string stop_;
  std::string ready_;
  size_t decoded_bytes_ = 0, released_bytes_ = 0;
  std::deque<Scored> scores_;
};

api::TokenLogprob token_logprob(const text::Tokenizer& tokenizer, const engine::Logprobs& logprobs);

}  // namespace kvasir::serve
