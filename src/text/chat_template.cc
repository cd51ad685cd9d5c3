#include "text/chat_template.h"

#include "text/special_tokens.h"
#include "text/template_evaluator.h"
#include "text/template_parser.h"

namespace kvasir::text {

struct ChatTemplate::Data {
  templates::ast::Template tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  auto tree = templates::parse_template(source);
  if (!tree) return std::move(tree.error()).in("chat template");
  return ChatTemplate(std::unique_ptr<const Data>(new Data{std::move(*tree)}));
}

Result<std::vector<RenderedPiece>> ChatTemplate::render(const TemplateValue& context,
                                                        const TemplateLimits& limits,
                                                        int64_t time_unix_s) const {
  auto text = templates::Evaluator(data_->tree, limits, time_unix_s).run(context);
  if (!text) return std::move(text.error()).in("chat template");
  std::vector<RenderedPiece> pieces;
  size_t begin = 0;
  for (const auto& run : text->runs()) {
    pieces.push_back(
        {text->text().substr(begin, run.end - begin), run.origin == templates::Origin::kTemplate});
    begin = run.end;
  }
  return pieces;
}

std::string joined_text(const std::vector<RenderedPiece>& pieces) {
  std::string text;
  for (const RenderedPiece& piece : pieces) text += piece.text;
  return text;
}

std::vector<TokenId> chat_tokens(const Tokenizer& tokenizer,
                                 const std::vector<RenderedPiece>& pieces) {
  std::vector<TokenId> ids;
  std::string plain;  // since the last control token
  const auto flush = [&] {
    const auto more = tokenizer.encode(plain, SpecialTokens::kPlainText);
    ids.insert(ids.end(), more.begin(), more.end());
    plain.clear();
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].from_template) {
      plain += pieces[i].text;
      continue;
    }
    std::string text = pieces[i].text;
    while (i + 1 < pieces.size() && pieces[i + 1].from_template) text += pieces[++i].text;
    for (const TextPiece& part : tokenizer.cut_at_special_tokens(text)) {
      if (part.token < 0 || tokenizer.type(part.token) == TokenType::kUserDefined) {
        plain += part.text;
      } else {
        flush();
        ids.push_back(part.token);
      }
    }
  }
  flush();
  return ids;
}

}  // namespace kvasir::text
