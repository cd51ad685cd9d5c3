// Small vocabularies made in memory, for tests and fuzzing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/header.h"
#include "gguf/writer.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace kvasir::text {

inline std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, character_of_byte(static_cast<uint8_t>(byte)));
  return text;
}

struct TestVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
  std::string pre = "qwen2";

  TokenId add(std::string_view text, TokenType type = TokenType::kNormal) {
    tokens.emplace_back(text);
    types.push_back(static_cast<int32_t>(type));
    return static_cast<TokenId>(tokens.size() - 1);
  }
  // A merge whose result becomes a token; both sides are given as bytes.
  TokenId add_merge(std::string_view left, std::string_view right) {
    merges.push_back(to_byte_alphabet(left) + " " + to_byte_alphabet(right));
    return add(to_byte_alphabet(left) + to_byte_alphabet(right));
  }
};

// All 256 bytes (token id = byte), a few merges and the special tokens of a chat model.
inline TestVocabulary small_vocabulary() {
  TestVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.add(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  }
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"h", "e"},
                                                        {"l", "l"},
                                                        {"he", "ll"},
                                                        {"hell", "o"},
                                                        {" ", "hello"},
                                                        {" ", " "},
                                                        {"  ", "  "},
                                                        {"a", "a"},
                                                        {"aa", "aa"},
                                                        {"\xF0", "\x9F"},
                                                        {"\xC3", "\xA9"}}) {
    vocabulary.add_merge(left, right);
  }
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_"}) {
    vocabulary.add(control, TokenType::kControl);
  }
  vocabulary.add("<think>", TokenType::kUserDefined);
  vocabulary.add("</think>", TokenType::kUserDefined);
  vocabulary.add("<unk>", TokenType::kUnknown);
  vocabulary.add("[PAD0]", TokenType::kUnused);
  return vocabulary;
}

// Writes the keys of `vocabulary`, and what `more` adds, to a GGUF file in memory and loads it.
// `skip` is a key to leave out.
inline Result<Tokenizer> load_tokenizer(const TestVocabulary& vocabulary,
                                        const std::function<void(gguf::Writer&)>& more = {},
                                        std::string_view skip = {}) {
  gguf::Writer writer;
  const auto wanted = [&](std::string_view key) { return key != skip; };
  if (wanted("tokenizer.ggml.model")) writer.add_string("tokenizer.ggml.model", "gpt2");
  if (wanted("tokenizer.ggml.pre")) writer.add_string("tokenizer.ggml.pre", vocabulary.pre);
  if (wanted("tokenizer.ggml.tokens")) {
    writer.add_strings("tokenizer.ggml.tokens", vocabulary.tokens);
  }
  if (wanted("tokenizer.ggml.token_type")) {
    writer.add_i32s("tokenizer.ggml.token_type", vocabulary.types);
  }
  if (wanted("tokenizer.ggml.merges")) {
    writer.add_strings("tokenizer.ggml.merges", vocabulary.merges);
  }
  if (more) more(writer);
  const std::vector<std::byte> file = writer.header();
  KVASIR_TRY(const gguf::Header header, gguf::parse_header(file));
  return Tokenizer::load(header.metadata);
}

}  // namespace kvasir::text
