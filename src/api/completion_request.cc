// Requests of OpenAI's /v1/completions, and of /tokenize and /detokenize.
#include <limits>

#include "api/request_parts.h"

namespace kvasir::api {
namespace {

// Token ids, at most what the JSON reader lets through.
std::vector<int32_t> read_ids(const Json& array, const std::string& path, Reading& reading) {
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const Json& value : array) {
    const bool is_id =
        value.is_number_unsigned() &&
        value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    if (!is_id) {
      reading.fail(ApiError::of(Code::kInvalidValue, fmt::format("{}[{}]", path, ids.size()),
                                "'{}[{}]' is not a token id", path, ids.size()));
      return {};
    }
    ids.push_back(static_cast<int32_t>(value.get<uint64_t>()));
  }
  return ids;
}

void read_prompts(Fields& fields, CompletionRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail(Code::kMissingField, "prompt", "'prompt' is missing");
    return;
  }
  if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    fields.fail(Code::kInvalidValue, "prompt",
                "'prompt' has to be a string, token ids, or an array of these that is not empty");
    return;
  }
  if (prompt->front().is_number()) {
    request.prompts.emplace_back(read_ids(*prompt, "prompt", fields.reading()));
    return;
  }
  if (fields.array("prompt", kPromptsMax) == nullptr) return;
  for (size_t i = 0; i < prompt->size() && !fields.failed(); ++i) {
    const Json& element = (*prompt)[i];
    const std::string path = fmt::format("prompt[{}]", i);
    if (element.is_string()) {
      request.prompts.emplace_back(element.get<std::string>());
    } else if (element.is_array()) {
      request.prompts.emplace_back(read_ids(element, path, fields.reading()));
    } else {
      fields.reading().fail(ApiError::of(Code::kInvalidValue, path,
                                         "'{}' has to be a string or token ids, it is {}", path,
                                         type_name(element)));
    }
  }
}

}  // namespace

Outcome<CompletionRequest> parse_completions(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  CompletionRequest request;
  read_generation(fields, ModelField::kRequired, 2, request);
  request.max_tokens = read_token_count(fields, "max_tokens");
  request.stops = read_stops(fields, "stop");
  request.choices = static_cast<uint32_t>(fields.integer("n", 1, int64_t{kChoicesMax}).value_or(1));
  if (const auto logprobs = fields.integer("logprobs", 0, int64_t{kTopLogprobsMax}))
    request.top_logprobs = static_cast<uint32_t>(*logprobs);
  request.echo = fields.flag("echo");
  const auto best_of = fields.integer("best_of", 1, int64_t{kChoicesMax});
  if (best_of && *best_of != request.choices)
    fields.fail(Code::kUnsupportedValue, "best_of",
                "'best_of' is supported only where it equals 'n'");
  if (const Json* value = fields.object("stream_options")) {
    Fields options(*value, "stream_options", reading);
    request.stream.include_usage = options.flag("include_usage");
    options.ignore({"include_obfuscation"});
    options.done();
    if (!request.stream.on)
      fields.fail(Code::kInvalidValue, "stream_options",
                  "'stream_options' is for requests with 'stream': true");
  }
  request.stream.return_progress = fields.flag("return_progress");
  read_prompts(fields, request);
  fields.refuse("suffix", "the models here complete text, they do not fill gaps");
  fields.ignore({"user"});
  fields.done();
  return finish(reading, std::move(request));
}

Outcome<TokenizeRequest> parse_tokenize(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  TokenizeRequest request;
  request.content = fields.required_text("content");
  request.add_special = fields.flag("add_special");
  request.parse_special = fields.boolean("parse_special").value_or(true);
  request.with_pieces = fields.flag("with_pieces");
  fields.ignore({"model"});
  fields.done();
  return finish(reading, std::move(request));
}

Outcome<DetokenizeRequest> parse_detokenize(std::string_view body, UnknownFields unknown) {
  KVASIR_TRY(const Json json, parse_json_object(body));
  Reading reading{unknown, std::nullopt};
  Fields fields(json, "", reading);
  DetokenizeRequest request;
  if (const Json* tokens = fields.array("tokens", kJsonValuesMax)) {
    request.tokens = read_ids(*tokens, "tokens", reading);
  } else {
    fields.fail(Code::kMissingField, "tokens", "'tokens' is missing");
  }
  fields.ignore({"model"});
  fields.done();
  return finish(reading, std::move(request));
}

}  // namespace kvasir::api
