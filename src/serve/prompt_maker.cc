#include "serve/prompt_maker.h"

#include "serve/template_context.h"
#include "text/chatml.h"

namespace kvasir::serve {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::string token_text(const text::Tokenizer& tokenizer, const gguf::Metadata& metadata,
                       std::string_view key) {
  const auto id = metadata.get_uint(key);
  if (!id || *id >= tokenizer.vocabulary_size()) return {};
  return std::string(tokenizer.raw(static_cast<text::TokenId>(*id)));
}

bool ends_in_think(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.ends_with("<think>");
}

std::string_view without_white_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Cuts off what the template puts behind the last message, which is to be continued.
bool cut_behind(std::vector<text::RenderedPiece>& pieces, std::string_view last_message) {
  const std::string_view wanted = without_white_space(last_message);
  for (size_t i = pieces.size(); i-- > 0;) {
    const size_t at = pieces[i].text.rfind(wanted);
    if (pieces[i].from_template || wanted.empty() || at == std::string::npos) continue;
    // White space at the end of the message is the model's to go on from, if the template kept it.
    const std::string_view tail = last_message.substr(last_message.rfind(wanted) + wanted.size());
    size_t end = at + wanted.size();
    if (std::string_view(pieces[i].text).substr(end).starts_with(tail)) end += tail.size();
    pieces[i].text.resize(end);
    pieces.resize(i + 1);
    return true;
  }
  return false;
}

}  // namespace

PromptMaker PromptMaker::make(text::Tokenizer tokenizer, const gguf::Metadata& metadata) {
  PromptMaker maker(std::move(tokenizer));
  maker.bos_ = token_text(maker.tokenizer_, metadata, "tokenizer.ggml.bos_token_id");
  maker.eos_ = token_text(maker.tokenizer_, metadata, "tokenizer.ggml.eos_token_id");
  std::string source(metadata.get_string_or("tokenizer.chat_template", "").value_or(""));
  if (source.empty()) {
    if (auto chatml = text::check_chatml(maker.tokenizer_); !chatml) {
      maker.reason_ = "the file holds no chat template, and " + chatml.error().message;
      return maker;
    }
    source = kChatMl;
  }
  auto parsed = text::ChatTemplate::parse(source);
  if (!parsed) {
    maker.reason_ = std::move(parsed.error().message);
    return maker;
  }
  maker.template_.emplace(std::move(*parsed));
  maker.knows_tools_ = source.find("tools") != std::string::npos;
  maker.knows_thinking_ =
      source.find("<think>") != std::string::npos || maker.tokenizer_.find("<think>") >= 0;
  maker.template_text_ = std::move(source);
  return maker;
}

api::Outcome<ChatPrompt> PromptMaker::chat(const api::ChatRequest& request,
                                           int64_t time_unix_s) const {
  if (!template_) {
    return api::ApiError::of(api::Code::kUnsupportedValue, "messages",
                             "this model takes no conversations: {}; use /v1/completions", reason_);
  }
  const TemplateFacts facts{bos_, eos_, knows_tools_};
  KVASIR_TRY(const text::TemplateValue context, template_context(request, facts));
  auto pieces = template_->render(context, {}, time_unix_s);
  if (!pieces) {
    const auto code = pieces.error().kind == ErrorKind::kUnsupported ? api::Code::kUnsupportedValue
                                                                     : api::Code::kInvalidMessages;
    return api::ApiError::of(code, "messages", "{}", pieces.error().message);
  }
  if (request.continue_last_message && !cut_behind(*pieces, request.messages.back().text)) {
    return api::ApiError::of(api::Code::kUnsupportedValue, "continue_final_message",
                             "the last message cannot be continued with this model's template");
  }
  ChatPrompt prompt;
  prompt.text = text::joined_text(*pieces);
  prompt.tokens = text::chat_tokens(tokenizer_, *pieces);
  prompt.turn_ends = turn_ends(prompt.tokens);
  prompt.opens_thinking = !request.continue_last_message && ends_in_think(prompt.text);
  return prompt;
}

// Control tokens come from templates only. The first one behind an end of a turn begins the
// second turn: what is before it (a system prompt, mostly) other conversations begin with, too. The
// last one begins the answer.
std::vector<size_t> PromptMaker::turn_ends(const std::vector<int32_t>& tokens) const {
  std::vector<size_t> begins;
  bool ended = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (ended && tokenizer_.type(tokens[i]) == text::TokenType::kControl) begins.push_back(i);
    ended = tokenizer_.is_end_of_generation(tokens[i]) ||
            (ended && tokenizer_.type(tokens[i]) != text::TokenType::kControl);
  }
  if (begins.size() > 2) begins = {begins.front(), begins.back()};
  return begins;
}

}  // namespace kvasir::serve
