// Splits text into the words within which BPE merges. One published regular expression per name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"

struct pcre2_real_code_8;  // PCRE2's compiled pattern

namespace kvasir::text {

// Immutable; thread-safe.
class PreTokenizer {
 public:
  // By the value of tokenizer.ggml.pre. kUnsupported, listing the names known, for another one.
  static Result<PreTokenizer> create(std::string_view name);

  std::string_view name() const { return name_; }
  // A word that is a token as a whole is taken before any merge is tried.
  bool takes_whole_words() const { return takes_whole_words_; }

  // Appends the words of `text` (valid UTF-8) in order; together they are `text`. The views point
  // into `text`. Linear time.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, FreeCode>;

  PreTokenizer() = default;

  std::string_view name_;
  bool takes_whole_words_ = false;
  std::vector<Code> stages_;  // each splits the pieces of the one before
};

}  // namespace kvasir::text
