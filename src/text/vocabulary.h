// The token strings and types of a GGUF file.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/keyed_hash.h"
#include "gguf/metadata.h"
#include "text/tokenizer.h"

namespace kvasir::text {

// Four times the largest published vocabulary. Bounds what a hostile file can make us allocate.
inline constexpr size_t kTokensMax = size_t{1} << 20;

// Owns its strings. Immutable after loading; thread-safe. Movable.
class Vocabulary {
 public:
  // kCorrupt, naming the key, for missing or empty lists, another number of types than tokens,
  // unknown types, and two tokens of the same text. Empty texts may repeat: nothing finds them.
  static Result<Vocabulary> load(const gguf::Metadata& metadata);

  size_t size() const { return types_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < size(); }
  std::string_view raw(TokenId id) const;
  TokenType type(TokenId id) const;
  // -1 if there is no such token.
  TokenId find(std::string_view raw) const;

  // Ordinary tokens are written in the byte alphabet, and only they come out of merging: text can
  // spell a control token, but never become one that way.
  bool is_ordinary(TokenId id) const;
  // -1 if there is no ordinary token of this text.
  TokenId find_ordinary(std::string_view raw) const;

 private:
  std::vector<char> texts_;     // all strings, back to back
  std::vector<size_t> begins_;  // size() + 1 positions in texts_
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, TokenId, KeyedHash> ids_;
};

}  // namespace kvasir::text
