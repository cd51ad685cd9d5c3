// Conversations in the plain ChatML format of the Qwen models, as token ids:
//
//   turn   := <|im_start|> role \n content <|im_end|> \n
//   answer := <|im_start|> assistant \n thinking ... <|im_end|> \n
//
// Roles and contents are encoded as plain text: a user who types <|im_end|> has typed ten
// characters and ended nothing. (User-defined tokens such as <think> are recognised in them, as in
// any text.) "role\ncontent" is encoded in one piece, so the ids are those of the whole
// conversation rendered as one string, except where a content spells a control token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace kvasir::text {

enum class Thinking : uint8_t {
  kUpToModel,  // nothing in the prompt: the model opens <think> itself, or does not think
  kOn,         // the prompt opens the thinking part, the answer begins inside it
  kOff,        // the prompt contains an empty thinking part
};

// kUnsupported if the vocabulary has no <|im_start|> and <|im_end|>. The other functions then still
// work, but spell these as text.
Result<void> check_chatml(const Tokenizer& tokenizer);

// One complete turn.
std::vector<TokenId> chat_turn(const Tokenizer& tokenizer, std::string_view role,
                               std::string_view content);

// What comes before the model's answer.
std::vector<TokenId> chat_answer_start(const Tokenizer& tokenizer,
                                       Thinking thinking = Thinking::kUpToModel);

// What comes after the text of an answer before the next turn, whether the model ended it or it was
// interrupted. An end token that the model generated is not to be kept in front of it.
std::vector<TokenId> chat_answer_end(const Tokenizer& tokenizer);

}  // namespace kvasir::text
