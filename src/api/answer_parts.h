// Parts of answers that several dialects share.
#pragma once

#include "api/answer.h"
#include "api/json_writer.h"

namespace kvasir::api {

// For std::visit over a Happening.
template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string sse_data(std::string_view json);
std::string sse_event(std::string_view name, std::string_view json);
std::string sse_comment(std::string_view text);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

std::string_view finish_name(FinishReason reason);  // of the OpenAI family

// {"prompt_tokens", ...} as chat and completions have it.
void write_usage(JsonWriter& out, const Usage& usage);
void write_details(JsonWriter& out, const Details& details);
// [{"token","logprob","bytes","top_logprobs"}]
void write_logprobs(JsonWriter& out, std::span<const TokenLogprob> logprobs);
// "prompt_progress": {...} as llama-server names it.
void write_progress(JsonWriter& out, uint64_t done, uint64_t total);

}  // namespace kvasir::api
