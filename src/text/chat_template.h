// A model's chat template (tokenizer.chat_template in its file): Jinja, as the publishers of models
// use it, which turns a conversation into the text that the model continues.
//
//   text := template text and data, piece by piece; special tokens are recognised in the former
//   only
//
// The template comes from a stranger, the data from another. It can read the data it is given and
// nothing else; every step, byte and level of nesting is counted. docs/chat-templates.md describes
// the language.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/template_limits.h"
#include "text/template_value.h"
#include "text/tokenizer.h"

namespace kvasir::text {

struct RenderedPiece {
  std::string text;
  bool from_template = false;
};

// Immutable; thread-safe.
class ChatTemplate {
 public:
  // kCorrupt for what is not Jinja, kUnsupported for tags that are not supported, kLimit if it is
  // larger or nested deeper than allowed; each names line and column.
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `context` is an object: messages, tools, add_generation_prompt, bos_token, ... `time_unix_s` is
  // what strftime_now shows; it is shown as UTC, so add the offset of the time zone that is wanted.
  // Fails with line and column: kInvalid for what the template raises itself or does wrong (Python
  // would raise an exception), kUnsupported for filters and tests that are not supported, kLimit.
  // Neighbouring pieces differ in from_template, none is empty; all are valid UTF-8.
  Result<std::vector<RenderedPiece>> render(const TemplateValue& context,
                                            const TemplateLimits& limits = {},
                                            int64_t time_unix_s = 0) const;

 private:
  struct Data;
  explicit ChatTemplate(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

std::string joined_text(const std::vector<RenderedPiece>& pieces);

// Control tokens are recognised in template text only (also where neighbouring pieces of it meet),
// user-defined ones such as <think> everywhere. Text between control tokens is encoded in one
// piece, so the ids are those of the whole text unless data spells a control token.
std::vector<TokenId> chat_tokens(const Tokenizer& tokenizer,
                                 const std::vector<RenderedPiece>& pieces);

}  // namespace kvasir::text
