// Conversations as the tokens that a model continues: by the template in its file, or by ChatML.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/request.h"
#include "gguf/metadata.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir::serve {

struct ChatPrompt {
  std::vector<int32_t> tokens;
  std::string text;
  // Where other conversations are likely to go on differently (engine::Request::turn_ends).
  std::vector<size_t> turn_ends;
  bool opens_thinking = false;  // the answer begins inside a thinking part
};

// Immutable; thread-safe.
class PromptMaker {
 public:
  static PromptMaker make(text::Tokenizer tokenizer, const gguf::Metadata& metadata);

  // kUnsupportedValue if this model knows no conversations, kInvalidMessages for what its template
  // refuses. time_unix_s: what templates show as today's date.
  api::Outcome<ChatPrompt> chat(const api::ChatRequest& request, int64_t time_unix_s) const;
  // Text of /v1/completions and /tokenize.
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

  const std::string& template_text() const { return template_text_; }  // empty: no conversations
  const std::string& reason() const { return reason_; }                // why not
  bool knows_thinking() const { return knows_thinking_; }
  bool knows_tools() const { return knows_tools_; }

 private:
  explicit PromptMaker(text::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  std::vector<size_t> turn_ends(const std::vector<int32_t>& tokens) const;

  text::Tokenizer tokenizer_;
  std::string template_text_;
  std::optional<text::ChatTemplate> template_;
  std::string reason_;
  std::string bos_, eos_;
  bool knows_thinking_ = false;
  bool knows_tools_ = false;
};

}  // namespace kvasir::serve
