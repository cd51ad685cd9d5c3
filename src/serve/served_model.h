// The model that is served, and what is known of it. Immutable while it is served; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "serve/answer_constraint.h"
#include "serve/generator.h"
#include "serve/prompt_maker.h"

namespace kvasir::serve {

struct ServedModel {
  std::vector<std::string> names;  // the first one is its id
  int64_t created_s = 0;
  size_t context = 0;  // tokens of prompt and answer
  size_t n_vocab = 0;
  size_t slots = 0;                 // requests that run at a time
  std::string fingerprint;          // of everything that decides an answer: 64 hex digits
  engine::SamplerOptions sampling;  // where a request says nothing
  std::shared_ptr<const PromptMaker> prompts;
  std::shared_ptr<const SortedVocabulary> vocabulary;
  Generator* generator = nullptr;  // outlives the server's use of it

  // As api answers show it.
  std::string system_fingerprint() const { return "kv_" + fingerprint.substr(0, 32); }
  bool has_name(std::string_view name) const;
};

struct FingerprintParts {
  std::string compute;  // 64 hex digits
  std::string chat_template;
};
// exactness of an answer: equal fingerprint, request and seed give equal bytes.
std::string serving_fingerprint(const FingerprintParts& parts, const text::Tokenizer& tokenizer,
                                const engine::SamplerOptions& sampling);

}  // namespace kvasir::serve
