#include "serve/token_text.h"

namespace kvasir::serve {

engine::AfterToken TokenText::take(int32_t token) {
  if (tokenizer_.is_end_of_generation(token)) return engine::AfterToken::kEndWithout;
  const std::string decoded = detokenizer_.push(tokenizer_.bytes(token));
  decoded_bytes_ += decoded.size();
  api::StopStrings::Released released = stops_.feed(decoded);
  ready_ += released.text;
  released_bytes_ += released.text.size();
  stop_ = std::move(released.stop);
  return stop_.empty() ? engine::AfterToken::kGoOn : engine::AfterToken::kEndWith;
}

TextPiece TokenText::piece(const std::optional<engine::Logprobs>& logprobs) {
  TextPiece piece{std::exchange(ready_, {}), {}, 1};
  if (logprobs) scores_.push_back({decoded_bytes_, token_logprob(tokenizer_, *logprobs)});
  take_scores(piece, false);
  return piece;
}

TextPiece TokenText::finish() {
  TextPiece piece{std::exchange(ready_, {}), {}, 0};
  if (!stop_.empty()) return piece;
  const std::string decoded = detokenizer_.finish();
  api::StopStrings::Released released = stops_.feed(decoded);
  stop_ = std::move(released.stop);
  piece.text += released.text;
  if (stop_.empty()) piece.text += stops_.finish();
  take_scores(piece, true);
  return piece;
}

void TokenText::take_scores(TextPiece& piece, bool all) {
  while (!scores_.empty() && (all || scores_.front().text_end <= released_bytes_)) {
    piece.logprobs.push_back(std::move(scores_.front().token));
    scores_.pop_front();
  }
}

api::TokenLogprob token_logprob(const text::Tokenizer& tokenizer,
                                const engine::Logprobs& logprobs) {
  const auto bytes = [&](int32_t id) { return tokenizer.bytes(id, text::SpecialTokens::kParse); };
  api::TokenLogprob token{bytes(logprobs.chosen.token), logprobs.chosen.logprob, {}};
  for (const engine::TokenLogprob& other : logprobs.top)
    token.top.push_back({bytes(other.token), other.logprob});
  return token;
}

}  // namespace kvasir::serve
