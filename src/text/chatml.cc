#include "text/chatml.h"

#include <string>

namespace kvasir::text {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

void append(std::vector<TokenId>& ids, const std::vector<TokenId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

}  // namespace

Result<void> check_chatml(const Tokenizer& tokenizer) {
  for (const std::string_view token : {kStart, kEnd}) {
    const TokenId id = tokenizer.find(token);
    if (id < 0 || tokenizer.type(id) != TokenType::kControl) {
      return Error::unsupported("the vocabulary has no control token {}, which ChatML needs", token)
          .with_hint("this model was not made for chat: use 'kvasir generate'");
    }
  }
  return {};
}

std::vector<TokenId> chat_turn(const Tokenizer& tokenizer, std::string_view role,
                               std::string_view content) {
  std::vector<TokenId> ids = tokenizer.encode(kStart, SpecialTokens::kParse);
  std::string text(role);
  text.append("\n").append(content);
  append(ids, tokenizer.encode(text, SpecialTokens::kPlainText));
  append(ids, chat_answer_end(tokenizer));
  return ids;
}

std::vector<TokenId> chat_answer_start(const Tokenizer& tokenizer, Thinking thinking) {
  std::string text(kStart);
  text += "assistant\n";
  if (thinking == Thinking::kOn) text += "<think>\n";
  if (thinking == Thinking::kOff) text += "<think>\n\n</think>\n\n";
  return tokenizer.encode(text, SpecialTokens::kParse);
}

std::vector<TokenId> chat_answer_end(const Tokenizer& tokenizer) {
  return tokenizer.encode(std::string(kEnd) + "\n", SpecialTokens::kParse);
}

}  // namespace kvasir::text
