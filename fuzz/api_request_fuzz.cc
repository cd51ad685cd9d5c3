// Any bytes as a request of the HTTP API, and as what a model wrote.
//
//   input := which rest        (one byte, the low four bits choose)
//
// A request is parsed or refused with a 4xx and a text that is not endless. What a model wrote
// reads the same in one piece and byte by byte, and every call that ended has arguments that are
// the text of an object. A schema's shortest text is accepted by its own grammar.
#include <cstdint>
#include <string>
#include <string_view>

#include "api/answer_parser.h"
#include "api/keys.h"
#include "api/origin.h"
#include "api/routes.h"
#include "api/schema_grammar.h"
#include "text/utf8.h"

namespace {

using namespace kvasir;
using namespace kvasir::api;

template <typename Parse>
void check_request(Parse parse, std::string_view body) {
  for (const auto unknown : {UnknownFields::kIgnored, UnknownFields::kRefused}) {
    const auto request = parse(body, unknown);
    if (request) continue;
    const int status = info(request.error().code).status;
    KVASIR_CHECK(status >= 400 && status < 500);
    KVASIR_CHECK(!request.error().message.empty());
    KVASIR_CHECK(request.error().message.size() < 2048 && request.error().param.size() < 1024);
    error_answer(request.error(), Family::kOpenAi, "r");
  }
}

void check_messages(std::string_view body) {
  const auto request = parse_chat(body, UnknownFields::kIgnored);
  if (!request) return;
  KVASIR_CHECK(!request->messages.empty());
  for (size_t i = 0; i < request->messages.size(); ++i)
    KVASIR_CHECK(i == 0 || request->messages[i].role != Role::kSystem);
}

std::string read_answer(std::string_view text, AnswerFormat format, CallArguments mode,
                        size_t piece_bytes) {
  static const std::vector<Tool> tools = {
      {"f", "", R"({"properties":{"s":{"type":"string"},"n":{"type":"number"}}})", false}};
  AnswerParser parser(format, mode, tools, "p");
  AnswerCollector collector(1);
  const auto add = [&](const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) collector.add(event);
  };
  while (!text.empty()) {
    size_t bytes = std::min(piece_bytes, text.size());
    while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;
    add(parser.feed(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  add(parser.finish(FinishReason::kStop));
  std::string all;
  for (const Part& part : collector.choices()[0].parts) {
    all += std::to_string(static_cast<int>(part.kind)) + part.text + part.call.name +
           part.call.arguments + (part.ended ? "1" : "0");
    if (part.ended) {
      JsonScanner scanner;
      auto step = JsonScanner::Step::kMore;
      for (const char c : part.call.arguments) {
        KVASIR_CHECK(step == JsonScanner::Step::kMore);
        step = scanner.feed(c);
      }
      KVASIR_CHECK(step == JsonScanner::Step::kDone);
    }
  }
  return all;
}

void check_answer(std::string_view bytes, uint8_t flags) {
  const std::string text = kvasir::text::replace_invalid_bytes(bytes);
  const AnswerFormat format{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
  for (const auto mode : {CallArguments::kStreamed, CallArguments::kWhole}) {
    KVASIR_CHECK(read_answer(text, format, mode, 1) ==
                 read_answer(text, format, mode, text.size() + 1));
  }
}

// A schema is compiled or refused; the shortest text that it allows is JSON and is accepted.
void check_schema(std::string_view schema) {
  const auto grammar = compile_schema(schema, "schema");
  if (!grammar) {
    KVASIR_CHECK(grammar.error().code == Code::kUnsupportedSchema);
    KVASIR_CHECK(grammar.error().message.size() < 2048);
    return;
  }
  kvasir::text::JsonMatcher matcher(*grammar);
  const std::string shortest = matcher.completion();
  KVASIR_CHECK(matcher.accept(shortest) && matcher.can_end());
  std::string as_element = "[" + shortest + "]";
  JsonScanner scanner;
  auto step = JsonScanner::Step::kMore;
  for (const char c : as_element) {
    KVASIR_CHECK(step == JsonScanner::Step::kMore);
    step = scanner.feed(c);
  }
  KVASIR_CHECK(step == JsonScanner::Step::kDone);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] & 15) {
    case 0:
      check_request(parse_chat, rest);
      check_messages(rest);
      break;
    case 1:
      check_request(parse_completions, rest);
      break;
    case 2:
      check_request(parse_responses, rest);
      break;
    case 3:
      check_request(parse_messages, rest);
      break;
    case 4:
      check_request(parse_count_tokens, rest);
      break;
    case 5:
      check_request(parse_tokenize, rest);
      check_request(parse_detokenize, rest);
      break;
    case 6:
      check_request(parse_apply_template, rest);
      break;
    case 7:
      if (const auto keys = parse_key_file(rest)) KeyRing(*keys).find(rest);
      break;
    case 8:
      (void)find_route("GET", rest);
      (void)check_host(Bound::kLoopback, rest);
      (void)CorsPolicy().check(rest, rest);
      break;
    case 9:
      check_schema(rest);
      break;
    default:
      check_answer(rest, data[0] >> 4);
      break;
  }
  return 0;
}
