#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>

namespace kvasir::text {
namespace {

// The patterns are written as published, except that \s is Unicode's White_Space (expand_space) and
// that case-insensitive letters are spelled out: a Unicode-aware (?i:s) would also match U+017F.
#define KVASIR_CONTRACTIONS "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define KVASIR_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"

constexpr std::string_view kQwen2[] = {
    KVASIR_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// Combining marks belong to words here, to punctuation in qwen2.
constexpr std::string_view kQwen35[] = {
    KVASIR_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
                        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt2[] = {KVASIR_GPT2};
constexpr std::string_view kLlama3[] = {
    KVASIR_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kStarcoder[] = {R"(\p{N})", KVASIR_GPT2};
// Of files that name no pre-tokenizer.
constexpr std::string_view kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", KVASIR_GPT2, R"(\p{N}+)",
                                         "[0-9][0-9][0-9]"};

struct Rule {
  std::string_view name;
  std::span<const std::string_view> stages;
  bool takes_whole_words = false;
};
constexpr Rule kRules[] = {
    {"qwen2", kQwen2},
    {"qwen35", kQwen35},
    {"deepseek-r1-qwen", kQwen2},
    {"gpt-2", kGpt2},
    {"gpt2", kGpt2},
    {"default", kDefault},
    {"starcoder", kStarcoder},
    {"llama-bpe", kLlama3, true},
    {"llama3", kLlama3, true},
    {"llama-v3", kLlama3, true},
};

// Replaces \s and \S. PCRE2's own \s is either ASCII or, with PCRE2_UCP, contains U+180E, which has
// not been white space since Unicode 6.3.
std::string expand_space(std::string_view pattern) {
  constexpr std::string_view kWhiteSpace =
      R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' && in_class) {
      out += kWhiteSpace;
    } else if (escaped == 's' || escaped == 'S') {
      KVASIR_CHECK(!in_class);
      out += escaped == 's' ? "[" : "[^";
      out += kWhiteSpace;
      out += ']';
    } else {
      out += c;
      out += escaped;
    }
  }
  return out;
}

// One call's state of the matcher.
class Matcher {
 public:
  explicit Matcher(size_t text_bytes)
      : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    KVASIR_CHECK(data_ != nullptr && context_ != nullptr);
    // No pattern of the list nests repetitions: a match takes a few steps for each byte it looks at
    // and constant memory. A pattern that needs more is one that should not be here.
    constexpr uint64_t kStepsMax = std::numeric_limits<uint32_t>::max();
    const uint64_t steps = std::min<uint64_t>(kStepsMax, 10'000 + 16 * uint64_t{text_bytes});
    pcre2_set_match_limit(context_, static_cast<uint32_t>(steps));
    pcre2_set_heap_limit(context_, 1024);  // KiB
  }
  ~Matcher() {
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // The first match at or after `from`; nothing (an empty range at the end) if there is none.
  struct Range {
    size_t begin, end;
  };
  Range find(const pcre2_code* code, std::string_view text, size_t from) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data_, context_);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          data_, context_);
    }
    if (found < 0) return {text.size(), text.size()};
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_);
    KVASIR_CHECK(range[0] >= from && range[1] > range[0]);
    return {range[0], range[1]};
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
};

}  // namespace

void PreTokenizer::FreeCode::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& r) { return r.name == name; });
  if (rule == std::end(kRules)) {
    std::string known;
    for (const Rule& r : kRules) known.append(known.empty() ? "" : ", ").append(r.name);
    return Error::unsupported("tokenizer.ggml.pre: pre-tokenizer '{}' is not known", name)
        .with_hint("known are: " + known);
  }
  PreTokenizer result;
  result.name_ = rule->name;
  result.takes_whole_words_ = rule->takes_whole_words;
  for (const std::string_view stage : rule->stages) {
    const std::string pattern = expand_space(stage);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF,
                            &error, &error_offset, nullptr));
    KVASIR_CHECK(code != nullptr);  // the list is fixed, and a test compiles all of it
    // Where there is no JIT (or no executable memory) the interpreter finds the same matches.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    result.stages_.push_back(std::move(code));
  }
  return result;
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  if (text.empty()) return;
  Matcher matcher(text.size());
  const size_t first = words.size();
  words.push_back(text);
  std::vector<std::string_view> pieces;
  for (const Code& stage : stages_) {
    pieces.assign(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
    words.resize(first);
    for (const std::string_view piece : pieces) {
      for (size_t at = 0; at < piece.size();) {
        const auto [begin, end] = matcher.find(stage.get(), piece, at);
        if (begin > at) words.push_back(piece.substr(at, begin - at));
        if (end > begin) words.push_back(piece.substr(begin, end - begin));
        at = end;
      }
    }
  }
}

}  // namespace kvasir::text
