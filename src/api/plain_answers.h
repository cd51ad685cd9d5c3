// Answers that are one small JSON object: models, tokens, health, properties.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"

namespace kvasir::api {

struct ModelEntry {
  std::string id;
  int64_t created_s = 0;
  uint64_t context = 0;  // tokens
};
std::string models_answer(std::span<const ModelEntry> models);
std::string model_answer(const ModelEntry& model);
// kModelNotFound that lists what there is.
ApiError model_not_found(std::string_view asked, std::span<const ModelEntry> models);

struct TokenPiece {
  int32_t id = 0;
  std::string bytes;
};
// {"tokens": [1, 2]}, or with pieces [{"id","piece"}]; a piece that is no UTF-8 comes as its bytes.
enum class Pieces : uint8_t { kLeftOut, kGiven };
std::string tokenize_answer(std::span<const TokenPiece> tokens, Pieces pieces);
std::string detokenize_answer(std::string_view text);        // {"content"}
std::string apply_template_answer(std::string_view prompt);  // {"prompt"}
std::string count_tokens_answer(uint64_t tokens);            // {"input_tokens"}
std::string health_answer();                                 // {"status":"ok"}
// The body of a 503 of /health, whose code is a number: tools that start servers look at it.
std::string unhealthy_answer(const ApiError& error);

struct Props {
  std::string model;
  std::string fingerprint;
  uint64_t context = 0;
  uint32_t slots = 0;
  std::string chat_template;
  std::vector<std::string> capabilities;  // "tools", "reasoning", ...
  std::string build;
};
std::string props_answer(const Props& props);

}  // namespace kvasir::api
