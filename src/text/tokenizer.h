// Byte-level BPE tokenizer of a GGUF file: text -> token ids, token ids -> bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gguf/metadata.h"

namespace kvasir::text {

using TokenId = int32_t;
struct TextPiece;  // special_tokens.h

enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

enum class SpecialTokens : uint8_t {
  kParse,      // text that spells a control token becomes that token (rendered templates)
  kPlainText,  // it stays text (user input); user-defined tokens are still recognised
};
enum class Normalization : uint8_t { kNfc, kNone };

// Immutable after loading; thread-safe.
class Tokenizer {
 public:
  // From tokenizer.* keys. kUnsupported for another model than "gpt2" or an unknown pre-tokenizer
  // (the error names those known).
  static Result<Tokenizer> load(const gguf::Metadata& metadata);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  size_t vocabulary_size() const;
  std::string_view pre_tokenizer() const;

  // Any bytes are accepted; an invalid UTF-8 byte becomes U+FFFD. Time is O(n log n) in
  // text.size().
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special,
                              Normalization normalization = Normalization::kNfc) const;

  // Cuts `text` as encode() does with SpecialTokens::kParse. The pieces are views of `text`.
  std::vector<TextPiece> cut_at_special_tokens(std::string_view text) const;

  TokenType type(TokenId id) const;
  // The token's string as in the file.
  std::string_view raw(TokenId id) const;
  // The bytes the token stands for: possibly part of a UTF-8 character. Control tokens give
  // nothing unless `special` is kParse, unused ones never anything.
  std::string bytes(TokenId id, SpecialTokens special = SpecialTokens::kPlainText) const;
  // -1 if there is no such token.
  TokenId find(std::string_view raw) const;

  // Generation stops at any of these (sorted).
  const std::vector<TokenId>& end_of_generation() const;
  bool is_end_of_generation(TokenId id) const;
  // Padding rows of the head (type 5), never to be sampled.
  std::vector<TokenId> unused() const;

 private:
  struct Data;
  explicit Tokenizer(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

}  // namespace kvasir::text
