#include "serve/served_model.h"

#include <algorithm>

#include "base/sha256.h"

namespace kvasir::serve {
namespace {

// Of the chain in docs/arithmetic.md: a change there that changes what is sampled counts here.
constexpr int kSamplerVersion = 1;

}  // namespace

bool ServedModel::has_name(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string serving_fingerprint(const FingerprintParts& parts, const text::Tokenizer& tokenizer,
                                const engine::SamplerOptions& s) {
  Sha256 tokens;
  const auto add = [&](std::string_view text) {
    const auto size = static_cast<uint64_t>(text.size());
    tokens.update(std::as_bytes(std::span(&size, 1)));
    tokens.update(std::as_bytes(std::span(text.data(), text.size())));
  };
  add(tokenizer.pre_tokenizer());
  for (size_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const auto token = static_cast<text::TokenId>(id);
    add(tokenizer.raw(token));
    add(fmt::format("{}{}", static_cast<int>(tokenizer.type(token)),
                    tokenizer.is_end_of_generation(token) ? 'e' : '-'));
  }
  const std::string text = fmt::format(
      "kvasir-serving 1\ncompute {}\ntokenizer {}\ntemplate {}\nsampler {} {} {} {} {} {} {} {} "
      "{}\n",
      parts.compute, tokens.hex(),
      sha256_hex(std::as_bytes(std::span(parts.chat_template.data(), parts.chat_template.size()))),
      kSamplerVersion, s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty,
      s.presence_penalty, s.frequency_penalty, s.penalty_window);
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace kvasir::serve
