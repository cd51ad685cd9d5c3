// Any bytes as text, on a fixed vocabulary and on one that the input describes itself.
//
//   input      := vocabulary "\n\n" text  |  text
//   vocabulary := lines: "m" merge | a digit (the token type) and the token
//
// Whatever happens, ids are of the vocabulary, plain text never holds a control token, and on the
// fixed vocabulary, which has all bytes, decoding gives the text back.
#include <cstdint>
#include <string>
#include <string_view>

#include "text/test_vocabulary.h"

namespace {

using namespace kvasir::text;

void check_encoding(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto special : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
    for (const auto normalization : {Normalization::kNfc, Normalization::kNone}) {
      for (const TokenId id : tokenizer.encode(text, special, normalization)) {
        KVASIR_CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer.vocabulary_size());
        KVASIR_CHECK(tokenizer.type(id) != TokenType::kUnused);
        KVASIR_CHECK(special == SpecialTokens::kParse || tokenizer.type(id) != TokenType::kControl);
        tokenizer.bytes(id, special);
      }
    }
  }
}

void check_round_trip(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto special : {SpecialTokens::kParse, SpecialTokens::kPlainText}) {
    std::string decoded;
    for (const TokenId id : tokenizer.encode(text, special, Normalization::kNone)) {
      decoded += tokenizer.bytes(id, special);
    }
    KVASIR_CHECK(decoded == replace_invalid_bytes(text));
  }
}

TestVocabulary read_vocabulary(std::string_view lines) {
  TestVocabulary vocabulary;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.empty()) continue;
    if (line.front() == 'm') {
      vocabulary.merges.emplace_back(line.substr(1));
    } else {
      vocabulary.add(line.substr(1), static_cast<TokenType>(line.front() - '0'));
    }
  }
  return vocabulary;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer fixed = std::move(*load_tokenizer(small_vocabulary()));
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_encoding(fixed, input);
  check_round_trip(fixed, input);

  const size_t border = input.find("\n\n");
  if (border == std::string_view::npos) return 0;
  TestVocabulary vocabulary = read_vocabulary(input.substr(0, border));
  vocabulary.pre = size % 2 == 0 ? "qwen35" : "llama-bpe";  // which takes whole words first
  const auto tokenizer = load_tokenizer(vocabulary);
  if (tokenizer) {
    check_encoding(*tokenizer, input.substr(border + 2));
  } else {
    KVASIR_CHECK(!tokenizer.error().message.empty());
  }
  return 0;
}
