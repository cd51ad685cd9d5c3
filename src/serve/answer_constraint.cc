#include "serve/answer_constraint.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvasir::serve {
namespace {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
// A mask of the largest vocabulary takes 128 KiB, one of 248,320 tokens 31 KiB.
constexpr size_t kMasksMax = 64;

void set_bit(std::span<uint64_t> words, int32_t id) {
  words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}

// Characters that leave a JSON string what it was: inside one.
bool is_plain_text(std::string_view bytes) {
  return text::is_valid_utf8(bytes) && std::all_of(bytes.begin(), bytes.end(), [](char c) {
           return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
         });
}

// Only where any string is possible may every printable character come next.
bool is_inside_string(const text::JsonMatcher& matcher) {
  const std::bitset<256> next = matcher.next_bytes();
  for (size_t byte = 0x20; byte < 0x7F; ++byte)
    if (!next[byte]) return false;
  return true;
}

size_t common_bytes(std::string_view a, std::string_view b) {
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())),
                    b.begin())
          .first -
      a.begin());
}

}  // namespace

SortedVocabulary::SortedVocabulary(const text::Tokenizer& tokenizer, size_t n_vocab,
                                   const std::vector<int32_t>& never)
    : bytes_(n_vocab), plain_((n_vocab + 63) / 64), everything_((n_vocab + 63) / 64) {
  std::vector<uint8_t> is_never(n_vocab, 0);
  for (int32_t id : never) is_never[static_cast<size_t>(id)] = 1;
  for (size_t i = 0; i < std::min(n_vocab, tokenizer.vocabulary_size()); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (is_never[i] != 0) continue;
    set_bit(everything_, id);
    if (tokenizer.is_end_of_generation(id)) {
      ends_.push_back(id);
      continue;
    }
    bytes_[i] = tokenizer.bytes(id);
    if (!bytes_[i].empty()) order_.push_back(id);
  }
  std::sort(order_.begin(), order_.end(),
            [&](int32_t a, int32_t b) { return std::tie(bytes(a), a) < std::tie(bytes(b), b); });
  for (size_t i = 0; i < order_.size(); ++i) {
    is_plain_.push_back(is_plain_text(bytes(order_[i])) ? 1 : 0);
    if (is_plain_.back() != 0) set_bit(plain_, order_[i]);
  }
  think_end_ = tokenizer.find(kThinkEnd);
}

// Walks the tokens as a tree of bytes. Inside a string the plain ones, nearly all there are, need
// not be looked at.
void SortedVocabulary::allow(const text::JsonMatcher& matcher, std::span<uint64_t> words) const {
  const bool inside = is_inside_string(matcher);
  if (inside)
    for (size_t i = 0; i < plain_.size(); ++i) words[i] |= plain_[i];
  // path[n]: after the first n bytes of the token looked at last.
  std::vector<text::JsonMatcher> path = {matcher};
  std::string_view last;
  size_t refused = SIZE_MAX;  // so many of its bytes cannot be
  for (size_t i = 0; i < order_.size(); ++i) {
    const std::string_view bytes = this->bytes(order_[i]);
    if (inside && is_plain_[i] != 0) continue;
    // Skipped neighbours may have had less in common.
    const size_t common = common_bytes(last, bytes);
    if (common >= refused) continue;
    refused = SIZE_MAX;
    last = bytes;
    path.erase(path.begin() + static_cast<ptrdiff_t>(std::min(common + 1, path.size())),
               path.end());
    for (size_t n = path.size() - 1; n < bytes.size(); ++n) {
      text::JsonMatcher next = path.back();
      if (!next.accept(bytes.substr(n, 1))) {
        refused = n + 1;
        break;
      }
      path.push_back(std::move(next));
    }
    if (refused == SIZE_MAX) set_bit(words, order_[i]);
  }
}

AnswerConstraint::AnswerConstraint(ConstraintPlan plan) : plan_(std::move(plan)) {
  (void)restart();
}

Result<void> AnswerConstraint::restart() {
  thinking_tokens_ = 0;
  thinking_tail_.clear();
  matcher_.reset();
  if (plan_.grammar) matcher_.emplace(plan_.grammar);
  // With a grammar and no thinking part begun there is to be none.
  state_ = plan_.begins_in_thinking ? State::kThinking
           : plan_.grammar          ? State::kGrammar
                                    : State::kBegin;
  return {};
}

Result<void> AnswerConstraint::allow(std::span<uint64_t> words) {
  const SortedVocabulary& vocabulary = *plan_.vocabulary;
  const auto everything = [&] {
    std::copy(vocabulary.everything().begin(), vocabulary.everything().end(), words.begin());
  };
  if (state_ == State::kThinking) {
    if (thinking_tokens_ >= plan_.thinking_tokens_max && vocabulary.think_end() >= 0) {
      set_bit(words, vocabulary.think_end());
      return {};
    }
    everything();
    // An answer follows.
    if (plan_.grammar)
      for (int32_t id : vocabulary.ends())
        words[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (static_cast<size_t>(id) % 64));
    return {};
  }
  if (state_ != State::kGrammar) {
    everything();
    return {};
  }
  const std::string key = matcher_->state();
  auto known = masks_.find(key);
  if (known == masks_.end()) {
    if (masks_.size() >= kMasksMax) masks_.clear();
    known = masks_.emplace(key, std::vector<uint64_t>(words.size())).first;
    vocabulary.allow(*matcher_, known->second);
    if (matcher_->can_end())
      for (int32_t id : vocabulary.ends()) set_bit(known->second, id);
  }
  std::copy(known->second.begin(), known->second.end(), words.begin());
  return {};
}

Result<void> AnswerConstraint::accept(int32_t token) {
  const std::string& bytes = plan_.vocabulary->bytes(token);
  switch (state_) {
    case State::kFree:
      return {};
    case State::kBegin:
      state_ = bytes == kThinkBegin ? State::kThinking : State::kFree;
      return {};
    case State::kGrammar:
      return accept_grammar(bytes);
    case State::kThinking:
      break;
  }
  ++thinking_tokens_;
  thinking_tail_ += bytes;
  const size_t end = thinking_tail_.find(kThinkEnd);
  if (end == std::string::npos) {
    if (thinking_tail_.size() > kThinkEnd.size())
      thinking_tail_.erase(0, thinking_tail_.size() - kThinkEnd.size());
    return {};
  }
  std::string rest = thinking_tail_.substr(end + kThinkEnd.size());
  thinking_tail_.clear();
  state_ = after_thinking();
  if (state_ == State::kFree) return {};
  rest.erase(0, std::min(rest.find_first_not_of(" \n\r\t"), rest.size()));
  return accept_grammar(rest);
}

Result<void> AnswerConstraint::accept_grammar(std::string_view bytes) {
  if (!bytes.empty() && !matcher_->accept(bytes))
    return Error::invalid("a token that the wanted form does not allow was generated");
  return {};
}

bool AnswerConstraint::is_complete() const {
  return state_ == State::kGrammar && matcher_->must_end();
}

}  // namespace kvasir::serve
