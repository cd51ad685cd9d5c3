// What a model writes, taken apart: known texts, every cut of them, and random ones.
#include "api/answer_parser.h"

#include "api/test_events.h"

namespace kvasir::api {
namespace {

using nlohmann::json;

constexpr AnswerFormat kAll{true, false, true};
constexpr AnswerFormat kInThought{true, true, true};

const std::vector<Tool> kTools = {
    {"weather", "", R"({"type":"object","properties":{"city":{"type":"string"},
        "days":{"type":"integer"},"free":{},"tags":{"type":["array","null"]}}})",
     false},
    {"now", "", "{}", false}};

struct Read {
  std::string text, reasoning;
  std::vector<std::string> calls;  // name, arguments, and "..." if it never ended
  FinishReason reason = FinishReason::kStop;
  bool operator==(const Read&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Read& read) {
  out << "text [" << read.text << "] reasoning [" << read.reasoning << "]";
  for (const std::string& call : read.calls) out << " call [" << call << "]";
  return out << " " << static_cast<int>(read.reason);
}

// Pieces: sizes of what is fed, in turn, each up to the end of a character.
Read read(std::string_view text, AnswerFormat format, CallArguments mode,
          const std::vector<size_t>& pieces, FinishReason reason = FinishReason::kStop) {
  AnswerParser parser(format, mode, kTools, "p");
  AnswerCollector collector(1);
  for (size_t i = 0; !text.empty(); ++i) {
    size_t bytes = std::min(pieces[i % pieces.size()], text.size());
    while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;
    const std::string_view piece = text.substr(0, bytes);
    text.remove_prefix(piece.size());
    for (const AnswerEvent& event : parser.feed(piece)) collector.add(event);
  }
  for (const AnswerEvent& event : parser.finish(reason)) collector.add(event);
  const Choice& choice = collector.choices()[0];
  Read result{
      choice.joined(Part::Kind::kText), choice.joined(Part::Kind::kReasoning), {}, choice.reason};
  for (const Part& part : choice.parts)
    if (part.kind == Part::Kind::kToolCall)
      result.calls.push_back(part.call.name + part.call.arguments + (part.ended ? "" : "..."));
  EXPECT_EQ(parser.calls(), result.calls.size());
  return result;
}

// In both modes, byte by byte and at once.
void expect_read(std::string_view text, const Read& expected, AnswerFormat format = kAll,
                 FinishReason reason = FinishReason::kStop) {
  for (const auto mode : {CallArguments::kStreamed, CallArguments::kWhole}) {
    EXPECT_EQ(read(text, format, mode, {1}, reason), expected) << text;
    EXPECT_EQ(read(text, format, mode, {text.size() + 1}, reason), expected) << text;
  }
}

TEST(AnswerParser, HandsPlainTextOnUntouched) {
  const std::string text = "  <think>x</think>\n<tool_call>{}</tool_call> \n";
  expect_read(text, {text, "", {}}, AnswerFormat{});
}

TEST(AnswerParser, TakesThinkingApart) {
  expect_read("<think>\nhm, \nso\n</think>\n\nHello </think>.\n",
              {"Hello </think>.\n", "hm, \nso", {}});
  expect_read("\n<think></think>Hi", {"Hi", "", {}});
  expect_read("hm</think>\n\nHi", {"Hi", "hm", {}}, kInThought);
  expect_read("  Hi <think>x</think>", {"  Hi <think>x</think>", "", {}});
  expect_read("<think>never ends <tool_call>", {"", "never ends <tool_call>", {}});
  expect_read("<thi", {"<thi", "", {}});
  expect_read("  ", {"  ", "", {}});
  expect_read("", {"", "", {}});
}

TEST(AnswerParser, ReadsCallsAsJson) {
  expect_read(
      "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
      "\"</tool_call>\\\"\", \"n\": {\"a\": [1]}}}\n</tool_call>",
      {"Let me look.",
       "",
       {R"(weather{"city": "</tool_call>\"", "n": {"a": [1]}})"},
       FinishReason::kToolCalls});
  expect_read(
      "<think>hm</think>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n"
      "<tool_call>{\"name\":\"now\",\"arguments\":{ }}</tool_call>\n",
      {"", "hm", {"now{}", "now{ }"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, ReadsCallsInAnotherOrder) {
  expect_read("<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"now\"}</tool_call>",
              {"", "", {R"(now{"a":1})"}, FinishReason::kToolCalls});
  expect_read("<tool_call>{\"id\":1,\"name\":\"now\",\"parameters\":{}}</tool_call>",
              {"", "", {"now{}"}, FinishReason::kToolCalls});
  expect_read("<tool_call>{\"name\":\"now\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>",
              {"", "", {R"(now{"a":1})"}, FinishReason::kToolCalls});
  expect_read("<tool_call>{\"name\":\"now\"}</tool_call>",
              {"", "", {"now{}"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, ReadsCallsAsFunctions) {
  expect_read(
      "<tool_call>\n<function=weather>\n<parameter=city>\nK\xC3\xB6ln \"a\"\n\nb\n</parameter>\n"
      "<parameter=days>\n3\n</parameter>\n<parameter=free>\nabc\n</parameter>\n"
      "<parameter=tags>\n[\"x\", 1]\n</parameter>\n</function>\n</tool_call>",
      {"",
       "",
       {"weather{\"city\": \"K\xC3\xB6ln \\\"a\\\"\\n\\nb\", \"days\": 3, \"free\": \"abc\", "
        "\"tags\": [\"x\",1]}"},
       FinishReason::kToolCalls});
  expect_read("<tool_call><function=now></function></tool_call> ok",
              {" ok", "", {"now{}"}, FinishReason::kToolCalls});
  // A string stays a string, an unknown tool's values are what they look like.
  expect_read("<tool_call><function=weather><parameter=city>12</parameter></function></tool_call>",
              {"", "", {R"(weather{"city": "12"})"}, FinishReason::kToolCalls});
  expect_read(
      "<tool_call><function=other><parameter=x>12</parameter><parameter=x>13</parameter>"
      "<parameter=y>1 2</parameter></function></tool_call>",
      {"", "", {R"(other{"x": 12, "y": "1 2"})"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, KeepsTextBetweenCalls) {
  expect_read(
      "a \n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n b <tool_call>"
      "{\"name\":\"now\",\"arguments\":{}}</tool_call> \n",
      {"a\n b", "", {"now{}", "now{}"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, AcceptsACallWhoseEndMarkerIsMissing) {
  expect_read("<tool_call>{\"name\":\"now\",\"arguments\":{}}",
              {"", "", {"now{}"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, TakesWhatIsNoCallAsContent) {
  for (const std::string text :
       {"x <tool_call>hello</tool_call> y", "<tool_call>", "a\n<tool_call>\n",
        "<tool_call>{\"name\": 7}</tool_call>", "<tool_call>{\"name\":\"a b\",\"arguments\":{}}",
        "<tool_call>{broken}</tool_call>", "<tool_call>{\"name\":\"now\",\"arguments\":[]}",
        "<tool_call><function=a b></function></tool_call>", "<tool_call><func</tool_call>",
        "<tool_call>{\"name\":\"now\",\"arguments\":\"x\"}</tool_call>", "a<tool_cal"})
    expect_read(text, {text, "", {}});
  expect_read("<tool_call><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
              {"<tool_call>", "", {"now{}"}, FinishReason::kToolCalls});
}

TEST(AnswerParser, DecidesAboutACallThatBreaksLateByItsMode) {
  const std::string text =
      "a\n<tool_call>{\"name\":\"now\",\"arguments\":{\"a\": oops}}</tool_call>b";
  EXPECT_EQ(read(text, kAll, CallArguments::kWhole, {3}), (Read{text, "", {}}));
  EXPECT_EQ(read(text, kAll, CallArguments::kStreamed, {3}),
            (Read{"ab", "", {"now{\"a\": oops}}..."}, FinishReason::kToolCalls}));
  const std::string function = "<tool_call><function=now>oops</function></tool_call>";
  EXPECT_EQ(read(function, kAll, CallArguments::kWhole, {3}), (Read{function, "", {}}));
}

TEST(AnswerParser, LeavesACallThatTheLimitCutOffACall) {
  expect_read("<tool_call>{\"name\":\"now\",\"arguments\":{\"a\": \"b",
              {"", "", {"now{\"a\": \"b..."}, FinishReason::kLength}, kAll, FinishReason::kLength);
}

TEST(AnswerParser, StreamsArgumentsBeforeTheyAreComplete) {
  AnswerParser parser(kAll, CallArguments::kStreamed, kTools, "p", 3);
  auto events = parser.feed("<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].choice, 3U);
  EXPECT_EQ(std::get<ToolCallStart>(events[0].what).id, "call_p_0");
  EXPECT_EQ(std::get<ToolCallArguments>(events[1].what).fragment, "{\"a\":");
  events = parser.feed("1");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<ToolCallArguments>(events[0].what).fragment, "1");

  AnswerParser function(kAll, CallArguments::kStreamed, kTools, "p");
  function.feed("<tool_call><function=weather><parameter=city>\nLon");
  events = function.feed("don");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<ToolCallArguments>(events[0].what).fragment, "don");
}

TEST(AnswerParser, GivesLogprobsToTheContentOfTheirTokens) {
  AnswerParser parser(kAll, CallArguments::kStreamed, kTools, "p");
  const auto token = [](const char* bytes) { return std::vector<TokenLogprob>{{bytes, -1, {}}}; };
  EXPECT_TRUE(parser.feed("<think>", token("<think>")).empty());
  parser.feed("hm", token("hm"));
  parser.feed("</think>", token("</think>"));
  EXPECT_TRUE(parser.feed("\n\n", token("\n\n")).empty());
  const auto events = parser.feed("Hi", token("Hi"));
  ASSERT_EQ(events.size(), 1U);
  const auto& delta = std::get<TextDelta>(events[0].what);
  ASSERT_EQ(delta.logprobs.size(), 2U);  // the line break came after the marker
  EXPECT_EQ(delta.logprobs[1].bytes, "Hi");
}

// Texts of everything that means something here. However they are cut, they read the same.
TEST(AnswerParser, DoesNotDependOnHowTheTextIsCut) {
  static constexpr std::string_view kPieces[] = {
      "<think>",
      "</think>",
      "<tool_call>",
      "</tool_call>",
      "<function=",
      "now>",
      "weather>",
      "</function>",
      "<parameter=",
      "city>",
      "days>",
      "</parameter>",
      "\n",
      " ",
      "{",
      "}",
      "{\"name\": \"now\", \"arguments\": ",
      "{\"a\": [1, \"x\"]}",
      "\"",
      "\xC3\xA4",
      "\xF0\x9F\x98\x80",
      "abc",
      "<",
      "</",
      "3",
      ",",
      ":",
      "<tool_call>{\"name\":\"now\",\"arguments\":{\"k\":\"v\"}}</tool_call>",
      "<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>"};
  std::mt19937_64 random(5);
  size_t calls = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t n = random() % 14; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    const AnswerFormat format{random() % 2 == 0, random() % 4 == 0, random() % 8 != 0};
    const auto mode = random() % 2 == 0 ? CallArguments::kStreamed : CallArguments::kWhole;
    const auto reason = random() % 2 == 0 ? FinishReason::kStop : FinishReason::kLength;
    const Read whole = read(text, format, mode, {text.size() + 1}, reason);
    calls += whole.calls.size();
    std::vector<size_t> pieces;
    for (size_t n = 0; n < 5; ++n) pieces.push_back(1 + random() % 9);
    ASSERT_EQ(read(text, format, mode, {1}, reason), whole) << text;
    ASSERT_EQ(read(text, format, mode, pieces, reason), whole) << text;
    for (const std::string& call : whole.calls) {
      if (call.ends_with("...")) continue;
      const json arguments = json::parse(call.substr(call.find('{')), nullptr, false);
      ASSERT_TRUE(arguments.is_object()) << call;
    }
  }
  EXPECT_GT(calls, 500U);
}

}  // namespace
}  // namespace kvasir::api
