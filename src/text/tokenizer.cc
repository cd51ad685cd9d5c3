#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalize.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace kvasir::text {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// Spellings that end a generation in every model that has them, whatever its keys say.
constexpr std::string_view kEndSpellings[] = {
    "<|im_end|>",   "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>", "<|eot_id|>",    "<|eom_id|>",  "<|end_of_text|>",
};
constexpr std::string_view kEndKeys[] = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.eos_token_ids",  // a list
};

Result<std::vector<TokenId>> load_end_of_generation(const gguf::Metadata& metadata,
                                                    const Vocabulary& vocabulary) {
  std::vector<TokenId> ids;
  for (const std::string_view spelling : kEndSpellings) {
    if (const TokenId id = vocabulary.find(spelling); id >= 0) ids.push_back(id);
  }
  for (const std::string_view key : kEndKeys) {
    if (!metadata.contains(key)) continue;
    KVASIR_TRY(const std::vector<int64_t> values, metadata.get_ints(key));
    for (const int64_t value : values) {
      if (value < 0 || static_cast<uint64_t>(value) >= vocabulary.size()) {
        return Error::corrupt("{}: token {} of a vocabulary of {}", key, value, vocabulary.size());
      }
      ids.push_back(static_cast<TokenId>(value));
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<SpecialTokenFinder> make_finder(const Vocabulary& vocabulary, SpecialTokens special) {
  std::vector<SpecialTokenFinder::Entry> entries;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenType type = vocabulary.type(id);
    const bool is_wanted = type == TokenType::kUserDefined ||
                           (special == SpecialTokens::kParse &&
                            (type == TokenType::kControl || type == TokenType::kUnknown));
    const std::string_view text = vocabulary.raw(id);
    if (!is_wanted || text.empty()) continue;
    if (text.size() > kSpecialBytesMax) {
      return Error::unsupported(
          "tokenizer.ggml.tokens: token {} is a special token of {} bytes, at most {} are accepted",
          id, text.size(), kSpecialBytesMax);
    }
    // A text that is not valid UTF-8 is in no input, and would cut characters in two.
    if (is_valid_utf8(text)) entries.push_back({text, id});
  }
  return SpecialTokenFinder(std::move(entries));
}

// The bytes that a token written in the byte alphabet stands for. What is outside the alphabet (in
// a damaged file) becomes U+FFFD.
std::string decode_byte_alphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Prefix prefix = read_utf8(text);
    const int byte =
        prefix.kind == Utf8Prefix::Kind::kCharacter ? byte_of_character(prefix.code) : -1;
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out += kReplacementCharacter;
    }
    text.remove_prefix(prefix.bytes);
  }
  return out;
}

}  // namespace

struct Tokenizer::Data {
  Vocabulary vocabulary;
  PreTokenizer pre_tokenizer;
  MergeRules merges;
  SpecialTokenFinder all_special;   // views of vocabulary's strings, which stay where they are
  SpecialTokenFinder user_defined;  // when moved
  std::vector<TokenId> end_of_generation;

  void encode_plain(std::string_view text, std::vector<TokenId>& out) const;
};

Result<Tokenizer> Tokenizer::load(const gguf::Metadata& metadata) {
  if (!metadata.contains(kModelKey)) {
    return Error::corrupt("{} is missing: the file has no tokenizer", kModelKey);
  }
  KVASIR_TRY(const std::string_view model, metadata.get_string(kModelKey));
  if (model != "gpt2") {
    return Error::unsupported("{}: tokenizer '{}' is not supported", kModelKey, model)
        .with_hint("supported is: gpt2 (byte-level BPE)");
  }
  KVASIR_TRY(const std::string_view pre, metadata.get_string_or("tokenizer.ggml.pre", "default"));
  KVASIR_TRY(PreTokenizer pre_tokenizer, PreTokenizer::create(pre));
  KVASIR_TRY(Vocabulary vocabulary, Vocabulary::load(metadata));
  if (!metadata.contains(kMergesKey)) return Error::corrupt("{} is missing", kMergesKey);
  KVASIR_TRY(const std::vector<std::string_view> merge_texts, metadata.get_strings(kMergesKey));
  KVASIR_TRY(MergeRules merges, MergeRules::build(vocabulary, merge_texts));
  KVASIR_TRY(std::vector<TokenId> ends, load_end_of_generation(metadata, vocabulary));
  KVASIR_TRY(SpecialTokenFinder all_special, make_finder(vocabulary, SpecialTokens::kParse));
  KVASIR_TRY(SpecialTokenFinder user_defined, make_finder(vocabulary, SpecialTokens::kPlainText));
  return Tokenizer(std::unique_ptr<const Data>(
      new Data{std::move(vocabulary), std::move(pre_tokenizer), std::move(merges),
               std::move(all_special), std::move(user_defined), std::move(ends)}));
}

Tokenizer::Tokenizer(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

size_t Tokenizer::vocabulary_size() const {
  return data_->vocabulary.size();
}
std::string_view Tokenizer::pre_tokenizer() const {
  return data_->pre_tokenizer.name();
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special,
                                       Normalization normalization) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_bytes(text);
    text = repaired;
  }
  const SpecialTokenFinder& finder =
      special == SpecialTokens::kParse ? data_->all_special : data_->user_defined;
  std::vector<TokenId> ids;
  for (const TextPiece& piece : finder.split(text)) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
    } else if (normalization == Normalization::kNone || is_certainly_nfc(piece.text)) {
      data_->encode_plain(piece.text, ids);
    } else {
      data_->encode_plain(to_nfc(piece.text), ids);
    }
  }
  return ids;
}

std::vector<TextPiece> Tokenizer::cut_at_special_tokens(std::string_view text) const {
  return data_->all_special.split(text);
}

void Tokenizer::Data::encode_plain(std::string_view text, std::vector<TokenId>& out) const {
  std::vector<std::string_view> words;
  pre_tokenizer.split(text, words);
  MergeRules::Scratch scratch;
  std::string mapped;
  for (const std::string_view word : words) {
    if (pre_tokenizer.takes_whole_words()) {
      mapped.clear();
      for (const char c : word) append_utf8(mapped, character_of_byte(static_cast<uint8_t>(c)));
      if (const TokenId id = vocabulary.find_ordinary(mapped); id >= 0) {
        out.push_back(id);
        continue;
      }
    }
    merges.encode(word, scratch, out);
  }
}

TokenType Tokenizer::type(TokenId id) const {
  return data_->vocabulary.type(id);
}
std::string_view Tokenizer::raw(TokenId id) const {
  return data_->vocabulary.raw(id);
}
TokenId Tokenizer::find(std::string_view raw) const {
  return data_->vocabulary.find(raw);
}

std::string Tokenizer::bytes(TokenId id, SpecialTokens special) const {
  switch (type(id)) {
    case TokenType::kNormal:
    case TokenType::kUndefined:
    case TokenType::kByte:
      return decode_byte_alphabet(raw(id));
    case TokenType::kUserDefined:
      return std::string(raw(id));
    case TokenType::kControl:
    case TokenType::kUnknown:
      return special == SpecialTokens::kParse ? std::string(raw(id)) : std::string();
    case TokenType::kUnused:
      return {};
  }
  return {};
}

const std::vector<TokenId>& Tokenizer::end_of_generation() const {
  return data_->end_of_generation;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(data_->end_of_generation.begin(), data_->end_of_generation.end(), id);
}

std::vector<TokenId> Tokenizer::unused() const {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocabulary_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (type(id) == TokenType::kUnused) ids.push_back(id);
  }
  return ids;
}

}  // namespace kvasir::text
