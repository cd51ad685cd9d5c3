#include "text/vocabulary.h"

namespace kvasir::text {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

Result<std::vector<TokenType>> load_types(const gguf::Metadata& metadata, size_t n_tokens) {
  if (!metadata.contains(kTypesKey)) return Error::corrupt("{} is missing", kTypesKey);
  KVASIR_TRY(const std::vector<int64_t> numbers, metadata.get_ints(kTypesKey));
  if (numbers.size() != n_tokens) {
    return Error::corrupt("{}: {} types for {} tokens", kTypesKey, numbers.size(), n_tokens);
  }
  std::vector<TokenType> types;
  types.reserve(n_tokens);
  for (const int64_t number : numbers) {
    if (number < 0 || number > static_cast<int64_t>(TokenType::kByte)) {
      return Error::corrupt("{}: token {} has type {}, known are 0 to 6", kTypesKey, types.size(),
                            number);
    }
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

}  // namespace

Result<Vocabulary> Vocabulary::load(const gguf::Metadata& metadata) {
  if (!metadata.contains(kTokensKey)) return Error::corrupt("{} is missing", kTokensKey);
  KVASIR_TRY(const std::vector<std::string_view> texts, metadata.get_strings(kTokensKey));
  if (texts.empty()) return Error::corrupt("{} is empty", kTokensKey);
  if (texts.size() > kTokensMax) {
    return Error::corrupt("{}: {} tokens, at most {} are accepted", kTokensKey, texts.size(),
                          kTokensMax);
  }

  Vocabulary result;
  KVASIR_TRY(result.types_, load_types(metadata, texts.size()));
  size_t bytes = 0;
  for (const std::string_view text : texts) bytes += text.size();
  result.texts_.reserve(bytes);
  result.begins_.reserve(texts.size() + 1);
  result.ids_.reserve(texts.size());
  result.begins_.push_back(0);
  for (size_t i = 0; i < texts.size(); ++i) {
    result.texts_.insert(result.texts_.end(), texts[i].begin(), texts[i].end());
    result.begins_.push_back(result.texts_.size());
    if (texts[i].empty()) continue;
    const auto id = static_cast<TokenId>(i);
    const auto [other, is_new] = result.ids_.emplace(result.raw(id), id);
    if (!is_new) {
      return Error::corrupt("{}: tokens {} and {} have the same text", kTokensKey, other->second,
                            id);
    }
  }
  return result;
}

std::string_view Vocabulary::raw(TokenId id) const {
  KVASIR_CHECK(id >= 0 && static_cast<size_t>(id) + 1 < begins_.size());
  const size_t begin = begins_[static_cast<size_t>(id)];
  return {texts_.data() + begin, begins_[static_cast<size_t>(id) + 1] - begin};
}

TokenType Vocabulary::type(TokenId id) const {
  KVASIR_CHECK(contains(id));
  return types_[static_cast<size_t>(id)];
}

TokenId Vocabulary::find(std::string_view raw) const {
  const auto found = ids_.find(raw);
  return found == ids_.end() ? -1 : found->second;
}

bool Vocabulary::is_ordinary(TokenId id) const {
  switch (type(id)) {
    case TokenType::kNormal:
    case TokenType::kUndefined:
    case TokenType::kByte:
      return true;
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUserDefined:
    case TokenType::kUnused:
      return false;
  }
  return false;
}

TokenId Vocabulary::find_ordinary(std::string_view raw) const {
  const TokenId id = find(raw);
  return id >= 0 && is_ordinary(id) ? id : -1;
}

}  // namespace kvasir::text
