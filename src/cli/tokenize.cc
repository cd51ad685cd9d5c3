// kvasir tokenize: text -> token ids.
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/prompt.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace kvasir::cli {
namespace {

std::string_view type_name(text::TokenType type) {
  switch (type) {
    case text::TokenType::kUndefined:
      return "undefined";
    case text::TokenType::kNormal:
      return "normal";
    case text::TokenType::kUnknown:
      return "unknown";
    case text::TokenType::kControl:
      return "control";
    case text::TokenType::kUserDefined:
      return "user-defined";
    case text::TokenType::kUnused:
      return "unused";
    case text::TokenType::kByte:
      return "byte";
  }
  return "?";
}

std::string json_array(const std::vector<text::TokenId>& ids) {
  std::string json = "[";
  for (text::TokenId id : ids) {
    if (json.size() > 1) json += ", ";
    json += std::to_string(id);
  }
  return json + "]\n";
}

std::string table(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& ids) {
  std::string text;
  for (text::TokenId id : ids) {
    text += fmt::format("{:>8}  {:<12}  {}\n", id, type_name(tokenizer.type(id)),
                        quoted(tokenizer.bytes(id, text::SpecialTokens::kParse)));
  }
  return text + counted(ids.size(), "token") + "\n";
}

}  // namespace

Result<int> tokenize(const TokenizeOptions& options) {
  Result<std::string> read = read_prompt(options.prompt);
  if (!read && read.error().kind == ErrorKind::kNotFound)
    return std::move(read.error()).with_hint("a text itself goes after -p");
  KVASIR_TRY(const std::string text, std::move(read));
  KVASIR_TRY(auto file, open_model_file(options.model));
  KVASIR_TRY(auto tokenizer, text::Tokenizer::load(file->metadata()));
  const std::vector<text::TokenId> ids = encode_prompt(tokenizer, text, options.prompt);
  Output output = Output::standard();
  KVASIR_TRY_VOID(output.write(options.json ? json_array(ids) : table(tokenizer, ids)));
  return kSuccess;
}

}  // namespace kvasir::cli
