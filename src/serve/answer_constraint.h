// What an answer may look like, as masks over the vocabulary: JSON of a wanted shape, and a
// thinking part of bounded length in front of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler_request.h"
#include "text/json_grammar.h"
#include "text/tokenizer.h"

namespace kvasir::serve {

// A vocabulary in the order of its tokens' bytes, so that tokens with a common beginning are asked
// about together. Immutable; thread-safe.
class SortedVocabulary {
 public:
  // never: ids that must not be sampled.
  SortedVocabulary(const text::Tokenizer& tokenizer, size_t n_vocab,
                   const std::vector<int32_t>& never);

  // Sets the bits of all tokens that `matcher` allows next. Not those that end the generation.
  void allow(const text::JsonMatcher& matcher, std::span<uint64_t> words) const;
  // Of every token that may be sampled at all, those that end the generation included.
  const std::vector<uint64_t>& everything() const { return everything_; }
  const std::vector<int32_t>& ends() const { return ends_; }
  const std::string& bytes(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  int32_t think_end() const { return think_end_; }  // the token "</think>", or -1

 private:
  std::vector<std::string> bytes_;  // by id; empty: stands for no text
  std::vector<int32_t> order_;      // ids, by their bytes
  std::vector<uint8_t> is_plain_;   // of order_[i]: see allow()
  std::vector<uint64_t> plain_;     // the plain ones
  std::vector<uint64_t> everything_;
  std::vector<int32_t> ends_;
  int32_t think_end_ = -1;
};

struct ConstraintPlan {
  std::shared_ptr<const SortedVocabulary> vocabulary;
  // What the answer behind the thinking part has to be. Null: anything.
  std::shared_ptr<const text::JsonGrammar> grammar;
  bool begins_in_thinking = false;
  // Tokens of a thinking part, after which it is ended.
  size_t thinking_tokens_max = SIZE_MAX;
};

// One generation's own. One call at a time.
class AnswerConstraint final : public engine::TokenConstraint {
 public:
  explicit AnswerConstraint(ConstraintPlan plan);

  Result<void> allow(std::span<uint64_t> words) override;
  Result<void> accept(int32_t token) override;
  Result<void> restart() override;
  // Nothing but the end is possible.
  bool is_complete() const;

 private:
  enum class State : uint8_t { kBegin, kThinking, kGrammar, kFree };

  State after_thinking() const { return plan_.grammar ? State::kGrammar : State::kFree; }
  Result<void> accept_grammar(std::string_view bytes);

  const ConstraintPlan plan_;
  State state_ = State::kBegin;
  size_t thinking_tokens_ = 0;
  std::string thinking_tail_;  // where "</think>" may be coming
  std::optional<text::JsonMatcher> matcher_;
  // Masks by the matcher's state: inside a string it is the same one for many tokens.
  std::map<std::string, std::vector<uint64_t>> masks_;
};

}  // namespace kvasir::serve
